/* Pins a written segment for long, as RDMA and cudaHostRegister do: io_uring's registered buffers. pin NAME BYTES */
#include "check.h"
#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <sys/uio.h>

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 2);
    int fd = create_sized(argv[1], n);
    void *p = map(fd, n);
    CHECK(shm_unlink(argv[1]) == 0);
    fill(p, n, 1);
    struct io_uring_params params = {0};
    int ring = syscall(SYS_io_uring_setup, 4, &params);
    CHECK(ring >= 0); /* kernel.io_uring_disabled must be 0 */
    struct iovec whole = {p, n};
    int result = syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &whole, 1);
    printf("pinned: %s\n", result ? strerror(errno) : "works");
    verify(p, n, 1);
    return 0;
}
