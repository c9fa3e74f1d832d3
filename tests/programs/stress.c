/* cflags: -pthread */
/* Threads make, write, check and remove segments while others fork children that do the same and programs that are
 * spawned: stress THREADS ROUNDS BYTES [forks] */
#include "check.h"
#include <pthread.h>

static int rounds;
static size_t n;

static void one(const char *label, int a, int b, size_t bytes) {
    char name[60];
    sprintf(name, "/stress-%s-%d-%d-%d", label, (int)getpid(), a, b);
    int fd = create_sized(name, bytes);
    void *p = map(fd, bytes);
    fill(p, bytes, a * 1000 + b);
    int again = shm_open(name, O_RDWR, 0);
    CHECK(again >= 0 && size_of(again) == bytes);
    void *q = map(again, bytes);
    verify(q, bytes, a * 1000 + b);
    CHECK(shm_unlink(name) == 0);
    verify(p, bytes, a * 1000 + b);
    CHECK(munmap(p, bytes) == 0 && munmap(q, bytes) == 0 && close(fd) == 0 && close(again) == 0);
}

static void *make(void *arg) {
    for (int i = 0; i < rounds; i++)
        one("t", (int)(intptr_t)arg, i, n);
    return NULL;
}

static void *forks(void *arg) {
    (void)arg;
    for (int i = 0; i < rounds; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            one("c", 0, i, n / 4 & ~(size_t)4095);
            _exit(0);
        }
        reap(pid);
    }
    return NULL;
}

int main(int argc, char **argv) {
    int threads = atoi(argv[1]);
    rounds = atoi(argv[2]);
    n = bytes_arg(argc, argv, 3);
    pthread_t ids[65];
    CHECK(threads <= 64);
    for (int i = 0; i < threads; i++)
        CHECK(pthread_create(&ids[i], NULL, make, (void *)(intptr_t)i) == 0);
    if (argc > 4)
        CHECK(pthread_create(&ids[threads], NULL, forks, NULL) == 0);
    for (int i = 0; i < threads + (argc > 4); i++)
        CHECK(pthread_join(ids[i], NULL) == 0);
    puts("all done");
    return 0;
}
