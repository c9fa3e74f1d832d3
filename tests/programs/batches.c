/* A healthy loader: batches COUNT BYTES PAUSE_MS ROUNDS. Each round makes COUNT segments, one every PAUSE_MS, and frees all. */
#include "check.h"

int main(int argc, char **argv) {
    CHECK(argc == 5);
    int count = atoi(argv[1]), pause_ms = atoi(argv[3]), rounds = atoi(argv[4]);
    size_t n = bytes_arg(argc, argv, 2);
    char name[40];
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < count; i++) {
            sprintf(name, "/batch-%d", i);
            int fd = create(name);
            CHECK(ftruncate(fd, n) == 0);
            void *p = map(fd, n);
            fill(p, n, i);
            CHECK(munmap(p, n) == 0 && close(fd) == 0);
            CHECK(usleep(pause_ms * 1000) == 0);
        }
        for (int i = 0; i < count; i++) {
            sprintf(name, "/batch-%d", i);
            CHECK(shm_unlink(name) == 0);
        }
    }
    return 0;
}
