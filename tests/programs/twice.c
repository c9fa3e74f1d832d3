/* A segment is made and removed, then a second one under the same name: twice BYTES */
#include "check.h"

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    int fd = create_sized("/twice", n);
    void *p = map(fd, n);
    fill(p, n, 1);
    CHECK(shm_unlink("/twice") == 0 && munmap(p, n) == 0 && close(fd) == 0);
    say_and_wait("one is gone");
    fd = create_sized("/twice", n);
    fill(map(fd, n), n, 2);
    say_and_wait("another is there");
    CHECK(shm_unlink("/twice") == 0);
    return 0;
}
