/* A timer's handler makes and removes segments while the main program does so: signals ROUNDS BYTES */
#include "check.h"
#include <sys/time.h>

static size_t n;
static volatile sig_atomic_t handled;

static void one(const char *name, int value) {
    int fd = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    CHECK(fd >= 0);
    int result;
    do /* tmpfs takes a signal while it reserves: the caller of a library without SA_RESTART sees it as well */
        result = ftruncate(fd, n);
    while (result == -1 && errno == EINTR);
    CHECK(result == 0);
    volatile char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(p != MAP_FAILED);
    for (size_t i = 0; i < n; i += 4096)
        p[i] = value;
    for (size_t i = 0; i < n; i += 4096)
        CHECK(p[i] == (char)value);
    CHECK(munmap((void *)p, n) == 0 && close(fd) == 0 && shm_unlink(name) == 0);
}

static void handler(int number) {
    (void)number;
    int saved = errno;
    one("/handler", 5);
    handled++;
    errno = saved;
}

int main(int argc, char **argv) {
    int rounds = atoi(argv[1]);
    n = bytes_arg(argc, argv, 2);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    /* One shot a round: a timer that repeats would starve a slow machine. */
    for (int i = 0; i < rounds || handled == 0; i++) {
        struct itimerval soon = {{0, 0}, {0, 50 + i * 37 % 1500}};
        CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
        one("/main", i % 100);
    }
    struct itimerval never = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    puts("interrupted and done");
    return 0;
}
