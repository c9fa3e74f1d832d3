/* Another process opens the empty segment by name before it is sized, and must see what comes. early_attach WAY BYTES */
#include "check.h"

int main(int argc, char **argv) {
    int way = atoi(argv[1]);
    size_t n = bytes_arg(argc, argv, 2);
    struct turns turns = turns_new();
    pid_t child = fork(); /* before the creation: a fork after it is another program's matter */
    if (child == 0) {
        turn_take(turns.to_child);
        int fd = way == 0 ? shm_open("/early", O_RDWR, 0) : open("/dev/shm/early", way == 1 ? O_RDWR : O_RDONLY);
        CHECK(fd >= 0 && size_of(fd) == 0);
        turn_give(turns.to_parent);
        turn_take(turns.to_child);
        CHECK(size_of(fd) == n);
        verify(map_read(fd, n), TOUCHED, 72);
        _exit(0);
    }
    int fd = create("/early");
    turn_give(turns.to_child);
    turn_take(turns.to_parent);
    CHECK(ftruncate(fd, n) == 0);
    fill(map(fd, n), TOUCHED, 72);
    turn_give(turns.to_child);
    reap(child);
    say_kind("/dev/shm/early");
    CHECK(shm_unlink("/early") == 0);
    return 0;
}
