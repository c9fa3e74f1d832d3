/* Attaching for reading only, and a creator that may only read. readonly BYTES */
#include "check.h"

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    int fd = create_sized("/ro", n);
    void *p = map(fd, n);
    fill(p, n, 9);
    IN_CHILD {
        int fds[2] = {shm_open("/ro", O_RDONLY, 0), open("/dev/shm/ro", O_RDONLY)};
        for (int i = 0; i < 2; i++) {
            CHECK(fds[i] >= 0);
            void *q = map_read(fds[i], n);
            verify(q, n, 9);
            CHECK(write(fds[i], "x", 1) == -1);
            printf("write: %s\n", strerror(errno));
            CHECK(mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fds[i], 0) == MAP_FAILED);
            printf("mmap for writing: %s\n", strerror(errno));
            CHECK(ftruncate(fds[i], 2 * n) == -1);
            printf("ftruncate: %s\n", strerror(errno));
            CHECK(mprotect(q, n, PROT_READ | PROT_WRITE) == -1);
            printf("mprotect: %s\n", strerror(errno));
            CHECK(posix_fallocate(fds[i], 0, n) == EBADF);
        }
        CHECK(shm_open("/ro", O_RDWR | O_DIRECTORY, 0) == -1);
        printf("O_DIRECTORY: %s\n", strerror(errno));
    }
    CHECK(shm_unlink("/ro") == 0);
    fd = shm_open("/ro", O_CREAT | O_EXCL | O_RDONLY, 0600);
    CHECK(fd >= 0);
    CHECK(ftruncate(fd, n) == -1);
    printf("ftruncate by a creator that may only read: %s\n", strerror(errno));
    CHECK(size_of(fd) == 0);
    CHECK(truncate("/dev/shm/ro", n) == 0);
    printf("size after truncate by name: %zu\n", size_of(fd));
    CHECK(shm_unlink("/ro") == 0);
    return 0;
}
