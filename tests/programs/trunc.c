/* O_TRUNC when attaching empties the segment for all, and it can be sized again. trunc BYTES */
#include "check.h"

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    for (int way = 0; way < 5; way++) {
        int fd = create_sized("/cut", n);
        void *p = map(fd, n);
        fill(p, n, 3);
        CHECK(munmap(p, n) == 0);
        IN_CHILD {
            int again = way == 0   ? shm_open("/cut", O_RDWR | O_TRUNC, 0)
                        : way == 1 ? open("/dev/shm/cut", O_RDWR | O_TRUNC)
                        : way == 2 ? shm_open("/cut", O_RDWR | O_CREAT | O_TRUNC, 0600)
                        : way == 3 ? shm_open("/cut", O_RDONLY | O_TRUNC, 0)
                                   : open("/dev/shm/cut", O_RDONLY | O_TRUNC | O_NOFOLLOW);
            CHECK(again >= 0);
            printf("size of the attacher: %zu\n", size_of(again));
        }
        printf("size of the creator: %zu\n", size_of(fd));
        CHECK(ftruncate(fd, n) == 0);
        p = map(fd, n);
        verify_zero(p, n);
        fill(p, n, 4);
        verify_named("/cut", n, 4);
        CHECK(munmap(p, n) == 0 && close(fd) == 0 && shm_unlink("/cut") == 0);
    }
    return 0;
}
