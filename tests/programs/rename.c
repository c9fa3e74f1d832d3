/* rename of a segment's name: to a free name, over another segment's name, over a small file, and away. rename BYTES */
#include "check.h"

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    int a = create_sized("/a", n), b = create_sized("/b", n);
    void *pa = map(a, n), *pb = map(b, n);
    fill(pa, n, 1);
    fill(pb, n, 2);
    CHECK(rename("/dev/shm/a", "/dev/shm/c") == 0);
    CHECK(shm_open("/a", O_RDWR, 0) == -1);
    printf("old name: %s\n", strerror(errno));
    IN_CHILD verify_named("/c", n, 1);
    CHECK(rename("/dev/shm/c", "/dev/shm/b") == 0); /* b's own segment has no name now */
    IN_CHILD verify_named("/b", n, 1);
    verify(pb, n, 2);
    CHECK(shm_open("/c", O_RDWR, 0) == -1 && errno == ENOENT);
    int small = create("/small");
    CHECK(write(small, "12345678", 8) == 8);
    CHECK(renameat(AT_FDCWD, "/dev/shm/b", AT_FDCWD, "/dev/shm/small") == 0);
    IN_CHILD verify_named("/small", n, 1);
    int plain = create("/plain");
    CHECK(write(plain, "12345678", 8) == 8);
    CHECK(rename("/dev/shm/plain", "/dev/shm/small") == 0); /* a small file over a segment */
    printf("size: %zu\n", size_of(shm_open("/small", O_RDWR, 0)));
    verify(pa, n, 1);
    CHECK(shm_unlink("/small") == 0);

    int x = create_sized("/x", n), y = create_sized("/y", n);
    void *px = map(x, n), *py = map(y, n);
    fill(px, n, 3);
    fill(py, n, 4);
    CHECK(renameat2(AT_FDCWD, "/dev/shm/x", AT_FDCWD, "/dev/shm/y", RENAME_NOREPLACE) == -1);
    printf("RENAME_NOREPLACE: %s\n", strerror(errno));
    CHECK(renameat2(AT_FDCWD, "/dev/shm/x", AT_FDCWD, "/dev/shm/y", RENAME_EXCHANGE) == 0);
    IN_CHILD {
        verify_named("/x", n, 4);
        verify_named("/y", n, 3);
    }
    CHECK(shm_unlink("/x") == 0 && shm_unlink("/y") == 0);
    verify(px, n, 3);
    verify(py, n, 4);
    return 0;
}
