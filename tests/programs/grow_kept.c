/* A segment that fitted grows beyond what fits: mapped already, or not; its beginning stays what it was.
 * grow_kept mapped|unmapped|closed FIRST BYTES; only the beginning is touched. */
#include "check.h"

int main(int argc, char **argv) {
    size_t first = bytes_arg(argc, argv, 2), n = bytes_arg(argc, argv, 3);
    int fd = create_sized("/grow", first);
    char data[4096];
    fill(data, sizeof data, 5);
    CHECK(pwrite(fd, data, sizeof data, 0) == sizeof data);
    char *early = NULL;
    if (!strcmp(argv[1], "mapped"))
        early = map(fd, first);
    if (!strcmp(argv[1], "closed")) {
        CHECK(close(fd) == 0);
        fd = shm_open("/grow", O_RDWR, 0);
        CHECK(fd >= 0);
    }
    CHECK(ftruncate(fd, n) == 0);
    CHECK(size_of(fd) == n);
    char *late = map(fd, n);
    verify(late, sizeof data, 5);
    fill(late, TOUCHED, 6);
    if (early)
        verify(early, TOUCHED, 6);
    IN_CHILD {
        int other = shm_open("/grow", O_RDWR, 0);
        CHECK(other >= 0 && size_of(other) == n);
        verify(map(other, n), TOUCHED, 6);
    }
    CHECK(shm_unlink("/grow") == 0);
    puts("grown");
    return 0;
}
