/* A segment that gets its size in two steps before anybody maps it, a header first: steps BYTES */
#include "check.h"

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    for (int written = 0; written < 2; written++) {
        int fd = create("/steps");
        CHECK(ftruncate(fd, 4096) == 0);
        char data[4096];
        memset(data, 0, sizeof data);
        if (written) {
            fill(data, sizeof data, 5);
            CHECK(write(fd, data, sizeof data) == sizeof data);
        }
        CHECK(ftruncate(fd, n) == 0);
        CHECK(size_of(fd) == n);
        char *p = map(fd, n);
        CHECK(memcmp(p, data, sizeof data) == 0);
        fill(p, n, 6);
        verify_named("/steps", n, 6);
        CHECK(munmap(p, n) == 0 && close(fd) == 0 && shm_unlink("/steps") == 0);
    }
    puts("two steps");
    return 0;
}
