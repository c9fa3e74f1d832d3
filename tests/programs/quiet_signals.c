/* Nothing of the library's leases is to be seen: no SIGIO, no owner set on the descriptor, the signal mask as it was; with
 * an attacher that came early, and without one. quiet_signals BYTES */
#include "check.h"

static volatile sig_atomic_t sigio;

static void count(int number) {
    (void)number;
    sigio++;
}

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    signal(SIGIO, count);
    for (int early = 1; early >= 0; early--) { /* first, since after one that was moved the next is a link at once */
        struct turns turns = turns_new();
        pid_t child = fork();
        if (child == 0) {
            turn_take(turns.to_child);
            if (early)
                CHECK(shm_open("/quiet", O_RDWR, 0) >= 0);
            turn_give(turns.to_parent);
            turn_take(turns.to_child);
            _exit(0);
        }
        int fd = create("/quiet");
        turn_give(turns.to_child);
        turn_take(turns.to_parent);
        CHECK(ftruncate(fd, n) == 0);
        fill(map(fd, n), TOUCHED, 1);
        struct f_owner_ex owner = {0};
        CHECK(fcntl(fd, F_GETOWN_EX, &owner) == 0);
        sigset_t mask, pending;
        CHECK(sigprocmask(SIG_BLOCK, NULL, &mask) == 0 && sigpending(&pending) == 0);
        printf("SIGIO %d, owner %d, signal %d, lease %d, blocked %d, pending %d\n", (int)sigio, owner.pid,
               fcntl(fd, F_GETSIG), fcntl(fd, F_GETLEASE), sigismember(&mask, SIGIO), sigismember(&pending, SIGIO));
        turn_give(turns.to_child);
        reap(child);
        CHECK(shm_unlink("/quiet") == 0 && close(fd) == 0);
    }
    return 0;
}
