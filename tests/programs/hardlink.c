/* A second name by link(2), as sem_open and others make one; the first name goes, the second one stays. hardlink BYTES */
#include "check.h"

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    for (int way = 0; way < 3; way++) {
        int fd = create_sized("/first", n);
        void *p = map(fd, n);
        fill(p, n, 30 + way);
        if (way == 0)
            CHECK(link("/dev/shm/first", "/dev/shm/second") == 0);
        else
            CHECK(linkat(AT_FDCWD, "/dev/shm/first", AT_FDCWD, "/dev/shm/second", way == 2 ? AT_SYMLINK_FOLLOW : 0) == 0);
        IN_CHILD verify_named("/second", n, 30 + way);
        CHECK(shm_unlink("/first") == 0);
        CHECK(shm_open("/first", O_RDWR, 0) == -1 && errno == ENOENT);
        IN_CHILD {
            verify_named("/second", n, 30 + way);
            CHECK(open("/dev/shm/second", O_RDWR) >= 0);
        }
        verify(p, n, 30 + way);
        CHECK(shm_unlink("/second") == 0);
        CHECK(shm_open("/second", O_RDWR, 0) == -1);
        printf("both gone: %s\n", strerror(errno));
        verify(p, n, 30 + way);
        CHECK(munmap(p, n) == 0 && close(fd) == 0);
    }
    return 0;
}
