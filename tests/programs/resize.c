/* A segment grows, shrinks and grows again; what was cut off comes back as zeros. resize BYTES */
#include "check.h"

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    int fd = create_sized("/resize", n);
    void *p = map(fd, n);
    fill(p, n, 40);
    CHECK(ftruncate(fd, 2 * n) == 0);
    IN_CHILD {
        int other = shm_open("/resize", O_RDWR, 0);
        CHECK(size_of(other) == 2 * n);
        char *q = map(other, 2 * n);
        verify(q, n, 40);
        verify_zero(q + n, n);
        fill(q, 2 * n, 41);
    }
    void *grown = mremap(p, n, 2 * n, MREMAP_MAYMOVE);
    CHECK(grown != MAP_FAILED);
    verify(grown, 2 * n, 41);
    CHECK(munmap(grown, 2 * n) == 0);
    CHECK(ftruncate(fd, 4096) == 0);
    CHECK(size_of(fd) == 4096);
    CHECK(ftruncate(fd, n) == 0);
    p = map(fd, n);
    verify(p, 4096, 41);
    verify_zero((char *)p + 4096, n - 4096);
    CHECK(posix_fallocate(fd, 0, 2 * n) == 0);
    CHECK(size_of(fd) == 2 * n);
    CHECK(truncate("/dev/shm/resize", n) == 0);
    CHECK(size_of(fd) == n);
    fill(p, n, 42);
    verify_named("/resize", n, 42);
    CHECK(shm_unlink("/resize") == 0);
    puts("grown, shrunk and grown");
    return 0;
}
