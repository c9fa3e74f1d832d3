/* Many segments alive at once, by several workers: many WORKERS COUNT BYTES [wait]. wait: the parent says "all there" and
 * waits while they are. Every second one is unlinked at once, as
 * PyTorch does; each worker keeps all of its own until all workers have written theirs, then every byte is checked. */
#include "check.h"

static void work(int worker, int count, size_t n, int arrived, int all_there) {
    void **p = calloc(count, sizeof *p);
    char name[40];
    for (int i = 0; i < count; i++) {
        sprintf(name, "/many-%d-%d", worker, i);
        int fd = create(name);
        CHECK(i % 3 == 2 ? posix_fallocate(fd, 0, n) == 0 : ftruncate(fd, n) == 0);
        p[i] = map(fd, n);
        if (i % 2)
            CHECK(shm_unlink(name) == 0);
        fill(p[i], n, worker * 1000 + i);
        CHECK(close(fd) == 0);
    }
    char c;
    CHECK(write(arrived, "x", 1) == 1);
    CHECK(read(all_there, &c, 1) == 0); /* end of file: the parent closed it */
    for (int i = 0; i < count; i++) {
        verify(p[i], n, worker * 1000 + i);
        sprintf(name, "/many-%d-%d", worker, i);
        if (i % 2 == 0) {
            verify_named(name, n, worker * 1000 + i);
            CHECK(shm_unlink(name) == 0);
        }
        CHECK(munmap(p[i], n) == 0);
    }
}

int main(int argc, char **argv) {
    int workers = atoi(argv[1]), count = atoi(argv[2]), arrived[2], all_there[2];
    size_t n = bytes_arg(argc, argv, 3);
    CHECK(pipe(arrived) == 0 && pipe(all_there) == 0);
    pid_t pids[64];
    CHECK(workers <= 64);
    for (int w = 0; w < workers; w++)
        if ((pids[w] = fork()) == 0) {
            CHECK(close(all_there[1]) == 0);
            work(w, count, n, arrived[1], all_there[0]);
            exit(0); /* with its exit handlers: the library's last words */
        }
    CHECK(close(arrived[1]) == 0);
    char c;
    for (int w = 0; w < workers; w++)
        CHECK(read(arrived[0], &c, 1) == 1); /* end of file here: a worker died */
    if (argc > 4)
        say_and_wait("all there");
    CHECK(close(all_there[1]) == 0);
    for (int w = 0; w < workers; w++)
        reap(pids[w]);
    printf("%d segments, %zu bytes alive\n", workers * count, workers * count * n);
    return 0;
}
