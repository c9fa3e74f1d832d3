/* Attachers poll the names of segments that are being created, SIGIO at its default (it ends the process): whoever has got a
 * file before it was sized must see the size and the content come, and nobody dies of the creator's lease.
 * hostile_poll ROUNDS BYTES HOW
 * HOW the attacher opens: by libc, or by kernel alone, as a program without the library does. Such a one may, very rarely, be
 * left with the empty file (docs/architecture.md): it is counted, and the next round goes on. */
#include "check.h"
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* Shared by creator and attacher. Neither waits for the other but where the attacher has an empty file. */
struct meeting {
    volatile long round;   /* the name that is being created */
    volatile long written; /* the last one that has its size and its content */
    volatile long early, late;
    volatile long kept; /* empty files that an attacher by kernel was left with */
};

static int by_libc(const char *path) {
    return open(path, O_RDWR);
}

static int by_kernel(const char *path) {
    return syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
}

static void attach(struct meeting *m, int (*opens)(const char *), long rounds, size_t n) {
    for (long i; (i = m->round) <= rounds;) {
        char path[60];
        int fd, turns = 0;
        sprintf(path, "/dev/shm/poll-%ld", i);
        while ((fd = opens(path)) < 0 && m->round == i) {
            CHECK(errno == ENOENT);
            if (turns++ % 64 == 63)
                sched_yield(); /* where there is one processor only */
        }
        if (fd < 0)
            continue;
        size_t size = size_of(fd);
        if (size == 0) {
            m->early++;
            while (m->written < i)
                sched_yield();
            size = size_of(fd);
            if (size == 0) {
                char link[40], where[200] = "";
                sprintf(link, "/proc/self/fd/%d", fd);
                CHECK(readlink(link, where, sizeof where - 1) > 0);
                fprintf(stderr, "an attacher keeps the empty file of round %ld: %s\n", i, where);
                if (opens == by_libc || !strstr(where, "/.shmguard-")) /* what the exchange took away, by its last name; nothing else */
                    _exit(3);
                CHECK(close(fd) == 0);
                m->kept++;
                while (m->round == i)
                    sched_yield();
                continue;
            }
        } else {
            m->late++;
            while (m->written < i)
                sched_yield();
        }
        CHECK(size == n);
        volatile long *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        CHECK(p != MAP_FAILED);
        CHECK(p[0] == i); /* else it is another object */
        CHECK(munmap((void *)p, 4096) == 0 && close(fd) == 0);
        while (m->round == i)
            sched_yield();
    }
}

int main(int argc, char **argv) {
    long rounds = atol(argv[1]);
    size_t n = bytes_arg(argc, argv, 2);
    struct meeting *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(m != MAP_FAILED);
    m->round = 1;
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
        attach(m, strcmp(argv[3], "kernel") ? by_libc : by_kernel, rounds, n);
        _exit(0);
    }
    for (long i = 1; i <= rounds; i++) {
        char path[60];
        sprintf(path, "/dev/shm/poll-%ld", i);
        m->round = i;
        int fd = open(path, O_CREAT | O_EXCL | O_RDWR, 0600);
        CHECK(fd >= 0 && ftruncate(fd, n) == 0);
        volatile long *p = map(fd, n);
        p[0] = i;
        m->written = i;
        CHECK(unlink(path) == 0 && munmap((void *)p, n) == 0 && close(fd) == 0);
    }
    m->round = rounds + 1;
    reap(pid);
    fprintf(stderr, "came early %ld times, late %ld times, kept %ld empty files\n", m->early, m->late, m->kept);
    printf("%ld rounds\n", rounds);
    return 0;
}
