/* Says what happens to one segment, step by step, until it is written or the program dies: fate SIZING BYTES */
#include "check.h"

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 2);
    setvbuf(stdout, NULL, _IONBF, 0);
    int fd = create("/fate");
    CHECK(shm_unlink("/fate") == 0); /* whatever happens leaves nothing */
    errno = 77;
    int result = !strcmp(argv[1], "ftruncate")         ? ftruncate(fd, n)
                 : !strcmp(argv[1], "posix_fallocate") ? posix_fallocate(fd, 0, n)
                                                       : fallocate(fd, 0, 0, n);
    printf("%s: %d, errno %d, size %zu\n", argv[1], result, errno, size_of(fd));
    if (result)
        return 0;
    void *p = map(fd, n);
    fill(p, n, 91);
    verify(p, n, 91);
    puts("written");
    return 0;
}
