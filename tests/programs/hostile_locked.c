/* Segments locked into memory and pinned for a device (io_uring's registered buffers): hostile_locked BYTES */
#include "check.h"
#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <sys/uio.h>

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    int fd = create_sized("/locked", n);
    char *p = map(fd, n);
    fill(p, n, 1);
    printf("mlock %d\n", mlock(p, n));
    printf("mlock2 %d\n", mlock2(p, n, MLOCK_ONFAULT));
    printf("munlock %d\n", munlock(p, n));
    CHECK(mlockall(MCL_FUTURE) == 0);
    int other = create_sized("/locked-future", n);
    char *q = map(other, n); /* taken at once: must not fault */
    fill(q, n, 2);
    printf("remap %s\n", mremap(q, n, n, 0) == q ? "stays" : "moves");
    CHECK(munlockall() == 0);
    printf("msync %d, madvise %d\n", msync(p, n, MS_SYNC), madvise(p, n, MADV_WILLNEED));
    struct io_uring_params params = {0};
    int ring = syscall(SYS_io_uring_setup, 4, &params);
    CHECK(ring >= 0); /* kernel.io_uring_disabled must be 0 */
    struct iovec parts[2] = {{p, n}, {q, n}};
    int result = syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, parts, 2);
    printf("pinned: %s\n", result ? strerror(errno) : "works");
    verify(p, n, 1);
    verify(q, n, 2);
    CHECK(shm_unlink("/locked") == 0 && shm_unlink("/locked-future") == 0);
    return 0;
}
