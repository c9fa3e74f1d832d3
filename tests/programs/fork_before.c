/* A child made between creating and sizing inherits the descriptor: both sides must see one object. fork_before BYTES */
#include "check.h"
#include <sched.h>
#include <spawn.h>
#include <sys/syscall.h>

static size_t n;
static struct turns turns;

/* The child's side: waits until the parent has sized and written. */
static void child_side(int fd) {
    turn_take(turns.to_child);
    CHECK(size_of(fd) == n);
    verify(map_read(fd, n), TOUCHED, 71);
}

int main(int argc, char **argv) {
    extern char **environ;
    if (!strcmp(argv[1], "child")) {
        n = bytes_arg(argc, argv, 2);
        turns.to_child[0] = atoi(argv[4]);
        child_side(atoi(argv[3]));
        return 0;
    }
    n = bytes_arg(argc, argv, 2);
    turns = turns_new();
    int fd = open("/dev/shm/forked", O_CREAT | O_EXCL | O_RDWR, 0600); /* inheritable */
    CHECK(fd >= 0);
    CHECK(fcntl(turns.to_child[0], F_SETFD, 0) == 0);
    char number[20], pipe_number[20];
    sprintf(number, "%d", fd);
    sprintf(pipe_number, "%d", turns.to_child[0]);
    char *child_argv[] = {"self", "child", argv[2], number, pipe_number, NULL};
    pid_t pid = -1;
    if (!strcmp(argv[1], "fork") && (pid = fork()) == 0) {
        child_side(fd);
        _exit(0);
    }
    if (!strcmp(argv[1], "clone") && (pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)) == 0) {
        child_side(fd);
        _exit(0);
    }
    if (!strcmp(argv[1], "_Fork") && (pid = _Fork()) == 0) {
        child_side(fd);
        _exit(0);
    }
    if (!strcmp(argv[1], "vfork") && (pid = vfork()) == 0) {
        execv("/proc/self/exe", child_argv);
        _exit(127);
    }
    if (!strcmp(argv[1], "posix_spawn"))
        CHECK(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, child_argv, environ) == 0);
    CHECK(pid > 0);
    CHECK(ftruncate(fd, n) == 0);
    fill(map(fd, n), TOUCHED, 71);
    turn_give(turns.to_child);
    reap(pid);
    say_kind("/dev/shm/forked");
    CHECK(unlink("/dev/shm/forked") == 0);
    return 0;
}
