/* Two processes open one name with O_CREAT but without O_EXCL, both size it, in whatever order: one object.
 * rendezvous shm_open|open BYTES */
#include "check.h"

static int meet(const char *how) {
    int fd = !strcmp(how, "shm_open") ? shm_open("/meet", O_CREAT | O_RDWR, 0600)
                                      : open("/dev/shm/meet", O_CREAT | O_RDWR, 0600);
    CHECK(fd >= 0);
    return fd;
}

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 2);
    /* order: 0 child opens and sizes after the parent has sized; 1 child opens before the parent sizes, sizes after;
     * 2 both open, the child sizes first */
    for (int order = 0; order < 3; order++) {
        struct turns turns = turns_new();
        pid_t child = fork();
        if (child == 0) {
            turn_take(turns.to_child);
            int fd = meet(argv[1]);
            if (order == 1) {
                turn_give(turns.to_parent);
                turn_take(turns.to_child);
            }
            CHECK(ftruncate(fd, n) == 0);
            char *p = map(fd, n);
            if (order == 2) {
                turn_give(turns.to_parent);
                turn_take(turns.to_child);
            }
            verify(p, TOUCHED, 75);
            fill(p + TOUCHED, TOUCHED, 76);
            _exit(0);
        }
        int fd = meet(argv[1]);
        if (order > 0) {
            turn_give(turns.to_child);
            turn_take(turns.to_parent);
        }
        CHECK(ftruncate(fd, n) == 0);
        char *p = map(fd, n);
        fill(p, TOUCHED, 75);
        turn_give(turns.to_child);
        reap(child);
        verify(p + TOUCHED, TOUCHED, 76);
        CHECK(!strcmp(argv[1], "shm_open") ? shm_unlink("/meet") == 0 : unlink("/dev/shm/meet") == 0);
        CHECK(munmap(p, n) == 0 && close(fd) == 0);
    }
    /* Together, without an order: each adds its word to the same counter. */
    for (int round = 0; round < 50; round++) {
        pid_t children[2];
        for (int i = 0; i < 2; i++)
            if ((children[i] = fork()) == 0) {
                int fd = meet(argv[1]);
                CHECK(ftruncate(fd, n) == 0);
                __atomic_fetch_add((int *)map(fd, n), 1, __ATOMIC_SEQ_CST);
                _exit(0);
            }
        reap(children[0]);
        reap(children[1]);
        int fd = meet(argv[1]);
        CHECK(size_of(fd) == n && *(int *)map(fd, n) == 2);
        CHECK(unlink("/dev/shm/meet") == 0 && close(fd) == 0);
    }
    puts("one object");
    return 0;
}
