/* Segments that stay: leak COUNT BYTES PAUSE_MS alone|children. One more every PAUSE_MS, made, sized, mapped and written;
 * `children`: each by a child of its own that ends, so that no process knows of another's. At last all are removed. */
#include "check.h"

static void one(int number, size_t n) {
    char name[40];
    sprintf(name, "/leak-%d", number);
    int fd = create(name);
    CHECK(ftruncate(fd, n) == 0);
    void *p = map(fd, n);
    fill(p, n, number);
    CHECK(munmap(p, n) == 0 && close(fd) == 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 5);
    int count = atoi(argv[1]), pause_ms = atoi(argv[3]), children = strcmp(argv[4], "children") == 0;
    size_t n = bytes_arg(argc, argv, 2);
    for (int i = 0; i < count; i++) {
        if (!children)
            one(i, n);
        else {
            pid_t pid = fork();
            CHECK(pid >= 0);
            if (pid == 0) {
                one(i, n);
                exit(0);
            }
            reap(pid);
        }
        CHECK(usleep(pause_ms * 1000) == 0);
    }
    for (int i = 0; i < count; i++) {
        char name[40];
        sprintf(name, "/leak-%d", i);
        CHECK(shm_unlink(name) == 0);
    }
    return 0;
}
