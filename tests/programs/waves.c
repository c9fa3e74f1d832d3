/* Fills a /dev/shm of 64 MiB to 78 %, 70 %, 78 %, and then WAVES times to 60 % and 78 %: waves WAVES */
#include "check.h"

static int seg(const char *name, double percent) {
    size_t n = (size_t)(percent * 64 * 1048576 / 100) & ~(size_t)4095;
    int fd = create_sized(name, n);
    void *p = map(fd, n);
    fill(p, n, 1);
    CHECK(munmap(p, n) == 0 && close(fd) == 0);
    return 0;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    const char *base[] = {"/1", "/2", "/3", "/4", "/5", "/6"};
    for (int i = 0; i < 6; i++) /* none so large that the next would be taken for too large */
        seg(base[i], 10);
    seg("/ten", 10);
    seg("/top", 8); /* 78 */
    CHECK(shm_unlink("/top") == 0); /* 70 */
    seg("/top", 8); /* 78 */
    for (int wave = 0; wave < atoi(argv[1]); wave++) {
        CHECK(shm_unlink("/top") == 0 && shm_unlink("/ten") == 0); /* 60 */
        seg("/small", 1); /* 61: the library looks again here */
        CHECK(shm_unlink("/small") == 0);
        seg("/ten", 10);
        seg("/top", 8); /* 78 */
    }
    CHECK(shm_unlink("/top") == 0 && shm_unlink("/ten") == 0);
    for (int i = 0; i < 6; i++)
        CHECK(shm_unlink(base[i]) == 0);
    return 0;
}
