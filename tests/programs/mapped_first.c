/* Maps a file without a name, as one that it was given by another process, before it makes its first segment: mapped_first BYTES. */
#include "check.h"

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    int fd = memfd_create("given", MFD_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
    CHECK(munmap(map(fd, 4096), 4096) == 0);
    fd = create_sized("/mapped-first", n);
    fill(map(fd, n), n, 1);
    CHECK(shm_unlink("/mapped-first") == 0);
    return 0;
}
