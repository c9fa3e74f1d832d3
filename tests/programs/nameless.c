/* Segments that have lost their names: half of them held by a mapping, half by a descriptor only: nameless COUNT BYTES */
#include "check.h"

int main(int argc, char **argv) {
    int count = atoi(argv[1]);
    size_t n = bytes_arg(argc, argv, 2);
    for (int i = 0; i < count; i++) {
        int fd = create_sized("/nameless", n);
        void *p = map(fd, n);
        fill(p, n, i);
        CHECK(shm_unlink("/nameless") == 0);
        CHECK(i % 2 ? munmap(p, n) == 0 : close(fd) == 0);
    }
    say_and_wait("ready");
    return 0;
}
