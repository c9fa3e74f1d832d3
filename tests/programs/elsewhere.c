/* Files that are none of our business are sized as ever: below a subdirectory of /dev/shm, in another directory (DIR),
 * anonymous shared memory, memfd. elsewhere BYTES DIR */
#include "check.h"

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    char path[300];
    CHECK(mkdir("/dev/shm/sub", 0700) == 0);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/file", i ? argv[2] : "/dev/shm/sub");
        int fd = open(path, O_CREAT | O_EXCL | O_RDWR, 0600);
        CHECK(fd >= 0 && ftruncate(fd, n) == 0);
        fill(map(fd, n), TOUCHED, 79);
        say_kind(path);
        struct stat st, dir;
        CHECK(fstat(fd, &st) == 0 && stat(i ? argv[2] : "/dev/shm/sub", &dir) == 0);
        printf("on its own file system: %d\n", st.st_dev == dir.st_dev);
        CHECK(unlink(path) == 0);
    }
    CHECK(rmdir("/dev/shm/sub") == 0);
    int fd = memfd_create("mem", MFD_ALLOW_SEALING);
    CHECK(fd >= 0 && ftruncate(fd, n) == 0);
    fill(map(fd, n), n, 80);
    CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
    CHECK(ftruncate(fd, 0) == -1);
    printf("sealed: %s\n", strerror(errno));
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    fill(p, n, 81);
    IN_CHILD verify(p, n, 81);
    return 0;
}
