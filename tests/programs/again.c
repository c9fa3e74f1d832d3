/* Makes and removes the same segment, which is never touched, again and again, and a small one in between: again NAME BYTES ROUNDS. */
#include "check.h"

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 2);
    for (size_t round = 0; round < bytes_arg(argc, argv, 3); round++) {
        int fd = create(argv[1]);
        CHECK(ftruncate(fd, n) == 0 || errno == ENOSPC);
        CHECK(shm_unlink(argv[1]) == 0 && close(fd) == 0);
        CHECK(close(create_sized("/small", 4096)) == 0);
        CHECK(shm_unlink("/small") == 0);
    }
    return 0;
}
