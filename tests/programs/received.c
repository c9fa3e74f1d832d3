/* The sizing is done by a process that did not create the segment: it inherited or received the descriptor. The creator
 * must see it. received exec|fork|socket|flight BYTES; flight: the creator sizes while a copy is under way in a socket */
#include "check.h"

static void size_and_write(int fd, size_t n) {
    CHECK(ftruncate(fd, n) == 0);
    fill(map(fd, n), TOUCHED, 78);
}

int main(int argc, char **argv) {
    if (!strcmp(argv[1], "size")) {
        size_and_write(atoi(argv[2]), bytes_arg(argc, argv, 3));
        return 0;
    }
    size_t n = bytes_arg(argc, argv, 2);
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    pid_t child = -1;
    if (!strcmp(argv[1], "socket") && (child = fork()) == 0) {
        size_and_write(receive_fd(pair[1]), n);
        _exit(0);
    }
    int fd = open("/dev/shm/received", O_CREAT | O_EXCL | O_RDWR, 0600);
    CHECK(fd >= 0);
    if (!strcmp(argv[1], "exec")) {
        char number[20];
        sprintf(number, "%d", fd);
        run_self("size", number, argv[2], NULL);
    } else if (!strcmp(argv[1], "fork")) {
        IN_CHILD size_and_write(fd, n);
    } else if (!strcmp(argv[1], "socket")) {
        send_fd(pair[0], fd);
        reap(child);
    } else {
        send_fd(pair[0], fd);
        size_and_write(fd, n);
        int copy = receive_fd(pair[1]);
        CHECK(size_of(copy) == n);
        verify(map(copy, n), TOUCHED, 78);
    }
    CHECK(size_of(fd) == n);
    verify(map(fd, n), TOUCHED, 78);
    say_kind("/dev/shm/received");
    CHECK(unlink("/dev/shm/received") == 0);
    return 0;
}
