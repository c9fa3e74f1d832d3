/* cflags: -pthread */
/* Allocates between and around its shared-memory calls, in several threads: allocating BYTES */
#include "check.h"
#include <pthread.h>

static size_t n;

static void *work(void *arg) {
    char name[40];
    for (int i = 0; i < 10; i++) {
        char *text = strdup("something");
        sprintf(name, "/alloc-%d-%d", (int)(intptr_t)arg, i);
        int fd = create_sized(name, n);
        void *p = map(fd, n);
        fill(p, n, i);
        void *big = malloc(3 << 20);
        memset(big, 1, 3 << 20);
        verify(p, n, i);
        CHECK(shm_unlink(name) == 0 && munmap(p, n) == 0 && close(fd) == 0);
        free(big);
        free(text);
    }
    return NULL;
}

int main(int argc, char **argv) {
    n = bytes_arg(argc, argv, 1);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    puts("allocated");
    return 0;
}
