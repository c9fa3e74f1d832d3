/* Becomes another program, found in PATH: shell PROGRAM ARGUMENT... */
#include "check.h"

int main(int argc, char **argv) {
    CHECK(argc > 1);
    execvp(argv[1], argv + 1);
    CHECK(!"it is installed");
}
