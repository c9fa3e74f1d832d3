/* A name that is taken stays taken: O_EXCL by every call, mkdir, symlink, link, and a second creation. excl BYTES */
#include "check.h"

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    int fd = create_sized("/taken", n);
    void *p = map(fd, n);
    fill(p, n, 2);
    int flags = O_CREAT | O_EXCL | O_RDWR;
    for (int i = 0; i < 2; i++) { /* in this process, then in another one */
        if (i == 1 && (fflush(NULL), fork()) != 0) {
            int status;
            CHECK(wait(&status) > 0 && status == 0);
            break;
        }
        CHECK(shm_open("/taken", flags, 0600) == -1);
        printf("shm_open: %s\n", strerror(errno));
        CHECK(open("/dev/shm/taken", flags, 0600) == -1);
        printf("open: %s\n", strerror(errno));
        CHECK(openat(AT_FDCWD, "/dev/shm/taken", flags, 0600) == -1);
        printf("openat: %s\n", strerror(errno));
        CHECK(mkdir("/dev/shm/taken", 0700) == -1);
        printf("mkdir: %s\n", strerror(errno));
        CHECK(symlink("x", "/dev/shm/taken") == -1);
        printf("symlink: %s\n", strerror(errno));
        CHECK(link("/dev/shm/taken", "/dev/shm/taken") == -1);
        printf("link: %s\n", strerror(errno));
        CHECK(rmdir("/dev/shm/taken") == -1);
        printf("rmdir: %s\n", strerror(errno));
        fflush(NULL);
        if (i == 1)
            _exit(0);
    }
    verify_named("/taken", n, 2);
    CHECK(shm_unlink("/taken") == 0);
    verify(p, n, 2);
    return 0;
}
