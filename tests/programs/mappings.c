/* Kinds of mapping: at an offset, private, fixed, populated, locked, executable, moved, partly unmapped, synchronised,
 * and reading and writing by descriptor beside it. mappings BYTES */
#include "check.h"

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    int fd = create_sized("/maps", n);
    char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    CHECK(p != MAP_FAILED);
    fill(p, n, 60);
    char *half = mmap(NULL, n / 2, PROT_READ, MAP_SHARED, fd, n / 2);
    CHECK(half != MAP_FAILED && memcmp(half, p + n / 2, n / 2) == 0);
    char *own = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    CHECK(own != MAP_FAILED);
    verify(own, n, 60);
    own[0] ^= 1; /* seen by nobody else */
    verify(p, n, 60);
    char *place = mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mmap(place, n, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == place);
    verify(place, n, 60);
    CHECK(mmap(place, n, PROT_READ, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0) == MAP_FAILED);
    printf("MAP_FIXED_NOREPLACE: %s\n", strerror(errno));
    CHECK(mlock(p, 65536) == 0);
    CHECK(msync(p, n, MS_SYNC) == 0);
    CHECK(munmap(p + 4096, 4096) == 0);
    verify(place, n, 60);
    char *valid = mmap(NULL, n, PROT_READ, MAP_SHARED_VALIDATE, fd, 0);
    CHECK(valid != MAP_FAILED);
    verify(valid, n, 60);
    CHECK(mmap(NULL, 0, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
    printf("no length: %s\n", strerror(errno));
    CHECK(mmap(NULL, n, PROT_READ, MAP_SHARED, fd, 1) == MAP_FAILED);
    printf("odd offset: %s\n", strerror(errno));
    char *copy = malloc(n);
    CHECK(pread(fd, copy, n, 0) == (ssize_t)n);
    verify(copy, n, 60);
    fill(copy, n, 61);
    CHECK(pwrite(fd, copy, n, 0) == (ssize_t)n);
    verify(place, n, 61);
    CHECK(shm_unlink("/maps") == 0);
    fd = create("/code"); /* machine code in a segment: a JIT does that */
    CHECK(ftruncate(fd, n) == 0);
    unsigned char *code = map(fd, n);
    fill(code, n, 62);
    memcpy(code, "\xb8\x2a\x00\x00\x00\xc3", 6); /* mov $42, %eax; ret */
    void *run = mmap(NULL, n, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
    CHECK(run != MAP_FAILED);
#ifdef __x86_64__
    printf("ran: %d\n", ((int (*)(void))run)());
#endif
    CHECK(shm_unlink("/code") == 0);
    return 0;
}
