/* Locks taken before sizing are still held after it: locked ofd|posix|flock BYTES */
#include "check.h"
#include <sys/file.h>

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 2);
    int fd = create("/locked");
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int how = !strcmp(argv[1], "ofd") ? F_OFD_SETLK : !strcmp(argv[1], "posix") ? F_SETLK : 0;
    CHECK(how ? fcntl(fd, how, &whole) == 0 : flock(fd, LOCK_EX) == 0);
    CHECK(ftruncate(fd, n) == 0);
    fill(map(fd, n), TOUCHED, 74);
    IN_CHILD {
        int other = open("/dev/shm/locked", O_RDWR);
        CHECK(other >= 0);
        struct flock mine = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        CHECK((how ? fcntl(other, how, &mine) : flock(other, LOCK_EX | LOCK_NB)) == -1);
        printf("a second one: %s\n", strerror(errno));
    }
    say_kind("/dev/shm/locked");
    CHECK(shm_unlink("/locked") == 0);
    return 0;
}
