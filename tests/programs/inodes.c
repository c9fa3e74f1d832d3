/* Creates files in /dev/shm until none can be made: inodes. Then sizes one that was made before: it cannot be moved,
 * since that needs one more. inodes BYTES */
#include "check.h"

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    char name[40];
    int first = create("/first"), count = 0;
    for (;; count++) {
        sprintf(name, "/i%d", count);
        int fd = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
        if (fd < 0)
            break;
        CHECK(close(fd) == 0);
    }
    printf("%d more, then: %s\n", count, strerror(errno));
    CHECK(ftruncate(first, n) == 0);
    fill(map(first, n), TOUCHED, 1);
    for (int i = 0; i < count; i++) {
        sprintf(name, "/i%d", i);
        CHECK(shm_unlink(name) == 0);
    }
    int again = shm_open("/first", O_RDWR, 0);
    CHECK(again >= 0 && size_of(again) == n);
    verify(map(again, n), TOUCHED, 1);
    CHECK(shm_unlink("/first") == 0);
    return 0;
}
