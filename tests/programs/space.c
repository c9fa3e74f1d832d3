/* How many bytes are free, by every call that tells, of /dev/shm, of what lies in it, and elsewhere: space */
#include "check.h"
#include <sys/statfs.h>
#include <sys/statvfs.h>

int main(void) {
    struct statfs fs;
    struct statvfs vfs;
    int fd = open("/dev/shm", O_RDONLY | O_DIRECTORY);
    CHECK(statfs("/dev/shm", &fs) == 0);
    printf("statfs: %llu\n", (unsigned long long)fs.f_bavail * fs.f_bsize);
    CHECK(fstatfs(fd, &fs) == 0);
    printf("fstatfs: %llu\n", (unsigned long long)fs.f_bavail * fs.f_bsize);
    CHECK(statvfs("/dev/shm/", &vfs) == 0);
    printf("statvfs: %llu\n", (unsigned long long)vfs.f_bavail * vfs.f_frsize);
    CHECK(fstatvfs(fd, &vfs) == 0);
    printf("fstatvfs: %llu\n", (unsigned long long)vfs.f_bavail * vfs.f_frsize);
    CHECK(statvfs("/proc", &vfs) == 0);
    printf("statvfs elsewhere: %llu\n", (unsigned long long)vfs.f_bavail * vfs.f_frsize);

    /* Files in the guarded directory may be moved, files below it never are. */
    CHECK(mkdir("/dev/shm/sub", 0700) == 0);
    CHECK(statvfs("/dev/shm/sub", &vfs) == 0);
    printf("statvfs of a subdirectory, elsewhere: %llu\n", (unsigned long long)vfs.f_bavail * vfs.f_frsize);
    int sub = open("/dev/shm/sub", O_RDONLY | O_DIRECTORY), below = open("/dev/shm/sub/f", O_RDWR | O_CREAT, 0600);
    CHECK(fstatfs(sub, &fs) == 0);
    printf("fstatfs of a subdirectory, elsewhere: %llu\n", (unsigned long long)fs.f_bavail * fs.f_bsize);
    CHECK(statfs("/dev/shm/sub/f", &fs) == 0);
    printf("statfs of a file below, elsewhere: %llu\n", (unsigned long long)fs.f_bavail * fs.f_bsize);
    CHECK(fstatvfs(below, &vfs) == 0);
    printf("fstatvfs of a file below, elsewhere: %llu\n", (unsigned long long)vfs.f_bavail * vfs.f_frsize);
    int file = open("/dev/shm/f", O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK(statvfs("/dev/shm/f", &vfs) == 0);
    printf("statvfs of a file: %llu\n", (unsigned long long)vfs.f_bavail * vfs.f_frsize);
    CHECK(fstatfs(file, &fs) == 0);
    printf("fstatfs of a file: %llu\n", (unsigned long long)fs.f_bavail * fs.f_bsize);
    CHECK(unlink("/dev/shm/f") == 0);
    CHECK(fstatvfs(file, &vfs) == 0);
    printf("fstatvfs of a removed file: %llu\n", (unsigned long long)vfs.f_bavail * vfs.f_frsize);
    CHECK(unlink("/dev/shm/sub/f") == 0 && rmdir("/dev/shm/sub") == 0);
    return 0;
}
