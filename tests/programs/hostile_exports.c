/* cflags: -rdynamic -fno-builtin */
/* A program that exports functions of libc's names: its own getenv, open, mmap and others. They are for itself: calls by
 * anybody else are counted. hostile_exports BYTES */
#include "check.h"
#include <sys/syscall.h>

enum { GETENV, OPEN, OPEN64, MMAP, READLINK, MKDIR, FUNCTIONS };
static const char *const names[] = {"getenv", "open", "open64", "mmap", "readlink", "mkdir"};

/* Set while this program itself calls them. */
static int own;
static int foreign[FUNCTIONS];

#define COUNT(function)                                                                               \
    do {                                                                                              \
        if (!own)                                                                                     \
            foreign[function]++;                                                                      \
    } while (0)

char *getenv(const char *name) {
    (void)name;
    COUNT(GETENV);
    return NULL;
}

static int raw_open(const char *path, int flags, int mode) {
    long fd = syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    return fd;
}

int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    int mode = va_arg(rest, int);
    va_end(rest);
    COUNT(OPEN);
    return raw_open(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    int mode = va_arg(rest, int);
    va_end(rest);
    COUNT(OPEN64);
    return raw_open(path, flags, mode);
}

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    COUNT(MMAP);
    return (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
}

ssize_t readlink(const char *path, char *buffer, size_t length) {
    COUNT(READLINK);
    return syscall(SYS_readlinkat, AT_FDCWD, path, buffer, length);
}

int mkdir(const char *path, mode_t mode) {
    COUNT(MKDIR);
    return syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    own = 1;
    int fd = open("/dev/shm/exports", O_CREAT | O_EXCL | O_RDWR, 0600);
    CHECK(fd >= 0 && ftruncate(fd, 65536) == 0);
    void *p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(p != MAP_FAILED);
    fill(p, 65536, 1);
    CHECK(unlink("/dev/shm/exports") == 0 && close(fd) == 0);
    CHECK(getenv("SHMGUARD_MODE") == NULL);
    own = 0;
    /* What comes now calls libc's and the library's functions only, none of this program's. */
    for (int i = 0; i < 3; i++) {
        fd = shm_open("/exports", O_CREAT | O_EXCL | O_RDWR, 0600);
        CHECK(fd >= 0 && ftruncate(fd, n) == 0);
        own = 1;
        p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        own = 0;
        CHECK(p != MAP_FAILED);
        fill(p, n, i);
        int again = shm_open("/exports", O_RDWR, 0);
        CHECK(again >= 0 && size_of(again) == n);
        CHECK(shm_unlink("/exports") == 0 && close(fd) == 0 && close(again) == 0);
    }
    for (int i = 0; i < FUNCTIONS; i++)
        printf("%s was called %d times by others\n", names[i], foreign[i]);
    puts("end");
    return 0;
}
