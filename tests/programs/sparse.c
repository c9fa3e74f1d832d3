/* Makes a segment under NAME, touches its first 64 KiB and says what the name is: sparse NAME BYTES */
#include "check.h"

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 2);
    char path[300];
    snprintf(path, sizeof path, "/dev/shm/%s", argv[1]);
    int fd = create_sized(argv[1], n);
    void *p = map(fd, n);
    fill(p, TOUCHED, 70);
    say_kind(path);
    IN_CHILD {
        int other = open(path, O_RDWR);
        CHECK(other >= 0 && size_of(other) == n);
        verify(map(other, n), TOUCHED, 70);
    }
    CHECK(shm_unlink(argv[1]) == 0);
    return 0;
}
