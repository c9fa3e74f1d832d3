/* One life of a segment: segment CREATE SIZING BYTES, with every way to create and to size one.
 * The whole segment is written, read back, attached by name from another program by each way to open, and removed. */
#include "check.h"

static char path[300]; /* empty: no name */

static int make(const char *how) {
    int flags = O_CREAT | O_EXCL | O_RDWR;
    strcpy(path, "/dev/shm/seg");
    if (!strcmp(how, "shm_open"))
        return shm_open("/seg", flags, 0600);
    if (!strcmp(how, "open"))
        return open(path, flags, 0600);
    if (!strcmp(how, "open_no_excl"))
        return open(path, O_CREAT | O_RDWR, 0600);
    if (!strcmp(how, "openat_absolute"))
        return openat(-1, path, flags, 0600);
    if (!strcmp(how, "openat_directory")) {
        int dir = open("/dev/shm", O_RDONLY | O_DIRECTORY);
        CHECK(dir >= 0);
        int fd = openat(dir, "seg", flags, 0600);
        CHECK(close(dir) == 0);
        return fd;
    }
    if (!strcmp(how, "open_relative")) {
        CHECK(chdir("/dev/shm") == 0);
        return open("seg", flags, 0600);
    }
    if (!strcmp(how, "creat"))
        return creat(path, 0600);
    if (!strcmp(how, "mkstemp"))
        return mkstemp(strcpy(path, "/dev/shm/nXXXXXX"));
    if (!strcmp(how, "mkostemp"))
        return mkostemp(strcpy(path, "/dev/shm/nXXXXXX"), O_CLOEXEC);
    if (!strcmp(how, "mkstemps"))
        return mkstemps(strcpy(path, "/dev/shm/nXXXXXX.seg"), 4);
    if (!strcmp(how, "mkostemps"))
        return mkostemps(strcpy(path, "/dev/shm/nXXXXXX.seg"), 4, O_CLOEXEC);
    path[0] = 0;
    CHECK(!strcmp(how, "tmpfile"));
    return open("/dev/shm", O_TMPFILE | O_EXCL | O_RDWR, 0600);
}

static void size_it(const char *how, int fd, size_t n) {
    if (!strcmp(how, "ftruncate"))
        CHECK(ftruncate(fd, n) == 0);
    else if (!strcmp(how, "truncate"))
        CHECK(truncate(path, n) == 0);
    else if (!strcmp(how, "posix_fallocate"))
        CHECK(posix_fallocate(fd, 0, n) == 0);
    else if (!strcmp(how, "fallocate"))
        CHECK(fallocate(fd, 0, 0, n) == 0);
    else if (!strcmp(how, "fallocate_keep_size")) {
        CHECK(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, n) == 0);
        CHECK(size_of(fd) == 0);
        CHECK(ftruncate(fd, n) == 0);
    } else if (!strcmp(how, "lseek_write")) {
        CHECK(lseek(fd, n - 1, SEEK_SET) == (off_t)n - 1);
        CHECK(write(fd, "", 1) == 1);
    } else if (!strcmp(how, "pwrite"))
        CHECK(pwrite(fd, "", 1, n - 1) == 1);
    else if (!strcmp(how, "ftruncate_posix_fallocate_write")) { /* PyTorch since 2.10 */
        CHECK(ftruncate(fd, n) == 0);
        CHECK(posix_fallocate(fd, 0, n) == 0);
        CHECK(write(fd, "", 1) == 1);
    } else
        CHECK(!"a way to size");
}

static void attach(const char *at, size_t n) {
    volatile int flags = O_RDWR; /* not a constant: the fortified forms become __open_2 and __openat_2 */
    struct stat st;
    CHECK(stat(at, &st) == 0 && S_ISREG(st.st_mode) && (size_t)st.st_size == n);
    int fds[3] = {open(at, flags), openat(AT_FDCWD, at, flags), shm_open(strrchr(at, '/'), O_RDWR, 0)};
    for (int i = 0; i < 3; i++) {
        CHECK(fds[i] >= 0);
        CHECK(size_of(fds[i]) == n);
        void *p = map(fds[i], n);
        verify(p, n, 7);
        CHECK(munmap(p, n) == 0);
    }
}

int main(int argc, char **argv) {
    if (!strcmp(argv[1], "attach")) {
        attach(argv[2], bytes_arg(argc, argv, 3));
        return 0;
    }
    size_t n = bytes_arg(argc, argv, 3);
    int fd = make(argv[1]);
    CHECK(fd >= 0);
    errno = 77;
    size_it(argv[2], fd, n);
    CHECK(errno == 77);
    if (!strcmp(argv[1], "creat")) { /* write only: no mapping through this one */
        CHECK(close(fd) == 0);
        fd = open(path, O_RDWR);
        CHECK(fd >= 0);
    }
    CHECK(size_of(fd) == n);
    void *p = map(fd, n);
    CHECK(errno == 77);
    verify_zero(p, n);
    fill(p, n, 7);
    verify(p, n, 7);
    if (path[0]) {
        run_self("attach", path, argv[3], NULL);
        errno = 77;
        CHECK((strcmp(argv[1], "shm_open") ? unlink(path) : shm_unlink("/seg")) == 0);
        CHECK(errno == 77);
        CHECK(open(path, O_RDWR) == -1 && errno == ENOENT);
    }
    verify(p, n, 7);
    CHECK(munmap(p, n) == 0);
    CHECK(close(fd) == 0);
    printf("%zu bytes written, attached and removed\n", n);
    return 0;
}
