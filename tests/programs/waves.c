/* Fills a /dev/shm of 64 MiB to 78 %, 70 %, 78 %, 60 % and 78 %: waves */
#include "check.h"

static int seg(const char *name, double percent) {
    size_t n = (size_t)(percent * 64 * 1048576 / 100) & ~(size_t)4095;
    int fd = create_sized(name, n);
    void *p = map(fd, n);
    fill(p, n, 1);
    CHECK(munmap(p, n) == 0 && close(fd) == 0);
    return 0;
}

int main(void) {
    seg("/base", 60);
    seg("/ten", 10);
    seg("/top", 8); /* 78 */
    CHECK(shm_unlink("/top") == 0); /* 70 */
    seg("/top", 8); /* 78 */
    CHECK(shm_unlink("/top") == 0 && shm_unlink("/ten") == 0); /* 60 */
    seg("/small", 1); /* 61: the library looks again here */
    CHECK(shm_unlink("/small") == 0);
    seg("/top", 18); /* 78 */
    CHECK(shm_unlink("/top") == 0 && shm_unlink("/base") == 0);
    return 0;
}
