/* A process in a seccomp sandbox sizes and maps a segment that it inherited. Allowed is what these calls always did, and
 * one fstat; anything else kills it. sandbox BYTES */
#include "check.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define ALLOW(nr) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

int main(int argc, char **argv) {
    if (!strcmp(argv[1], "inside")) {
        int fd = atoi(argv[2]);
        size_t n = bytes_arg(argc, argv, 3);
        struct sock_filter filter[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            ALLOW(SYS_ftruncate), ALLOW(SYS_mmap), ALLOW(SYS_munmap), ALLOW(SYS_write), ALLOW(SYS_fstat),
            ALLOW(SYS_newfstatat), ALLOW(SYS_fallocate), ALLOW(SYS_close), ALLOW(SYS_exit_group),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        };
        struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
        CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
        CHECK(ftruncate(fd, n) == 0);
        CHECK(posix_fallocate(fd, 0, TOUCHED) == 0);
        void *p = map(fd, n);
        fill(p, TOUCHED, 1);
        CHECK(munmap(p, n) == 0 && close(fd) == 0);
        CHECK(write(1, "inside\n", 7) == 7);
        _exit(0); /* as sandboxed processes leave */
    }
    int fd = open("/dev/shm/sandbox", O_CREAT | O_EXCL | O_RDWR, 0600);
    CHECK(fd >= 0);
    char number[20];
    sprintf(number, "%d", fd);
    run_self("inside", number, argv[1], NULL);
    verify(map(fd, bytes_arg(argc, argv, 1)), TOUCHED, 1);
    CHECK(unlink("/dev/shm/sandbox") == 0);
    puts("outside");
    return 0;
}
