/* Sizes a segment when the process has no descriptor left: nofile BYTES */
#include "check.h"

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    int fd = create("/nofile"), count = 0;
    while (dup(1) >= 0)
        count++;
    printf("no more: %s\n", strerror(errno));
    CHECK(count < 1000);
    errno = 77;
    CHECK(ftruncate(fd, n) == 0 && errno == 77);
    CHECK(size_of(fd) == n);
    fill(map(fd, n), TOUCHED, 1);
    verify(map_read(fd, n), TOUCHED, 1);
    CHECK(shm_open("/another", O_CREAT | O_EXCL | O_RDWR, 0600) == -1);
    printf("another: %s\n", strerror(errno));
    CHECK(shm_unlink("/nofile") == 0);
    CHECK(shm_unlink("/another") == -1 && errno == ENOENT); /* a failed creation leaves no name */
    return 0;
}
