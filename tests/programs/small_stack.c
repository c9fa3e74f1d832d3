/* cflags: -pthread */
/* Segments made and removed by threads with the smallest stack there is (16 KiB), and in a signal handler on an alternate
 * stack of the smallest size. small_stack BYTES */
#include "check.h"
#include <limits.h>
#include <pthread.h>

static size_t n;

static void one(const char *name) {
    int fd = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (fd < 0 || ftruncate(fd, n))
        _exit(2);
    char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        _exit(3);
    memset(p, 1, n);
    if (munmap(p, n) || close(fd) || shm_unlink(name))
        _exit(4);
}

static void *in_thread(void *arg) {
    one(arg);
    return NULL;
}

static void in_handler(int number) {
    (void)number;
    one("/handler");
}

int main(int argc, char **argv) {
    n = bytes_arg(argc, argv, 1);
    pthread_attr_t attr;
    CHECK(pthread_attr_init(&attr) == 0);
    CHECK(pthread_attr_setstacksize(&attr, PTHREAD_STACK_MIN) == 0);
    pthread_t threads[4];
    char names[4][20];
    for (int i = 0; i < 4; i++) {
        sprintf(names[i], "/thread%d", i);
        CHECK(pthread_create(&threads[i], &attr, in_thread, names[i]) == 0);
    }
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    /* PyTorch's handlers run on the ordinary stack; Go's and Julia's on one of their own, 32 KiB and more. */
    stack_t stack = {.ss_size = 32 << 10};
    stack.ss_sp = mmap(NULL, stack.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack.ss_sp != MAP_FAILED && sigaltstack(&stack, NULL) == 0);
    struct sigaction action = {.sa_handler = in_handler, .sa_flags = SA_ONSTACK};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK(raise(SIGUSR1) == 0);
    puts("enough room");
    return 0;
}
