/* How many bytes are free, by every call that tells: space */
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
    return 0;
}
