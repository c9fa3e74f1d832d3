/* Children by every call that makes one, each with shared memory on both sides: hostile_spawn BYTES */
#include "check.h"
#include <spawn.h>

extern char **environ;
static size_t n;

static void one(const char *name, int seed) {
    int fd = create_sized(name, n);
    void *p = map(fd, n);
    fill(p, n, seed);
    verify_named(name, n, seed);
    CHECK(shm_unlink(name) == 0 && munmap(p, n) == 0 && close(fd) == 0);
}

int main(int argc, char **argv) {
    if (!strcmp(argv[1], "child")) {
        n = bytes_arg(argc, argv, 2);
        verify_named("/spawn-parent", n, 1);
        char name[40];
        sprintf(name, "/spawn-%d", getpid());
        one(name, 2);
        if (argc > 3) { /* what the file actions opened */
            int fd = atoi(argv[3]);
            CHECK(size_of(fd) == n);
            verify(map_read(fd, n), n, 1);
        }
        printf("child\n");
        return 0;
    }
    n = bytes_arg(argc, argv, 1);
    int fd = create_sized("/spawn-parent", n);
    fill(map(fd, n), n, 1);
    char *plain[] = {"self", "child", argv[1], NULL}, *with[] = {"self", "child", argv[1], "57", NULL};
    pid_t pid;
    CHECK(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, plain, environ) == 0);
    reap(pid);
    posix_spawn_file_actions_t actions;
    CHECK(posix_spawn_file_actions_init(&actions) == 0);
    CHECK(posix_spawn_file_actions_addopen(&actions, 57, "/dev/shm/spawn-parent", O_RDWR, 0) == 0);
    CHECK(posix_spawn_file_actions_addclose(&actions, 0) == 0);
    CHECK(posix_spawn_file_actions_adddup2(&actions, fd, 58) == 0);
    posix_spawnattr_t attributes;
    sigset_t all;
    sigfillset(&all);
    CHECK(posix_spawnattr_init(&attributes) == 0 && posix_spawnattr_setsigmask(&attributes, &all) == 0);
    CHECK(posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP) == 0);
    CHECK(posix_spawn(&pid, "/proc/self/exe", &actions, &attributes, with, environ) == 0);
    reap(pid);
    pid = vfork();
    if (pid == 0) {
        execv("/proc/self/exe", plain);
        _exit(127);
    }
    reap(pid);
    char self[300], command[400];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    CHECK(length > 0);
    self[length] = 0;
    snprintf(command, sizeof command, "%s child %s", self, argv[1]);
    CHECK(system(command) == 0);
    FILE *pipe = popen(command, "r");
    char line[100];
    CHECK(pipe != NULL && fgets(line, sizeof line, pipe) && !strcmp(line, "child\n") && pclose(pipe) == 0);
    CHECK(setenv("LD_PRELOAD", "", 1) == 0); /* a child that the library does not reach opens by path */
    int status = system("test $(wc -c < /dev/shm/spawn-parent) -gt 100000 && echo plain child");
    CHECK(status == 0);
    fflush(stdout);
    IN_CHILD {
        IN_CHILD one("/spawn-grandchild", 3);
        one("/spawn-child", 4);
    }
    verify_named("/spawn-parent", n, 1);
    CHECK(shm_unlink("/spawn-parent") == 0);
    puts("parent");
    return 0;
}
