/* cflags: -pthread */
/* Threads use shared memory as they end (destructors of their keys), and others are in the middle of it when the process ends:
 * hostile_ends BYTES ROUNDS */
#include "check.h"
#include <pthread.h>

static size_t n;
static pthread_key_t key;
static pthread_barrier_t running;

static void one(const char *name, size_t bytes) {
    int fd = create_sized(name, bytes);
    char *p = map(fd, bytes);
    p[0] = 1;
    CHECK(shm_unlink(name) == 0 && munmap(p, bytes) == 0 && close(fd) == 0);
}

static void at_end(void *value) {
    char name[40];
    sprintf(name, "/ends-key-%d", (int)(intptr_t)value);
    one(name, n);
}

static void *ends(void *number) {
    CHECK(pthread_setspecific(key, number) == 0);
    char name[40];
    sprintf(name, "/ends-%d", (int)(intptr_t)number);
    one(name, n);
    return NULL;
}

static _Noreturn void *never_ends(void *number) {
    char name[60];
    sprintf(name, "/ends-busy-%d-%d", getpid(), (int)(intptr_t)number);
    one(name, n);
    pthread_barrier_wait(&running);
    for (;;) {
        int fd = shm_open(name, O_CREAT | O_RDWR | O_EXCL, 0600);
        if (fd < 0 || ftruncate(fd, n))
            continue;
        void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        shm_unlink(name);
        munmap(p, n);
        close(fd);
    }
}

static void clean(pid_t pid) {
    for (int i = 0; i < 3; i++) {
        char name[60];
        sprintf(name, "/ends-busy-%d-%d", pid, i);
        shm_unlink(name);
    }
}

int main(int argc, char **argv) {
    n = bytes_arg(argc, argv, 1);
    int rounds = atoi(argv[2]);
    pthread_t ids[4];
    CHECK(pthread_key_create(&key, at_end) == 0);
    for (int round = 0; round < 3; round++) {
        for (intptr_t i = 0; i < 4; i++)
            CHECK(pthread_create(&ids[i], NULL, ends, (void *)(i + 1)) == 0);
        for (int i = 0; i < 4; i++)
            CHECK(pthread_join(ids[i], NULL) == 0);
    }
    puts("threads ended");
    fflush(stdout);
    for (int round = 0; round < rounds; round++) {
        pid_t pid = fork();
        if (pid == 0) {
            CHECK(pthread_barrier_init(&running, NULL, 4) == 0);
            for (intptr_t i = 0; i < 3; i++)
                CHECK(pthread_create(&ids[i], NULL, never_ends, (void *)i) == 0);
            pthread_barrier_wait(&running);
            if (round % 3 == 0)
                return 0; /* destructors and exit handlers run while the threads go on */
            if (round % 3 == 1)
                _exit(0);
            pthread_detach(pthread_self());
            exit(0);
        }
        reap(pid);
        clean(pid);
    }
    puts("processes ended");
    return 0;
}
