/* A program with a SIGBUS handler of its own (PyTorch, the JVM and Julia keep theirs): it sees its faults, with the address, and
 * goes on. What stays in a /dev/shm that is too small faults as it always did. hostile_sigbus BYTES */
#include "check.h"
#include <setjmp.h>
#include <sys/statvfs.h>

static sigjmp_buf back;
static char *from, *to;
static volatile int faults, wrong;

static void handler(int number, siginfo_t *info, void *context) {
    (void)context;
    faults++;
    wrong += number != SIGBUS || (char *)info->si_addr < from || (char *)info->si_addr >= to || info->si_code != BUS_ADRERR;
    siglongjmp(back, 1);
}

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    struct sigaction action, before;
    for (int number = 1; number < 32; number++) { /* nobody has installed anything before main */
        if (number == SIGKILL || number == SIGSTOP)
            continue;
        CHECK(sigaction(number, NULL, &action) == 0);
        CHECK(action.sa_handler == SIG_DFL);
    }
    action = (struct sigaction){.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGBUS, &action, NULL) == 0);
    for (int round = 0; round < 3; round++) {
        /* a meeting place: never moved */
        int fd = shm_open("/sigbus", O_CREAT | O_RDWR, 0600);
        CHECK(fd >= 0 && ftruncate(fd, n) == 0);
        from = map(fd, n);
        to = from + n;
        if (sigsetjmp(back, 1) == 0) {
            for (size_t at = 0; at < n; at += 4096)
                from[at] = 1;
            puts("no fault");
        } else {
            puts("a fault");
        }
        CHECK(shm_unlink("/sigbus") == 0 && munmap(from, n) == 0 && close(fd) == 0);
    }
    CHECK(sigaction(SIGBUS, NULL, &before) == 0);
    CHECK(before.sa_sigaction == handler && (before.sa_flags & SA_SIGINFO));
    sigset_t set;
    CHECK(sigprocmask(SIG_SETMASK, NULL, &set) == 0);
    for (int number = 1; number < 32; number++)
        CHECK(!sigismember(&set, number));
    printf("faults %d, strange ones %d\n", faults, wrong);
    return 0;
}
