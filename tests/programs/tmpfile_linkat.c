/* A nameless file that is given a name after it was sized. tmpfile_linkat BYTES */
#include "check.h"

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    int fd = open("/dev/shm", O_TMPFILE | O_RDWR, 0600);
    CHECK(fd >= 0);
    CHECK(ftruncate(fd, n) == 0);
    fill(map(fd, n), TOUCHED, 77);
    char proc[40];
    sprintf(proc, "/proc/self/fd/%d", fd);
    CHECK(linkat(AT_FDCWD, proc, AT_FDCWD, "/dev/shm/named", AT_SYMLINK_FOLLOW) == 0);
    int other = shm_open("/named", O_RDWR, 0);
    CHECK(other >= 0 && size_of(other) == n);
    verify(map(other, n), TOUCHED, 77);
    say_kind("/dev/shm/named");
    CHECK(shm_unlink("/named") == 0);
    return 0;
}
