/* Sandboxes that a process enters after it has used shared memory. Allowed is what it does itself, and one fstat a hooked
 * call; anything else kills it. hostile_seccomp WAY BYTES, ways: strict, few, exit, and few-syscall, exit-syscall by the other call */
#include "check.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define ALLOW(nr) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* The second way into a filter, by which libseccomp comes, where `by_syscall` is set. */
static void enter_few(int by_syscall) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_ftruncate), ALLOW(SYS_fallocate), ALLOW(SYS_mmap), ALLOW(SYS_munmap), ALLOW(SYS_write),
        ALLOW(SYS_fstat), ALLOW(SYS_newfstatat), ALLOW(SYS_close), ALLOW(SYS_exit_group), ALLOW(SYS_openat),
        ALLOW(SYS_unlinkat),
#ifdef SYS_unlink
        ALLOW(SYS_unlink),
#endif
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (by_syscall)
        CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0);
    else
        CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 2);
    /* Made by a parent, as a broker does for its sandboxed children: the child may size and map what it inherits. */
    int broker = create("/seccomp-broker");
    int file = open("/proc/self/exe", O_RDONLY);
    CHECK(file >= 0);
    pid_t pid = fork();
    if (pid == 0) {
        /* its own past: segments of all kinds, so that the library is awake in it */
        for (int i = 0; i < 3; i++) {
            int fd = create_sized("/seccomp-own", n);
            fill(map(fd, n), n, i);
            CHECK(shm_unlink("/seccomp-own") == 0 && close(fd) == 0);
        }
        int kept = create_sized("/seccomp-kept", n);
        char *p = map(kept, n);
        if (!strcmp(argv[1], "strict")) {
            CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
            memset(p, 1, n);
            CHECK(write(1, "strict: lives\n", 14) == 14);
            syscall(SYS_exit, 0);
        }
        enter_few(strstr(argv[1], "-syscall") != NULL);
        if (!strncmp(argv[1], "few", 3)) {
            CHECK(ftruncate(broker, n) == 0);
            CHECK(posix_fallocate(broker, 0, TOUCHED) == 0);
            CHECK(fallocate(broker, 0, 0, TOUCHED) == 0);
            char *q = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, broker, 0);
            CHECK(q != MAP_FAILED);
            memset(q, 1, TOUCHED);
            CHECK(munmap(q, n) == 0);
            q = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
            CHECK(q != MAP_FAILED && munmap(q, 4096) == 0);
            q = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            CHECK(q != MAP_FAILED && munmap(q, n) == 0);
            int other = open("/proc/self/exe", O_RDONLY);
            CHECK(other >= 0 && close(other) == 0);
            CHECK(unlink("/nowhere/at/all") == -1);
            /* What it made itself and what is new: as the kernel has it, whatever was to be done elsewhere. */
            CHECK(ftruncate(kept, n + 4096) == 0);
            other = open("/dev/shm/seccomp-kept", O_RDWR);
            CHECK(other >= 0 && close(other) == 0);
            other = open("/dev/shm/seccomp-new", O_CREAT | O_EXCL | O_RDWR, 0600);
            CHECK(other >= 0 && ftruncate(other, n) == 0 && close(other) == 0);
            CHECK(unlink("/dev/shm/seccomp-new") == 0);
            memset(p, 1, n);
            CHECK(write(1, "few: lives\n", 11) == 11);
            _exit(0);
        }
        /* leaves as a program does that knows nothing of destructors which are not its own */
        CHECK(write(1, "exit: goes\n", 11) == 11);
        exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    printf("exited %d, signal %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1,
           WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    shm_unlink("/seccomp-kept");
    CHECK(shm_unlink("/seccomp-broker") == 0);
    return 0;
}
