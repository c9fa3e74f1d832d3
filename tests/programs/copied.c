/* A segment that holds data before its first mapping, grown by writing at its end: nothing of it is lost.
 * copied HEAD BYTES all|head: HEAD bytes are written first; then all is touched, or the beginning only */
#include "check.h"

int main(int argc, char **argv) {
    size_t head = bytes_arg(argc, argv, 1), n = bytes_arg(argc, argv, 2);
    int fd = create("/copied");
    char *data = malloc(head);
    fill(data, head, 5);
    CHECK(write(fd, data, head) == (ssize_t)head);
    CHECK(pwrite(fd, "x", 1, n - 1) == 1);
    CHECK(lseek(fd, 0, SEEK_CUR) == (off_t)head);
    char *p = map(fd, n);
    verify(p, head, 5);
    verify_zero(p + head, TOUCHED);
    char last;
    CHECK(pread(fd, &last, 1, n - 1) == 1 && last == 'x');
    CHECK(lseek(fd, 0, SEEK_CUR) == (off_t)head);
    if (!strcmp(argv[3], "all")) {
        fill(p, n, 6);
        IN_CHILD verify_named("/copied", n, 6);
    }
    say_kind("/dev/shm/copied");
    CHECK(shm_unlink("/copied") == 0);
    return 0;
}
