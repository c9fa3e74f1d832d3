/* A call on a path opens nothing that waits there: truncate of a fifo fails, and its reader goes on waiting for a writer. neighbour_fifo */
#include "check.h"
#include <sys/syscall.h>

static int waits_in_open(pid_t pid) {
    char path[60], text[20] = "";
    snprintf(path, sizeof path, "/proc/%d/syscall", pid);
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0 && read(fd, text, sizeof text - 1) > 0 && close(fd) == 0);
    return atoi(text) == SYS_openat; /* "running" reads as 0 */
}

int main(void) {
    const char *path = "/dev/shm/fifo";
    char c;
    CHECK(mkfifo(path, 0666) == 0);
    pid_t reader = fork();
    if (reader == 0) {
        int fd = open(path, O_RDONLY);
        _exit(fd >= 0 && read(fd, &c, 1) == 1 ? 0 : 1);
    }
    /* This process sizes segments: its calls are looked at. */
    CHECK(close(create_sized("/own", 4096)) == 0 && shm_unlink("/own") == 0);
    while (!waits_in_open(reader))
        usleep(1000);
    CHECK(truncate(path, 4096) == -1 && errno == EINVAL);
    int fd = open(path, O_WRONLY | O_NONBLOCK);
    CHECK(fd >= 0);
    CHECK(write(fd, "x", 1) == 1 && close(fd) == 0);
    reap(reader);
    CHECK(unlink(path) == 0);
    puts("the reader waited for the writer");
    return 0;
}
