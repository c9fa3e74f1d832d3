/* root makes a segment and gives it to a user, by each call; then it is as if the user had made it. chown BYTES */
#include "check.h"

#define USER 65534

static void give(int way, int fd) {
    const char *path = "/dev/shm/given";
    switch (way) {
    case 0:
        CHECK(fchown(fd, USER, USER) == 0);
        break;
    case 1:
        CHECK(chown(path, USER, USER) == 0);
        break;
    case 2:
        CHECK(lchown(path, USER, USER) == 0);
        break;
    case 3:
        CHECK(fchownat(AT_FDCWD, path, USER, USER, 0) == 0);
        break;
    case 4:
        CHECK(fchownat(fd, "", USER, USER, AT_EMPTY_PATH) == 0);
        break;
    case 5:
        IN_CHILD CHECK(execlp("chown", "chown", "65534:65534", path, NULL) == 0);
        break;
    default:
        CHECK(chdir("/dev/shm") == 0 && chown("given", USER, USER) == 0 && chdir("/") == 0);
    }
}

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    for (int way = 0; way < 7; way++) {
        int fd = create_sized("/given", n);
        void *p = map(fd, n);
        fill(p, n, way);
        give(way, fd);
        struct stat st;
        CHECK(fstat(fd, &st) == 0);
        printf("%d: owner %u\n", way, st.st_uid);
        verify_named("/given", n, way); /* root attaches */
        fflush(stdout);
        IN_CHILD {
            CHECK(setgid(USER) == 0 && setuid(USER) == 0);
            verify_named("/given", n, way);
            CHECK(stat("/dev/shm/given", &st) == 0);
            printf("owner for the user: %u\n", st.st_uid);
            CHECK(shm_unlink("/given") == 0);
        }
        CHECK(munmap(p, n) == 0 && close(fd) == 0);
    }
    return 0;
}
