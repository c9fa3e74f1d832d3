/* As a loader: COUNT batches of BYTES and as many of 256 bytes alive at once, ROUNDS times: loader COUNT BYTES ROUNDS */
#include "check.h"

static void make(const char *kind, int i, size_t n) {
    char name[40];
    sprintf(name, "/torch_%s_%d", kind, i);
    int fd = create_sized(name, n);
    void *p = map(fd, n);
    fill(p, n < 4096 ? n : 4096, i);
    CHECK(munmap(p, n) == 0 && close(fd) == 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    int count = atoi(argv[1]);
    size_t n = bytes_arg(argc, argv, 2);
    char name[40];
    for (int round = 0; round < atoi(argv[3]); round++) {
        for (int i = 0; i < count; i++) {
            make("data", i, n);
            make("labels", i, 256);
        }
        for (int i = 0; i < count; i++) {
            sprintf(name, "/torch_data_%d", i);
            CHECK(shm_unlink(name) == 0);
            sprintf(name, "/torch_labels_%d", i);
            CHECK(shm_unlink(name) == 0);
        }
    }
    return 0;
}
