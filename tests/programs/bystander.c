/* A stranger that needs a few pages of /dev/shm now and then: touches 16 pages, gives them back, until told to end.
 * It dies of SIGBUS if at any moment not one page is to be had. bystander */
#include "check.h"
#include <poll.h>

int main(void) {
    int fd = create("/bystander");
    size_t n = 16 * 4096;
    CHECK(ftruncate(fd, n) == 0);
    char *p = map(fd, n);
    puts("running");
    fflush(stdout);
    long rounds = 0;
    struct pollfd end = {.fd = 0, .events = POLLIN};
    do {
        for (int i = 0; i < 200; i++, rounds++) {
            for (size_t at = 0; at < n; at += 4096)
                p[at] = 1;
            CHECK(madvise(p, n, MADV_REMOVE) == 0);
        }
    } while (poll(&end, 1, 0) == 0);
    CHECK(shm_unlink("/bystander") == 0);
    printf("lived\n");
    return 0;
}
