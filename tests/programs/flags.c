/* Descriptor and file status flags survive: O_CLOEXEC, O_APPEND, O_NONBLOCK, O_SYNC, and what F_SETFD and F_SETFL
 * changed before sizing. flags BYTES */
#include "check.h"

static void show(const char *label, int fd, size_t n, int write_only) {
    CHECK(fd >= 0);
    int before_fd = fcntl(fd, F_GETFD), before_fl = fcntl(fd, F_GETFL);
    CHECK(ftruncate(fd, n) == 0);
    CHECK(size_of(fd) == n);
    printf("%s: descriptor flags %d, access %d, status %o\n", label, fcntl(fd, F_GETFD), fcntl(fd, F_GETFL) & O_ACCMODE,
           fcntl(fd, F_GETFL) & (O_APPEND | O_NONBLOCK | O_SYNC | O_DSYNC | O_NOATIME));
    CHECK(before_fd == fcntl(fd, F_GETFD));
    CHECK((before_fl & (O_ACCMODE | O_APPEND | O_NONBLOCK | O_SYNC | O_DSYNC | O_NOATIME)) ==
          (fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND | O_NONBLOCK | O_SYNC | O_DSYNC | O_NOATIME)));
    if (!write_only) {
        void *p = map(fd, n);
        fill(p, n, 5);
        CHECK(munmap(p, n) == 0);
    }
    CHECK(close(fd) == 0);
    CHECK(unlink("/dev/shm/flags") == 0);
}

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    int base = O_CREAT | O_EXCL | O_RDWR, fd;
    const char *path = "/dev/shm/flags";
    show("shm_open", shm_open("/flags", base, 0600), n, 0);
    show("open", open(path, base, 0600), n, 0);
    show("open O_CLOEXEC", open(path, base | O_CLOEXEC, 0600), n, 0);
    show("open O_APPEND", open(path, base | O_APPEND, 0600), n, 0);
    show("open O_NONBLOCK", open(path, base | O_NONBLOCK, 0600), n, 0);
    show("open O_SYNC", open(path, base | O_SYNC, 0600), n, 0);
    show("open O_DSYNC", open(path, base | O_DSYNC, 0600), n, 0);
    show("open O_NOATIME", open(path, base | O_NOATIME, 0600), n, 0);
    show("open O_WRONLY", open(path, O_CREAT | O_EXCL | O_WRONLY, 0600), n, 1);
    show("shm_open O_NONBLOCK", shm_open("/flags", base | O_NONBLOCK, 0600), n, 0);
    fd = shm_open("/flags", base, 0600);
    CHECK(fcntl(fd, F_SETFD, 0) == 0);
    show("shm_open, F_SETFD 0", fd, n, 0);
    fd = open(path, base, 0600);
    CHECK(fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 && fcntl(fd, F_SETFL, O_APPEND | O_NONBLOCK) == 0);
    show("open, F_SETFD and F_SETFL", fd, n, 0);
    fd = dup2(open(path, base, 0600), 700); /* a number far away */
    CHECK(fd == 700);
    for (int other = 3; other < 20; other++)
        close(other);
    show("descriptor 700", fd, n, 0);
    return 0;
}
