/* Sizes a segment, says "sized", waits, and only then writes all of it: untouched NAME BYTES */
#include "check.h"

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 2);
    int fd = create_sized(argv[1], n);
    void *p = map(fd, n);
    say_and_wait("sized");
    fill(p, n, 92);
    verify(p, n, 92);
    CHECK(shm_unlink(argv[1]) == 0);
    puts("written");
    return 0;
}
