/* What others see of a segment that they watch, or hold by O_PATH, from before it is sized; and what copies from a file
 * beside it: watched NAME BYTES */
#include "check.h"
#include <sys/inotify.h>

static void create_and_look(const char *path, const char *beside, size_t n, struct turns *turns) {
    int other = open(beside, O_CREAT | O_EXCL | O_RDWR, 0600);
    CHECK(other >= 0 && write(other, "data", 4) == 4);
    int fd = open(path, O_CREAT | O_EXCL | O_RDWR, 0600);
    CHECK(fd >= 0);
    int watch = inotify_init1(IN_NONBLOCK);
    CHECK(watch >= 0 && inotify_add_watch(watch, path, IN_MODIFY | IN_DELETE_SELF | IN_ATTRIB) >= 0);
    CHECK(fcntl(fd, F_SETSIG, SIGUSR1) == 0 && fcntl(fd, F_SETOWN, getppid()) == 0);
    turn_give(turns->to_parent);
    turn_take(turns->to_child);
    CHECK(ftruncate(fd, n) == 0);
    int kept = fcntl(fd, F_GETSIG) == SIGUSR1 && fcntl(fd, F_GETOWN) == getppid();
    printf("signal and its owner: %s\n", kept ? "kept" : "lost");
    fflush(stdout);
    turn_give(turns->to_parent);
    turn_take(turns->to_child);
    char events[4096] __attribute__((aligned(8)));
    CHECK(write(fd, "data", 4) == 4);
    ssize_t got = read(watch, events, sizeof events);
    const char *what = "nothing";
    for (char *at = events; got > 0 && at < events + got; at += sizeof(struct inotify_event) + ((struct inotify_event *)at)->len)
        if (((struct inotify_event *)at)->mask & IN_MODIFY)
            what = "modified";
        else if (((struct inotify_event *)at)->mask & (IN_DELETE_SELF | IN_ATTRIB))
            what = "gone";
    printf("inotify: %s\n", what);
    off_t from = 0, to = 0;
    ssize_t copied = copy_file_range(other, &from, fd, &to, 4, 0);
    printf("copy_file_range: %s\n", copied == 4 ? "copied" : strerror(errno));
    CHECK(unlink(path) == 0 && unlink(beside) == 0);
}

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 2);
    char path[300], beside[300];
    snprintf(path, sizeof path, "/dev/shm%s", argv[1]);
    snprintf(beside, sizeof beside, "/dev/shm%s-beside", argv[1]);
    struct turns turns = turns_new();
    pid_t creator = fork(); /* who holds it is no child of who made it */
    if (creator == 0) {
        create_and_look(path, beside, n, &turns);
        fflush(stdout);
        _exit(0);
    }
    turn_take(turns.to_parent);
    int fd = open(path, O_PATH);
    CHECK(fd >= 0);
    turn_give(turns.to_child);
    turn_take(turns.to_parent);
    struct stat st;
    CHECK(fstat(fd, &st) == 0);
    printf("O_PATH: %s\n", (size_t)st.st_size == n ? "the segment" : "the empty file");
    fflush(stdout);
    turn_give(turns.to_child);
    reap(creator);
    return 0;
}
