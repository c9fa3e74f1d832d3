/* One life of a container, as its process 1: lives HOW COUNT BYTES [WORKERS]. Segments are named and stay; it says "ready" when
 * all are there, and holds them until it is told to end or killed.
 * HOW: workers (WORKERS children make COUNT segments each), alone (this process makes them, marked for kill_at, and ends at once
 * without its exit handlers), veiled (as workers, beside a process that may not be looked at), private (as veiled, and that
 * process alone still has the tmpfs of a segment whose maker is gone; "kept NAME" is its target. Told to go on, it kills that process
 * and makes and removes segments until the target is "gone"). */
#include "check.h"
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define MARK 0x53484d47

static void make(int worker, int count, size_t n) {
    char name[40];
    for (int i = 0; i < count; i++) {
        sprintf(name, "/life-%d-%d", worker, i);
        int fd = create_sized(name, n);
        fill(map(fd, n), n, worker * 1000 + i);
        CHECK(close(fd) == 0);
    }
}

/* Where a segment that was redirected is. */
static void target_of(const char *path, char *target, size_t size) {
    ssize_t length = readlink(path, target, size - 1);
    CHECK(length > 0);
    target[length] = 0;
}

/* A process that others may not look at, as that of a container engine which enters a container. With `own` it has a /dev/shm of
 * its own, in which a child that is gone has left a redirected segment. */
static pid_t veil(int own, size_t n, char *target, size_t size) {
    int there[2];
    CHECK(pipe(there) == 0);
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        if (own) {
            CHECK(unshare(CLONE_NEWNS) == 0);
            CHECK(mount("shm", "/dev/shm", "tmpfs", 0, "size=8m,mode=1777") == 0);
            IN_CHILD make(99, 1, n);
            target_of("/dev/shm/life-99-0", target, size);
        }
        CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
        CHECK(write(there[1], target, size) == (ssize_t)size);
        for (;;)
            pause();
    }
    CHECK(read(there[0], target, size) == (ssize_t)size);
    CHECK(close(there[0]) == 0 && close(there[1]) == 0);
    /* The point of it; without CAP_SYS_PTRACE not even root may look. */
    char path[40];
    struct stat st;
    sprintf(path, "/proc/%d/root/tmp", pid);
    CHECK(stat(path, &st) == -1 && errno == EACCES);
    return pid;
}

int main(int argc, char **argv) {
    const char *how = argv[1];
    int count = atoi(argv[2]);
    size_t n = bytes_arg(argc, argv, 3);
    if (!strcmp(how, "alone")) {
        prctl(MARK, 1);
        make(0, count, n);
        prctl(MARK, 0);
        syscall(SYS_exit_group, 0);
    }
    char target[256] = "";
    int private = !strcmp(how, "private");
    pid_t veiled = strcmp(how, "workers") ? veil(private, n, target, sizeof target) : 0;
    if (private)
        printf("kept %s\n", strrchr(target, '/') + 1);
    int workers = atoi(argv[4]), arrived[2];
    char c;
    CHECK(pipe(arrived) == 0);
    for (int w = 0; w < workers; w++)
        if (fork() == 0) {
            make(w, count, n);
            CHECK(write(arrived[1], "x", 1) == 1);
            for (;;)
                pause();
        }
    CHECK(close(arrived[1]) == 0);
    for (int w = 0; w < workers; w++)
        CHECK(read(arrived[0], &c, 1) == 1); /* end of file here: a worker died */
    say_and_wait("ready");
    if (private) {
        CHECK(kill(veiled, SIGKILL) == 0 && waitpid(veiled, NULL, 0) == veiled);
        while (access(target, F_OK) == 0) {
            make(98, 1, n);
            CHECK(shm_unlink("/life-98-0") == 0);
            usleep(20000);
        }
        say_and_wait("gone");
    }
    return 0;
}
