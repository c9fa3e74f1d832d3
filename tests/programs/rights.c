/* A process makes a segment as root; its child becomes uid 1000, makes another one and uses both: rights BYTES */
#include "check.h"

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    int fd = create_sized("/root", n);
    void *p = map(fd, n);
    fill(p, n, 1);
    fflush(NULL);
    pid_t child = fork();
    if (child) {
        reap(child);
        CHECK(shm_unlink("/root") == 0);
        return 0;
    }
    CHECK(setgid(1000) == 0 && setuid(1000) == 0);
    int own = create_sized("/own", n);
    void *q = map(own, n);
    fill(q, n, 2);
    struct stat st;
    CHECK(stat("/dev/shm/own", &st) == 0);
    printf("owner %d\n", (int)st.st_uid);
    CHECK(shm_open("/root", O_RDWR, 0) == -1);
    printf("root's: %s\n", strerror(errno));
    CHECK(shm_unlink("/root") == -1);
    printf("unlink root's: %s\n", strerror(errno));
    IN_CHILD verify_named("/own", n, 2);
    CHECK(shm_unlink("/own") == 0);
    verify(p, n, 1);
    return 0;
}
