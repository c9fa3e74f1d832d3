/* Mode and owner of a segment: umask, umask 0, fchmod and fchown between creating and sizing. mode BYTES */
#include "check.h"

static void show(const char *what, const struct stat *st) {
    printf("%s: mode %o, uid %d, gid %d, size %lld\n", what, (unsigned)st->st_mode, (int)st->st_uid, (int)st->st_gid,
           (long long)st->st_size);
}

static void one(const char *label, mode_t mask, mode_t mode, int change, int owner, size_t n) {
    struct stat st;
    umask(mask);
    int fd = shm_open("/moded", O_CREAT | O_EXCL | O_RDWR, mode);
    CHECK(fd >= 0);
    if (change >= 0)
        CHECK(fchmod(fd, change) == 0);
    if (owner >= 0)
        CHECK(fchown(fd, owner, owner) == 0);
    CHECK(ftruncate(fd, n) == 0);
    void *p = map(fd, n);
    fill(p, n, 1);
    CHECK(fstat(fd, &st) == 0);
    printf("%s, ", label);
    show("descriptor", &st);
    IN_CHILD {
        CHECK(stat("/dev/shm/moded", &st) == 0);
        show("name", &st);
        verify_named("/moded", n, 1);
    }
    CHECK(chmod("/dev/shm/moded", 0604) == 0);
    CHECK(fstat(fd, &st) == 0);
    show("after chmod by name", &st);
    CHECK(munmap(p, n) == 0 && close(fd) == 0 && shm_unlink("/moded") == 0);
}

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    one("umask 022", 022, 0666, -1, -1, n);
    one("umask 077", 077, 0666, -1, -1, n);
    one("umask 0", 0, 0666, -1, -1, n);
    one("mode 0", 022, 0, -1, -1, n);
    one("set-gid bit", 0, 02750, -1, -1, n);
    one("fchmod", 077, 0600, 0644, -1, n);
    if (geteuid() == 0)
        one("fchown", 022, 0660, -1, 1234, n);
    return 0;
}
