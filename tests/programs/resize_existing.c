/* Opens a name that exists already, sizes and touches it: resize_existing shm_open|open BYTES */
#include "check.h"

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 2);
    int fd = !strcmp(argv[1], "open") ? open("/dev/shm/meet", O_CREAT | O_RDWR, 0600)
                                      : shm_open("/meet", O_CREAT | O_RDWR, 0600);
    CHECK(fd >= 0 && ftruncate(fd, n) == 0);
    fill(map(fd, n), TOUCHED, 90);
    say_and_wait("sized");
    return 0;
}
