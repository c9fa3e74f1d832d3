/* Segments with names that need escaping: odd_names BYTES */
#include "check.h"

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    const char *names[] = {"/quote\"back\\slash", "/line\nend\ttab", "/not\xff\xfeutf8", "/\xc3\xbcn\xc3\xaf"};
    for (int i = 0; i < 4; i++) {
        int fd = create_sized(names[i], n);
        fill(map(fd, n), n, i);
        CHECK(shm_unlink(names[i]) == 0);
    }
    return 0;
}
