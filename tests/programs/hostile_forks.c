/* cflags: -pthread */
/* Forks, thousands of them, while other threads are inside of hooks: no child may find a lock held by a thread that it does
 * not have. hostile_forks THREADS FORKS BYTES */
#include "check.h"
#include <pthread.h>

static size_t n;
static volatile int over;

/* Only the beginning is touched: what is sized after a fork may have had to stay where it does not fit. */
static void *work(void *arg) {
    char name[40], path[60];
    sprintf(name, "/forks-%d", (int)(intptr_t)arg);
    sprintf(path, "/dev/shm%s", name);
    for (int i = 0; !over; i++) {
        int fd = i % 2 ? create(name) : open(path, O_CREAT | O_EXCL | O_RDWR, 0600);
        CHECK(fd >= 0 && ftruncate(fd, n) == 0);
        char *p = map(fd, n);
        p[0] = 1;
        int again = shm_open(name, O_RDWR, 0);
        CHECK(again >= 0 && size_of(again) == n);
        CHECK((i % 3 ? shm_unlink(name) : unlink(path)) == 0);
        CHECK(munmap(p, n) == 0 && close(fd) == 0 && close(again) == 0);
    }
    return NULL;
}

int main(int argc, char **argv) {
    int threads = atoi(argv[1]), forks = atoi(argv[2]);
    n = bytes_arg(argc, argv, 3);
    pthread_t ids[8];
    CHECK(threads <= 8);
    for (intptr_t i = 0; i < threads; i++)
        CHECK(pthread_create(&ids[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < forks; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            if (i % 16 == 0) { /* every page: the child itself is alone, so what does not fit is moved */
                int fd = create_sized("/forks-child", n);
                char *p = map(fd, n);
                memset(p, i, n);
                CHECK(shm_unlink("/forks-child") == 0);
            } else if (i % 4 == 1) { /* a grandchild */
                IN_CHILD {
                    int fd = create_sized("/forks-child", n);
                    CHECK(shm_unlink("/forks-child") == 0 && close(fd) == 0);
                }
            } else {
                int fd = shm_open("/forks-missing", O_RDWR, 0);
                CHECK(fd == -1 && errno == ENOENT);
            }
            _exit(0);
        }
        reap(pid);
    }
    over = 1;
    for (int i = 0; i < threads; i++)
        CHECK(pthread_join(ids[i], NULL) == 0);
    printf("%d forks\n", forks);
    return 0;
}
