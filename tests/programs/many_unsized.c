/* Many segments are created first and sized afterwards, in the same order: many_unsized COUNT BYTES */
#include "check.h"

int main(int argc, char **argv) {
    int count = atoi(argv[1]), fds[1000];
    size_t n = bytes_arg(argc, argv, 2);
    char name[30];
    CHECK(count <= 1000);
    for (int i = 0; i < count; i++) {
        sprintf(name, "/u%d", i);
        fds[i] = create(name);
    }
    for (int i = 0; i < count; i++) {
        CHECK(ftruncate(fds[i], n) == 0);
        void *p = map(fds[i], n);
        fill(p, n, i);
        CHECK(munmap(p, n) == 0);
    }
    for (int i = 0; i < count; i++) {
        sprintf(name, "/u%d", i);
        verify_named(name, n, i);
        CHECK(close(fds[i]) == 0 && shm_unlink(name) == 0);
    }
    printf("%d\n", count);
    return 0;
}
