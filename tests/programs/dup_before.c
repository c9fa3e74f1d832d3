/* A second descriptor made before sizing: both must go on to mean one object. dup_before WAY BYTES */
#include "check.h"

int main(int argc, char **argv) {
    int way = atoi(argv[1]);
    size_t n = bytes_arg(argc, argv, 2);
    int fd = create("/twice");
    int other = way == 0   ? dup(fd)
                : way == 1 ? fcntl(fd, F_DUPFD_CLOEXEC, 100)
                : way == 2 ? open("/dev/shm/twice", O_RDONLY) /* old Chromium */
                : way == 3 ? shm_open("/twice", O_RDWR, 0)
                           : open("/dev/shm/twice", O_PATH);
    CHECK(other >= 0);
    CHECK(ftruncate(fd, n) == 0);
    void *p = map(fd, n);
    fill(p, TOUCHED, way);
    CHECK(size_of(other) == n);
    struct stat a, b, name;
    CHECK(fstat(fd, &a) == 0 && fstat(other, &b) == 0 && stat("/dev/shm/twice", &name) == 0);
    CHECK(a.st_dev == b.st_dev && a.st_ino == b.st_ino);
    CHECK(a.st_dev == name.st_dev && a.st_ino == name.st_ino);
    if (way < 4)
        verify(map_read(other, n), TOUCHED, way);
    say_kind("/dev/shm/twice");
    CHECK(close(fd) == 0 && close(other) == 0 && shm_unlink("/twice") == 0);
    return 0;
}
