/* cflags: -pthread */
/* Many threads make their first segments at the same moment, and go on: at_once THREADS ROUNDS BYTES. In each round every thread makes
 * a small segment and one of BYTES, and removes both. */
#include "check.h"
#include <pthread.h>

static pthread_barrier_t start;
static int rounds;
static size_t bytes;

static void *work(void *argument) {
    long thread = (long)argument;
    char name[2][40];
    pthread_barrier_wait(&start);
    for (int round = 0; round < rounds; round++) {
        for (int large = 0; large < 2; large++) {
            sprintf(name[large], "/at-once-%ld-%d-%d", thread, round, large);
            CHECK(close(create_sized(name[large], large ? bytes : 4096)) == 0);
        }
        CHECK(shm_unlink(name[0]) == 0 && shm_unlink(name[1]) == 0);
    }
    return NULL;
}

int main(int argc, char **argv) {
    int threads = atoi(argv[1]);
    rounds = atoi(argv[2]);
    bytes = bytes_arg(argc, argv, 3);
    CHECK(threads <= 64);
    pthread_t thread[64];
    CHECK(pthread_barrier_init(&start, NULL, threads) == 0);
    for (long i = 0; i < threads; i++)
        CHECK(pthread_create(&thread[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < threads; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
    return 0;
}
