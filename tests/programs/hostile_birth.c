/* Calls every hook before any constructor has run (.preinit_array) and after the last destructor, from the flushing of a
 * stream that exit does at the very end. hostile_birth DIR */
#include "check.h"
#include <dlfcn.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#define SAY(text) CHECK(write(1, text, sizeof text - 1) == sizeof text - 1)

/* What another implementation says of the directory: the libc function behind every hook. */
static struct statvfs known;

static void all(void) {
    const char *a = "/dev/shm/birth-a", *b = "/dev/shm/birth-b";
    size_t n = 65536;
    int fd = open(a, O_CREAT | O_EXCL | O_RDWR, 0600);
    CHECK(fd >= 0 && ftruncate(fd, n) == 0 && posix_fallocate(fd, 0, n) == 0 && fallocate(fd, 0, 0, n) == 0);
    char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(p != MAP_FAILED);
    memset(p, 1, n);
    CHECK(truncate(a, n / 2) == 0 && size_of(fd) == n / 2);
    CHECK(rename(a, b) == 0 && renameat(AT_FDCWD, b, AT_FDCWD, a) == 0);
    CHECK(linkat(AT_FDCWD, a, AT_FDCWD, b, 0) == 0 && unlinkat(AT_FDCWD, b, 0) == 0);
    int again = openat(AT_FDCWD, a, O_RDWR);
    CHECK(again >= 0 && close(again) == 0 && remove(a) == 0 && munmap(p, n) == 0 && close(fd) == 0);
    fd = shm_open("/birth-c", O_CREAT | O_EXCL | O_RDWR, 0600);
    CHECK(fd >= 0 && ftruncate(fd, n) == 0 && shm_unlink("/birth-c") == 0 && close(fd) == 0);
    CHECK(shm_open("/birth-missing", O_RDWR, 0) == -1 && errno == ENOENT);
    char template[] = "/dev/shm/birth-XXXXXX";
    fd = mkstemp(template);
    CHECK(fd >= 0 && unlink(template) == 0 && close(fd) == 0);
    CHECK(strcmp(template, "/dev/shm/birth-XXXXXX") != 0);
    char suffixed[] = "/dev/shm/birth-XXXXXX.end";
    fd = mkostemps(suffixed, 4, O_CLOEXEC);
    CHECK(fd >= 0 && unlink(suffixed) == 0 && close(fd) == 0);
    fd = creat("/dev/shm/birth-d", 0600);
    CHECK(fd >= 0 && unlink("/dev/shm/birth-d") == 0 && close(fd) == 0);
    struct statvfs vfs;
    struct statfs fs;
    CHECK(statvfs("/dev/shm", &vfs) == 0 && statfs("/dev/shm", &fs) == 0);
    CHECK(vfs.f_blocks == fs.f_blocks && vfs.f_frsize == 4096 && vfs.f_namemax == 255 && vfs.f_flag == known.f_flag);
    CHECK((fd = open("/dev/shm", O_RDONLY | O_DIRECTORY)) >= 0 && fstatvfs(fd, &vfs) == 0 && fstatfs(fd, &fs) == 0);
    CHECK(vfs.f_files == fs.f_files && vfs.f_bavail == fs.f_bavail && vfs.f_fsid == known.f_fsid && close(fd) == 0);
    p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED && munmap(p, n) == 0);
    p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED && munmap(p, n) == 0);
}

static void before_constructors(void) {
    int (*real)(const char *, struct statvfs *);
    void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    CHECK(libc != NULL && (real = dlsym(libc, "statvfs")) != NULL && real("/dev/shm", &known) == 0);
    all();
    SAY("before every constructor\n");
}

__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = before_constructors;

static ssize_t flushed(void *cookie, const char *text, size_t length) {
    (void)cookie;
    all();
    CHECK(write(1, text, length) == (ssize_t)length);
    return length;
}

int main(void) {
    all();
    SAY("main\n");
    /* A stream that the program never flushes: exit does, after all destructors. */
    FILE *late = fopencookie(NULL, "w", (cookie_io_functions_t){.write = flushed});
    CHECK(late != NULL);
    CHECK(fputs("after every destructor\n", late) >= 0);
    return 0;
}
