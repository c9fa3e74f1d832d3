/* Makes segments /s0, /s1, ... of the given sizes one after the other, writes all of each, says "ready", waits, checks
 * every byte and removes them: several BYTES... */
#include "check.h"

int main(int argc, char **argv) {
    void *p[100];
    char name[20];
    for (int i = 1; i < argc; i++) {
        sprintf(name, "/s%d", i - 1);
        size_t n = bytes_arg(argc, argv, i);
        int fd = create_sized(name, n);
        p[i] = map(fd, n);
        fill(p[i], n, i);
        CHECK(close(fd) == 0);
    }
    say_and_wait("ready");
    for (int i = 1; i < argc; i++) {
        sprintf(name, "/s%d", i - 1);
        verify(p[i], bytes_arg(argc, argv, i), i);
        CHECK(shm_unlink(name) == 0);
    }
    return 0;
}
