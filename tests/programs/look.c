/* Says everything about a segment that depends on where it is: look NAME BYTES */
#include "check.h"
#include <dirent.h>
#include <linux/magic.h>
#include <sys/statfs.h>

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 2);
    char path[300], text[400];
    snprintf(path, sizeof path, "/dev/shm%s", argv[1]);
    int fd = create_sized(argv[1], n);
    void *p = map(fd, n);
    fill(p, n, 1);

    struct stat name, file, guard;
    CHECK(lstat(path, &name) == 0 && fstat(fd, &file) == 0 && stat("/dev/shm", &guard) == 0);
    printf("lstat: %s\n", S_ISREG(name.st_mode) ? "regular file" : S_ISLNK(name.st_mode) ? "link" : "?");
    ssize_t length = readlink(path, text, sizeof text - 1);
    printf("readlink: %s\n", length < 0 ? strerror(errno) : "a path");
    if (length >= 0) {
        text[length] = 0;
        struct stat target;
        CHECK(stat(text, &target) == 0 && target.st_dev == file.st_dev && target.st_ino == file.st_ino);
        CHECK(length < 128);
    }
    DIR *dir = opendir("/dev/shm");
    CHECK(dir != NULL);
    for (struct dirent *entry; (entry = readdir(dir));)
        if (!strcmp(entry->d_name, argv[1] + 1))
            printf("d_type: %s\n", entry->d_type == DT_REG ? "regular file" : entry->d_type == DT_LNK ? "link" : "?");
    closedir(dir);
    printf("st_dev: %s\n", file.st_dev == guard.st_dev ? "that of /dev/shm" : "another");
    struct statfs fs;
    CHECK(fstatfs(fd, &fs) == 0);
    printf("fstatfs: %s\n", fs.f_type == TMPFS_MAGIC ? "tmpfs" : "not tmpfs");
    int seals = fcntl(fd, F_GET_SEALS);
    printf("F_GET_SEALS: %s\n", seals < 0 ? strerror(errno) : seals == F_SEAL_SEAL ? "F_SEAL_SEAL" : "others");
    printf("F_ADD_SEALS: %s\n", fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) < 0 ? strerror(errno) : "works");
    snprintf(text, sizeof text, "%s-2", path);
    CHECK(link(path, text) == 0);
    CHECK(fstat(fd, &file) == 0);
    printf("st_nlink after link: %d\n", (int)file.st_nlink);
    CHECK(unlink(text) == 0 && shm_unlink(argv[1]) == 0);
    return 0;
}
