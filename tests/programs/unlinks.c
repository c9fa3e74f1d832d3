/* shm_unlink: unlinks NAME */
#include "check.h"

int main(int argc, char **argv) {
    CHECK(argc == 2);
    CHECK(shm_unlink(argv[1]) == 0);
    return 0;
}
