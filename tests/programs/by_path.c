/* A file of any directory as a segment: by_path PATH BYTES: made, sized, written, attached by another program, removed */
#include "check.h"

int main(int argc, char **argv) {
    if (!strcmp(argv[1], "attach")) {
        size_t n = bytes_arg(argc, argv, 3);
        int fd = open(argv[2], O_RDWR);
        CHECK(fd >= 0 && size_of(fd) == n);
        verify(map(fd, n), n, 1);
        return 0;
    }
    size_t n = bytes_arg(argc, argv, 2);
    int fd = open(argv[1], O_CREAT | O_EXCL | O_RDWR, 0600);
    CHECK(fd >= 0 && ftruncate(fd, n) == 0);
    void *p = map(fd, n);
    fill(p, n, 1);
    run_self("attach", argv[1], argv[2], NULL);
    say_kind(argv[1]);
    CHECK(unlink(argv[1]) == 0);
    verify(p, n, 1);
    return 0;
}
