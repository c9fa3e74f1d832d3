/* A child touches every page of a segment of its own; the parent learns how it ended and fails with status 3 when a signal
 * ended it: child_dies NAME BYTES */
#include "check.h"

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 2);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int fd = create(argv[1]);
        CHECK(ftruncate(fd, n) == 0);
        void *p = map(fd, n);
        fill(p, n, 1);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    shm_unlink(argv[1]);
    printf("child %d\n", child);
    return WIFSIGNALED(status) ? 3 : 0;
}
