/* Maps and unmaps anonymous private memory: anonymous ROUNDS. Counted by callgrind. */
#include "check.h"

int main(int argc, char **argv) {
    int rounds = atoi(argv[1]);
    for (int i = 0; i < rounds; i++) {
        void *p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(p != MAP_FAILED);
        CHECK(munmap(p, 65536) == 0);
    }
    return 0;
}
