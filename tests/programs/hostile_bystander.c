/* Bystanders make and fill small segments while requests that cannot be met are turned away; one of them has the library, the
 * other has not. Without the library such a request takes every free page before it fails, and bystanders die of SIGBUS.
 * hostile_bystander ROUNDS BYTES... (sizes of the requests) */
#include "check.h"
#include <sys/prctl.h>

static void fill_small(const char *name, volatile int *over, volatile long *rounds) {
    size_t n = 64 << 10;
    while (!*over) {
        int fd = create_sized(name, n);
        void *p = map(fd, n);
        fill(p, n, *rounds);
        verify(p, n, *rounds);
        CHECK(shm_unlink(name) == 0 && munmap(p, n) == 0 && close(fd) == 0);
        ++*rounds;
    }
}

static void lives(const char *who, pid_t pid) {
    int status;
    if (waitpid(pid, &status, WNOHANG) == 0)
        return;
    fprintf(stderr, "%s ended: exit %d, signal %d\n", who, WIFEXITED(status) ? WEXITSTATUS(status) : -1,
            WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    _exit(1);
}

int main(int argc, char **argv) {
    if (!strcmp(argv[1], "stranger")) {
        char *shared = map(atoi(argv[2]), 4096);
        fill_small("/bystander-stranger", (int *)shared, (long *)(shared + 128));
        return 0;
    }
    int rounds = atoi(argv[1]);
    int fd = memfd_create("shared", 0);
    CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
    char *shared = map(fd, 4096);
    volatile int *over = (int *)shared;
    volatile long *done = (long *)(shared + 64), *stranger_done = (long *)(shared + 128);
    pid_t own = fork();
    if (own == 0) {
        CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
        fill_small("/bystander-own", over, done);
        _exit(0);
    }
    pid_t stranger = fork();
    if (stranger == 0) {
        CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
        char number[20];
        sprintf(number, "%d", fd);
        unsetenv("LD_PRELOAD");
        execl("/proc/self/exe", "self", "stranger", number, NULL);
        _exit(127);
    }
    while (*done == 0 || *stranger_done == 0)
        usleep(1000);
    int refused = 0;
    for (int i = 0; i < rounds; i++) {
        size_t n = bytes_arg(argc, argv, 2 + i % (argc - 2));
        int segment = shm_open("/bystander-large", O_CREAT | O_RDWR, 0600); /* a meeting place: never moved */
        CHECK(segment >= 0);
        if (i % 3 == 0) {
            int error = posix_fallocate(segment, 0, n);
            CHECK(error == 0 || error == ENOSPC);
            refused += error != 0;
        } else if (i % 3 == 1) {
            int result = fallocate(segment, 0, 0, n);
            CHECK(result == 0 || errno == ENOSPC);
            refused += result != 0;
        } else {
            int result = ftruncate(segment, n);
            CHECK(result == 0 || errno == ENOSPC); /* refused in mode refuse */
            void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, segment, 0);
            CHECK(p != MAP_FAILED && munmap(p, n) == 0);
        }
        CHECK(shm_unlink("/bystander-large") == 0 && close(segment) == 0);
    }
    long before = *done, stranger_before = *stranger_done;
    while (*done == before || *stranger_done == stranger_before) { /* both live, and go on */
        lives("the one with the library", own);
        lives("the stranger", stranger);
        usleep(1000);
    }
    *over = 1;
    reap(own);
    reap(stranger);
    CHECK(refused > 0);
    puts("both live");
    return 0;
}
