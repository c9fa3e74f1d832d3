/* The sizing is done by a process that did not create the segment: it inherited or received the descriptor. The creator
 * must see it. received exec|fork|socket|flight BYTES; flight: the creator sizes while a copy is under way in a socket */
#include "check.h"
#include <sys/socket.h>

static void size_and_write(int fd, size_t n) {
    CHECK(ftruncate(fd, n) == 0);
    fill(map(fd, n), TOUCHED, 78);
}

static void pass(int socket, int fd) {
    char byte = 0, space[CMSG_SPACE(sizeof(int))];
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    CHECK(sendmsg(socket, &message, 0) == 1);
}

static int receive(int socket) {
    char byte, space[CMSG_SPACE(sizeof(int))];
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    CHECK(recvmsg(socket, &message, 0) == 1 && CMSG_FIRSTHDR(&message) != NULL);
    int fd;
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
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
        size_and_write(receive(pair[1]), n);
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
        pass(pair[0], fd);
        reap(child);
    } else {
        pass(pair[0], fd);
        size_and_write(fd, n);
        int copy = receive(pair[1]);
        CHECK(size_of(copy) == n);
        verify(map(copy, n), TOUCHED, 78);
    }
    CHECK(size_of(fd) == n);
    verify(map(fd, n), TOUCHED, 78);
    say_kind("/dev/shm/received");
    CHECK(unlink("/dev/shm/received") == 0);
    return 0;
}
