/* Asks again and again for a segment, by turns with ftruncate and posix_fallocate, and gives it back at once:
 * demand ROUNDS BYTES */
#include "check.h"

int main(int argc, char **argv) {
    int rounds = atoi(argv[1]);
    size_t n = bytes_arg(argc, argv, 2);
    for (int i = 0; i < rounds; i++) {
        int fd = create("/demand");
        if (i % 2)
            CHECK(ftruncate(fd, n) == 0);
        else
            posix_fallocate(fd, 0, n); /* may fail: that is the program's matter */
        CHECK(shm_unlink("/demand") == 0 && close(fd) == 0);
    }
    puts("asked");
    return 0;
}
