/* The file offset survives sizing, write goes where it went, O_APPEND writes at the end. offset BYTES */
#include "check.h"

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    for (int fallocates = 0; fallocates < 2; fallocates++) {
        int fd = create("/offset");
        CHECK(lseek(fd, 12345, SEEK_SET) == 12345);
        CHECK(fallocates ? posix_fallocate(fd, 0, n) == 0 : ftruncate(fd, n) == 0);
        printf("offset %lld\n", (long long)lseek(fd, 0, SEEK_CUR));
        CHECK(write(fd, "word", 4) == 4);
        char *p = map(fd, n);
        verify_zero(p, 12344);
        CHECK(memcmp(p + 12345, "word", 4) == 0);
        fill(p, n, 6);
        CHECK(munmap(p, n) == 0 && close(fd) == 0 && shm_unlink("/offset") == 0);
    }
    int fd = open("/dev/shm/offset", O_CREAT | O_EXCL | O_RDWR | O_APPEND, 0600);
    CHECK(fd >= 0 && ftruncate(fd, n) == 0);
    char *p = map(fd, n);
    fill(p, n, 8);
    CHECK(lseek(fd, 5, SEEK_SET) == 5);
    CHECK(write(fd, "tail", 4) == 4);
    printf("appended: size grew by %zu\n", size_of(fd) - n);
    verify(p, n, 8);
    char word[4];
    CHECK(pread(fd, word, 4, n) == 4 && memcmp(word, "tail", 4) == 0);
    CHECK(shm_unlink("/offset") == 0);
    return 0;
}
