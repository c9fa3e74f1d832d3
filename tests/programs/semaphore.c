/* cflags: -pthread */
/* Named semaphores are left alone: made, shared, waited for and removed. semaphore */
#include "check.h"
#include <semaphore.h>

int main(void) {
    sem_t *there = sem_open("/there", O_CREAT | O_EXCL, 0600, 0);
    sem_t *back = sem_open("/back", O_CREAT, 0600, 0);
    CHECK(there != SEM_FAILED && back != SEM_FAILED);
    CHECK(sem_open("/there", O_CREAT | O_EXCL, 0600, 0) == SEM_FAILED);
    printf("again: %s\n", strerror(errno));
    say_kind("/dev/shm/sem.there");
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        sem_t *mine = sem_open("/there", 0);
        CHECK(mine != SEM_FAILED);
        CHECK(sem_post(mine) == 0 && sem_wait(back) == 0);
        _exit(0);
    }
    CHECK(sem_wait(there) == 0 && sem_post(back) == 0);
    reap(child);
    CHECK(sem_unlink("/there") == 0 && sem_unlink("/back") == 0);
    puts("met");
    return 0;
}
