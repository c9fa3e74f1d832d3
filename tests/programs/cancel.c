/* cflags: -pthread */
/* Threads are cancelled while they wait in open, openat and creat (of a FIFO nobody reads): each ends as cancelled, its
 * clean-up handler having run. cancel DIR */
#include "check.h"
#include <pthread.h>

static const char *fifo;
static int cleaned;
static int way;

static void cleanup(void *arg) {
    (void)arg;
    cleaned++;
}

static void *waits(void *arg) {
    (void)arg;
    pthread_cleanup_push(cleanup, NULL);
    int fd = way == 0 ? open(fifo, O_WRONLY) : way == 1 ? openat(AT_FDCWD, fifo, O_WRONLY) : creat(fifo, 0600);
    printf("opened as %d\n", fd);
    pthread_cleanup_pop(0);
    return NULL;
}

int main(int argc, char **argv) {
    char path[300];
    int fd = create_sized("/before", 65536); /* the library is at work here */
    snprintf(path, sizeof path, "%s/fifo", argv[1]);
    fifo = path;
    CHECK(mkfifo(path, 0600) == 0);
    for (way = 0; way < 3; way++) {
        pthread_t thread;
        void *result;
        cleaned = 0;
        CHECK(pthread_create(&thread, NULL, waits, NULL) == 0);
        CHECK(pthread_cancel(thread) == 0); /* now or when it gets there */
        CHECK(pthread_join(thread, &result) == 0);
        printf("cancelled: %d\n", result == PTHREAD_CANCELED);
    }
    CHECK(unlink(path) == 0 && shm_unlink("/before") == 0 && close(fd) == 0);
    fd = create_sized("/after", 65536);
    CHECK(shm_unlink("/after") == 0);
    return 0;
}
