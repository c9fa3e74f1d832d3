/* A name is used again while the old segment is still mapped: old content stays, the new one is separate. recreate BYTES */
#include "check.h"

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    void *old[4];
    int fds[4];
    for (int i = 0; i < 4; i++) {
        fds[i] = create_sized("/again", n);
        old[i] = map(fds[i], n);
        verify_zero(old[i], n);
        fill(old[i], n, 20 + i);
        IN_CHILD verify_named("/again", n, 20 + i);
        CHECK(shm_unlink("/again") == 0);
        for (int j = 0; j <= i; j++)
            verify(old[j], n, 20 + j);
        for (int j = 0; j < i; j++) {
            struct stat a, b;
            CHECK(fstat(fds[i], &a) == 0 && fstat(fds[j], &b) == 0);
            CHECK(a.st_ino != b.st_ino || a.st_dev != b.st_dev);
        }
    }
    /* Removed and created again between an unlink and a close of others, as a queue of a DataLoader does. */
    for (int i = 0; i < 4; i++)
        CHECK(close(fds[i]) == 0);
    for (int i = 0; i < 4; i++)
        verify(old[i], n, 20 + i);
    puts("four of one name");
    return 0;
}
