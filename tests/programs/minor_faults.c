/* Registers a segment with userfaultfd for minor faults: minor_faults NAME BYTES */
#include "check.h"
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 2);
    int fd = create_sized(argv[1], n);
    void *p = map(fd, n);
    CHECK(shm_unlink(argv[1]) == 0);
    fill(p, n, 1);
    int uffd = syscall(SYS_userfaultfd, O_CLOEXEC);
    CHECK(uffd >= 0);
    struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_MINOR_SHMEM};
    CHECK(ioctl(uffd, UFFDIO_API, &api) == 0);
    struct uffdio_register range = {.range = {(uintptr_t)p, n}, .mode = UFFDIO_REGISTER_MODE_MINOR};
    int result = ioctl(uffd, UFFDIO_REGISTER, &range);
    printf("minor faults: %s\n", result ? strerror(errno) : "works");
    return 0;
}
