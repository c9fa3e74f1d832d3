/* Attaches to a segment that another program made, by every call, and says how it went.
 * peer NAME BYTES SEED: each way prints "content" or its error. */
#include "check.h"

static void report(const char *how, int fd, size_t n, int seed) {
    if (fd < 0) {
        printf("%s: %s\n", how, strerror(errno));
        return;
    }
    if (size_of(fd) != n) {
        printf("%s: another object of %zu bytes\n", how, size_of(fd));
        return;
    }
    verify(map_read(fd, n), n, seed);
    printf("%s: content\n", how);
    CHECK(close(fd) == 0);
}

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 2);
    int seed = atoi(argv[3]);
    char path[300];
    snprintf(path, sizeof path, "/dev/shm%s", argv[1]);
    report("shm_open read", shm_open(argv[1], O_RDONLY, 0), n, seed);
    report("shm_open write", shm_open(argv[1], O_RDWR, 0), n, seed);
    report("shm_open create", shm_open(argv[1], O_RDWR | O_CREAT, 0666), n, seed);
    report("open read", open(path, O_RDONLY), n, seed);
    report("open write", open(path, O_RDWR), n, seed);
    report("open create", open(path, O_RDWR | O_CREAT, 0666), n, seed);
    report("open no follow", open(path, O_RDWR | O_NOFOLLOW), n, seed);
    report("openat", openat(AT_FDCWD, path, O_RDWR), n, seed);
    FILE *stream = fopen(path, "r+");
    report("fopen", stream ? fileno(stream) : -1, n, seed);
    return 0;
}
