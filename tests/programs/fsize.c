/* Sizes a segment under a limit of file sizes: fsize ignore|default BYTES */
#include "check.h"

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 2);
    setvbuf(stdout, NULL, _IONBF, 0);
    if (!strcmp(argv[1], "ignore"))
        signal(SIGXFSZ, SIG_IGN);
    int fd = create("/fsize");
    CHECK(shm_unlink("/fsize") == 0);
    puts("created");
    int result = ftruncate(fd, n);
    printf("ftruncate: %s\n", result ? strerror(errno) : "works");
    result = posix_fallocate(fd, 0, n);
    printf("posix_fallocate: %s\n", result ? strerror(result) : "works");
    if (size_of(fd) == n)
        fill(map(fd, n), n, 1);
    return 0;
}
