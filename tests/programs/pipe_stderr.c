/* Descriptor 2 is a pipe that is full, or one whose reader is gone; it is so before the library is loaded into the
 * second life of this program: pipe_stderr full|gone BYTES */
#include "check.h"

/* Makes 2 such a pipe and starts this program again. For "full" the reading end stays open in it, unread. */
static int first_life(char **argv) {
    int ends[2];
    if (pipe(ends))
        return 1;
    if (!strcmp(argv[1], "full")) {
        static char page[4096];
        fcntl(ends[1], F_SETFL, O_NONBLOCK);
        while (write(ends[1], page, sizeof page) > 0 || write(ends[1], page, 1) > 0)
            ;
        fcntl(ends[1], F_SETFL, 0); /* from now on a write waits for a reader */
    } else
        close(ends[0]);
    dup2(ends[1], 2);
    close(ends[1]);
    execl("/proc/self/exe", "self", argv[1], argv[2], "second", NULL);
    return 1;
}

int main(int argc, char **argv) {
    if (argc == 3)
        return first_life(argv);
    size_t n = bytes_arg(argc, argv, 2);
    signal(SIGPIPE, SIG_DFL);
    for (int i = 0; i < 3; i++) {
        errno = 77;
        int fd = create_sized("/pipe", n);
        if (errno != 77)
            printf("errno %d\n", errno);
        fill(map(fd, n), n, i);
        CHECK(shm_unlink("/pipe") == 0);
    }
    sigset_t pending, blocked;
    sigpending(&pending);
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    printf("SIGPIPE pending: %d, blocked: %d\n", sigismember(&pending, SIGPIPE), sigismember(&blocked, SIGPIPE));
    return 0;
}
