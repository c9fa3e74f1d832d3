/* Runs a program and ends it by SIGKILL at the entry of its n-th system call: kill_at N PROGRAM ARGUMENTS...
 * Counted from the program's own mark on, prctl(MARK, 1), so that loading it does not count. The call at whose entry it dies is
 * not made. N = 0: it runs to its end, and its calls are counted. Says one line:
 *   killed before N NAME-OR-NUMBER      or      ended after COUNT calls, status STATUS
 * Runs without the library itself; its environment goes to the program. */
#include "check.h"
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#define MARK 0x53484d47

static void resume(pid_t pid, int signal) {
    CHECK(ptrace(PTRACE_SYSCALL, pid, NULL, (void *)(long)signal) == 0);
}

int main(int argc, char **argv) {
    CHECK(argc >= 3);
    size_t n = bytes_arg(argc, argv, 1), count = 0;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        CHECK(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
        raise(SIGSTOP);
        execvp(argv[2], argv + 2);
        _exit(127);
    }
    int status, counting = 0;
    CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
    CHECK(ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)(long)(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC)) == 0);
    resume(pid, 0);
    while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
        if (WSTOPSIG(status) != (SIGTRAP | 0x80)) {
            /* the stop after exec is no signal of the program's */
            resume(pid, status >> 16 ? 0 : WSTOPSIG(status));
            continue;
        }
        struct __ptrace_syscall_info info;
        CHECK(ptrace(PTRACE_GET_SYSCALL_INFO, pid, (void *)sizeof info, &info) > 0);
        if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
            if (counting && ++count == n) {
                printf("killed before %zu syscall-%llu\n", n, (unsigned long long)info.entry.nr);
                CHECK(kill(pid, SIGKILL) == 0);
                CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
                return 0;
            }
            if (info.entry.nr == SYS_prctl && info.entry.args[0] == MARK)
                counting = info.entry.args[1] == 1;
        }
        resume(pid, 0);
    }
    CHECK(WIFEXITED(status));
    printf("ended after %zu calls, status %d\n", count, WEXITSTATUS(status));
    return WEXITSTATUS(status);
}
