/* cflags: -pthread */
/* A program under another allocator: threads allocate all sizes, give back what others took, fork, and use shared memory
 * meanwhile. hostile_malloc BYTES SYMBOL: SYMBOL is a function that only that allocator has. */
#include "check.h"
#include <dlfcn.h>
#include <pthread.h>

enum { SLOTS = 256 };
static size_t n;
static void *slots[SLOTS];
static pthread_mutex_t locks[SLOTS];

static void *work(void *arg) {
    unsigned state = 77 + (unsigned)(intptr_t)arg;
    char name[40];
    for (int i = 0; i < 3000; i++) {
        state = state * 1664525 + 1013904223;
        int slot = (state >> 8) % SLOTS;
        size_t size = (state >> 20) % 100 == 0 ? 3 << 20 : 1 << ((state >> 16) % 15);
        char *fresh = i % 3 ? malloc(size) : calloc(1, size);
        CHECK(fresh != NULL);
        fresh[0] = fresh[size - 1] = 1;
        if (i % 5 == 0)
            CHECK((fresh = realloc(fresh, size * 2)) != NULL);
        pthread_mutex_lock(&locks[slot]);
        void *old = slots[slot];
        slots[slot] = fresh;
        pthread_mutex_unlock(&locks[slot]);
        free(old);
        if (i % 300 == 0) {
            sprintf(name, "/malloc-%d-%d", (int)(intptr_t)arg, i);
            int fd = create_sized(name, n);
            void *p = map(fd, n);
            fill(p, TOUCHED, i);
            void *aligned = aligned_alloc(4096, 65536);
            CHECK(aligned != NULL);
            verify(p, TOUCHED, i);
            free(aligned);
            CHECK(shm_unlink(name) == 0 && munmap(p, n) == 0 && close(fd) == 0);
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    n = bytes_arg(argc, argv, 1);
    if (*argv[2])
        printf("%s: %s\n", argv[2], dlsym(RTLD_DEFAULT, argv[2]) ? "there" : "missing");
    pthread_t threads[3];
    for (int i = 0; i < SLOTS; i++)
        CHECK(pthread_mutex_init(&locks[i], NULL) == 0);
    for (intptr_t i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < 20; i++) {
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            void *p = malloc(1 << 20);
            memset(p, 1, 1 << 20);
            free(p);
            int fd = create_sized("/malloc-child", 65536);
            CHECK(shm_unlink("/malloc-child") == 0 && close(fd) == 0);
            _exit(0);
        }
        reap(pid);
    }
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < 3; i++) {
        int fd = create_sized("/malloc-large", n);
        fill(map(fd, n), n, i);
        IN_CHILD verify_named("/malloc-large", n, i);
        CHECK(shm_unlink("/malloc-large") == 0 && close(fd) == 0);
    }
    puts("allocated");
    return 0;
}
