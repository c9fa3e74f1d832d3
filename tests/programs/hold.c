/* Makes a segment and holds it until told to end: hold NAME BYTES MODE(octal) SEED [unlink|nameless]. The name stays unless asked:
 * unlink, at the end; nameless, before it is written, so that a kill frees its memory. */
#include "check.h"

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 2);
    umask(0);
    int fd = shm_open(argv[1], O_CREAT | O_EXCL | O_RDWR, strtol(argv[3], NULL, 8));
    CHECK(fd >= 0);
    CHECK(ftruncate(fd, n) == 0);
    void *p = map(fd, n);
    int nameless = argc > 5 && !strcmp(argv[5], "nameless");
    if (nameless)
        CHECK(shm_unlink(argv[1]) == 0);
    fill(p, n, atoi(argv[4]));
    CHECK(close(fd) == 0);
    say_and_wait("ready");
    verify(p, n, atoi(argv[4]));
    if (argc > 5 && !nameless)
        CHECK(shm_unlink(argv[1]) == 0);
    return 0;
}
