/* Mapped while it was empty, then sized: the early mapping shows what comes. mapped_before BYTES */
#include "check.h"

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    int fd = create("/mapped");
    void *early = map(fd, n);
    CHECK(ftruncate(fd, n) == 0);
    void *late = map(fd, n);
    fill(late, TOUCHED, 73);
    verify(early, TOUCHED, 73);
    say_kind("/dev/shm/mapped");
    CHECK(shm_unlink("/mapped") == 0);
    return 0;
}
