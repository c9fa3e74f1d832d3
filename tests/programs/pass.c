/* A segment without a name goes to others: inherited by fork, through exec, sent over a socket, opened by /proc; as
 * PyTorch, Ray and UCX do it. pass BYTES */
#include "check.h"

int main(int argc, char **argv) {
    if (!strcmp(argv[1], "inherited")) {
        int fd = atoi(argv[2]);
        size_t n = bytes_arg(argc, argv, 3);
        CHECK(size_of(fd) == n);
        verify(map_read(fd, n), n, 50);
        return 0;
    }
    size_t n = bytes_arg(argc, argv, 1);
    int fd = create_sized("/passed", n);
    void *p = map(fd, n);
    CHECK(shm_unlink("/passed") == 0);
    fill(p, n, 50);
    IN_CHILD { /* fork: mapping and descriptor */
        verify(p, n, 50);
        verify(map_read(fd, n), n, 50);
    }
    CHECK(fcntl(fd, F_SETFD, 0) == 0); /* exec */
    char number[20];
    sprintf(number, "%d", fd);
    run_self("inherited", number, argv[1], NULL);
    char proc[64]; /* /proc */
    sprintf(proc, "/proc/%d/fd/%d", getpid(), fd);
    IN_CHILD {
        int other = open(proc, O_RDWR);
        CHECK(other >= 0);
        verify(map(other, n), n, 50);
    }
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    pid_t child = fork();
    if (child == 0) { /* the other way round: a worker makes it, the parent receives it */
        int mine = create_sized("/sent", n);
        fill(map(mine, n), n, 51);
        CHECK(shm_unlink("/sent") == 0);
        send_fd(pair[1], mine);
        _exit(0);
    }
    int received = receive_fd(pair[0]);
    reap(child);
    int copy = dup(received);
    CHECK(close(received) == 0);
    CHECK(size_of(copy) == n);
    verify(map(copy, n), n, 51);
    struct stat a, b;
    CHECK(fstat(fd, &a) == 0 && fstat(copy, &b) == 0);
    CHECK(a.st_ino != b.st_ino || a.st_dev != b.st_dev); /* PyTorch's key */
    puts("passed on");
    return 0;
}
