/* cflags: -pthread */
/* Handlers that use shared memory, in several threads, whatever those are doing: hostile_handlers SIGNALS BYTES */
#include "check.h"
#include <pthread.h>
#include <semaphore.h>

static size_t n;
static volatile int over;
static sem_t handled;
static pthread_t threads[3];
static __thread int self;

static void one(const char *what) {
    char name[40], path[60];
    sprintf(name, "/%s-%d", what, self);
    sprintf(path, "/dev/shm%s", name);
    int fd = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    CHECK(fd >= 0);
    int result;
    do
        result = ftruncate(fd, n);
    while (result == -1 && errno == EINTR);
    CHECK(result == 0);
    char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(p != MAP_FAILED);
    for (size_t i = 0; i < n; i += 4096)
        p[i] = self + 1;
    int again = open(path, O_RDWR);
    CHECK(again >= 0);
    CHECK(p[n - 4096] == self + 1);
    CHECK(unlink(path) == 0 && munmap(p, n) == 0 && close(fd) == 0 && close(again) == 0);
}

static void handler(int number) {
    (void)number;
    int saved = errno;
    one("handler");
    errno = saved;
    sem_post(&handled);
}

static void *work(void *arg) {
    self = (int)(intptr_t)arg;
    while (!over)
        one("thread");
    return NULL;
}

int main(int argc, char **argv) {
    int signals = atoi(argv[1]);
    n = bytes_arg(argc, argv, 2);
    CHECK(sem_init(&handled, 0, 0) == 0);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    for (intptr_t i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
    for (int i = 0; i < signals; i++) {
        CHECK(pthread_kill(threads[i % 3], SIGUSR1) == 0);
        while (sem_wait(&handled))
            CHECK(errno == EINTR);
    }
    over = 1;
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    printf("%d handled\n", signals);
    return 0;
}
