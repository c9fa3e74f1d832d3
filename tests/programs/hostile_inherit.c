/* exec with inherited segments: another program, the same process, goes on with what it finds. hostile_inherit BYTES */
#include "check.h"

int main(int argc, char **argv) {
    if (!strcmp(argv[1], "after")) {
        size_t n = bytes_arg(argc, argv, 2);
        int sized = atoi(argv[3]), empty = atoi(argv[4]);
        CHECK(size_of(sized) == n && size_of(empty) == 0);
        verify(map_read(sized, n), n, 11);
        verify_named("/inherit", n, 11);
        CHECK(ftruncate(sized, n + 65536) == 0 && size_of(sized) == n + 65536);
        verify(map_read(sized, n), n, 11);
        /* made by the program before: not this one's to move, whatever its size */
        CHECK(ftruncate(empty, n) == 0);
        fill(map(empty, n), TOUCHED, 12);
        IN_CHILD {
            int fd = shm_open("/inherit-empty", O_RDONLY, 0);
            CHECK(fd >= 0 && size_of(fd) == n);
            verify(map_read(fd, n), TOUCHED, 12);
        }
        int own = create_sized("/inherit-own", n);
        fill(map(own, n), n, 13);
        IN_CHILD verify_named("/inherit-own", n, 13);
        CHECK(shm_unlink("/inherit-own") == 0 && shm_unlink("/inherit-empty") == 0 && shm_unlink("/inherit") == 0);
        puts("all there");
        return 0;
    }
    size_t n = bytes_arg(argc, argv, 1);
    int sized = create_sized("/inherit", n);
    fill(map(sized, n), n, 11);
    int empty = create("/inherit-empty");
    CHECK(fcntl(sized, F_SETFD, 0) == 0 && fcntl(empty, F_SETFD, 0) == 0);
    char a[20], b[20];
    sprintf(a, "%d", sized);
    sprintf(b, "%d", empty);
    puts("exec");
    fflush(stdout);
    execl("/proc/self/exe", "self", "after", argv[1], a, b, NULL);
    CHECK(!"exec works");
}
