/* cflags: -fsanitize=address -fno-omit-frame-pointer -pthread */
/* A program built with AddressSanitizer: hostile_asan BYTES [bug]. With bug it reads freed memory at the end, which the
 * sanitizer must catch. */
#include "check.h"
#include <pthread.h>

static size_t n;

static void *work(void *arg) {
    char name[40];
    for (int i = 0; i < 10; i++) {
        sprintf(name, "/asan-%d-%d", (int)(intptr_t)arg, i);
        char *copy = strdup(name);
        int fd = create_sized(copy, n);
        void *p = map(fd, n);
        fill(p, TOUCHED, i);
        verify(p, TOUCHED, i);
        CHECK(shm_unlink(copy) == 0 && munmap(p, n) == 0 && close(fd) == 0);
        free(copy);
    }
    return NULL;
}

int main(int argc, char **argv) {
    n = bytes_arg(argc, argv, 1);
    pthread_t threads[3];
    for (intptr_t i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    int fd = create_sized("/asan", n);
    fill(map(fd, n), n, 5);
    IN_CHILD verify_named("/asan", n, 5);
    CHECK(shm_unlink("/asan") == 0);
    puts("clean");
    fflush(stdout);
    if (argc > 2) {
        volatile char *freed = malloc(100);
        volatile char *same = freed;
        __asm__ volatile("" : "+r"(same)); /* so that the compiler does not see it */
        free((void *)freed);
        return same[7];
    }
    return 0;
}
