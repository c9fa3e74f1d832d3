/* cflags: -pthread */
/* Tries everything that wants /dev/shm and says how each went; dies of nothing: attempt BYTES */
#include "check.h"
#include <semaphore.h>

static void say(const char *what, int ok) {
    printf("%s: %s\n", what, ok ? "works" : strerror(errno));
}

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    char template[] = "/dev/shm/tryXXXXXX";
    int fd = shm_open("/try", O_CREAT | O_EXCL | O_RDWR, 0600);
    say("shm_open", fd >= 0);
    if (fd >= 0) {
        say("ftruncate", ftruncate(fd, n) == 0);
        void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        say("mmap", p != MAP_FAILED);
        if (p != MAP_FAILED) {
            fill(p, n, 1);
            verify(p, n, 1);
            say("mmap for execution", mmap(NULL, n, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0) != MAP_FAILED);
        }
        say("attach", shm_open("/try", O_RDWR, 0) >= 0);
    }
    say("shm_unlink", shm_unlink("/try") == 0);
    fd = open("/dev/shm/try", O_CREAT | O_RDWR, 0600);
    say("open", fd >= 0);
    say("unlink", unlink("/dev/shm/try") == 0);
    fd = mkstemp(template);
    say("mkstemp", fd >= 0);
    if (fd >= 0)
        say("unlink", unlink(template) == 0);
    say("O_TMPFILE", open("/dev/shm", O_TMPFILE | O_EXCL | O_RDWR, 0600) >= 0);
    sem_t *semaphore = sem_open("/try", O_CREAT | O_EXCL, 0600, 0);
    say("sem_open", semaphore != SEM_FAILED);
    if (semaphore != SEM_FAILED)
        say("sem_unlink", sem_unlink("/try") == 0);
    return 0;
}
