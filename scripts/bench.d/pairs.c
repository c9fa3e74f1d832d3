// usage: pairs N
// Maps 64 KiB of private anonymous memory and unmaps it, N times.
#include <stdlib.h>
#include <sys/mman.h>

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    for (int left = atoi(argv[1]); left > 0; left--) {
        void *memory = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED || munmap(memory, 65536) != 0)
            return 1;
    }
    return 0;
}
