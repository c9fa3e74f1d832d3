/* Calls that do not concern a guarded segment, each section announced by a line on standard output; looked at with strace.
 * calls FILE [touched]: touched: the process has made and removed a segment before. */
#include "check.h"
#include <sys/statvfs.h>

static void section(const char *name) {
    CHECK(write(1, name, strlen(name)) > 0);
}

int main(int argc, char **argv) {
    if (argc > 2) {
        int fd = create_sized("/calls", 65536);
        void *p = map(fd, 65536);
        CHECK(shm_unlink("/calls") == 0 && munmap(p, 65536) == 0 && close(fd) == 0);
    }
    struct stat st;
    struct statvfs fs;
    char second[300];
    snprintf(second, sizeof second, "%s-2", argv[1]);

    section("== open\n");
    int fd = open(argv[1], O_CREAT | O_EXCL | O_RDWR, 0600);
    CHECK(fd >= 0);
    CHECK(close(open(argv[1], O_RDWR)) == 0);
    CHECK(close(openat(AT_FDCWD, argv[1], O_RDONLY)) == 0);
    CHECK(open("/nowhere/file", O_RDONLY) == -1);
    section("== anonymous mmap\n");
    void *p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(munmap(p, 65536) == 0);
    p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(munmap(p, 65536) == 0);
    section("== ftruncate\n");
    CHECK(ftruncate(fd, 65536) == 0);
    section("== posix_fallocate\n");
    CHECK(posix_fallocate(fd, 0, 65536) == 0);
    section("== fallocate\n");
    CHECK(fallocate(fd, 0, 0, 65536) == 0);
    section("== truncate\n");
    CHECK(truncate(argv[1], 65536) == 0);
    section("== private mmap\n");
    p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    CHECK(munmap(p, 65536) == 0);
    section("== shared mmap\n");
    p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(munmap(p, 65536) == 0);
    section("== names\n");
    CHECK(link(argv[1], second) == 0);
    CHECK(rename(second, argv[1]) == 0); /* two names of one file: nothing happens */
    CHECK(unlink(second) == 0);
    CHECK(stat(argv[1], &st) == 0 && fstat(fd, &st) == 0);
    CHECK(statvfs("/", &fs) == 0);
    CHECK(unlink(argv[1]) == 0);
    section("== close\n");
    CHECK(close(fd) == 0);
    section("== processes\n");
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    reap(pid);
    section("== end\n");
    return 0;
}
