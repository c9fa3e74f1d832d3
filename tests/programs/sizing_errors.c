/* What sizing calls say when they cannot: the same codes, errno and results as without the library. sizing_errors BYTES */
#include "check.h"

static int fd, ro, pipes[2];

#define TRY(call)                                                          \
    do {                                                                   \
        errno = 77;                                                        \
        int r_ = (call);                                                   \
        printf("%s: %d, errno %d\n", #call, r_, r_ == 0 || r_ == -1 ? errno : 0); \
    } while (0)

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    CHECK(pipe(pipes) == 0);
    for (int sized = 0; sized < 2; sized++) {
        fd = create("/errors");
        ro = shm_open("/errors", O_RDONLY, 0);
        if (sized) {
            close(ro);
            CHECK(ftruncate(fd, n) == 0);
            ro = shm_open("/errors", O_RDONLY, 0);
        }
        TRY(ftruncate(-1, 4096));
        TRY(ftruncate(999, 4096));
        TRY(ftruncate(fd, -1));
        TRY(ftruncate(ro, 4096));
        TRY(ftruncate(pipes[0], 4096));
        TRY(truncate("/dev/shm/nothing", 4096));
        TRY(truncate("/dev/shm/errors/x", 4096));
        TRY(truncate("/dev/shm/errors", -1));
        TRY(truncate("", 4096));
        TRY(posix_fallocate(-1, 0, 4096));
        TRY(posix_fallocate(fd, 0, 0));
        TRY(posix_fallocate(fd, -1, 4096));
        TRY(posix_fallocate(fd, 0, -1));
        TRY(posix_fallocate(ro, 0, 4096));
        TRY(posix_fallocate(pipes[1], 0, 4096));
        TRY(fallocate(-1, 0, 0, 4096));
        TRY(fallocate(fd, 0, 0, 0));
        TRY(fallocate(fd, 0, -1, 4096));
        TRY(fallocate(ro, 0, 0, 4096));
        TRY(fallocate(fd, 0x4000, 0, 4096));
        TRY(fallocate(fd, FALLOC_FL_PUNCH_HOLE, 0, 4096)); /* without KEEP_SIZE: not supported */
        TRY(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
        TRY(ftruncate(fd, 0));
        TRY(ftruncate(fd, 0));
        printf("size %zu\n", size_of(fd));
        CHECK(close(fd) == 0 && close(ro) == 0 && shm_unlink("/errors") == 0);
    }
    TRY(posix_fallocate(fd, 0, 4096)); /* closed */
    return 0;
}
