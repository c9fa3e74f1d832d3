/* Another process removes the name, by each call there is; the creator's mapping lives on. removal BYTES */
#include "check.h"

static int remove_by(int way) {
    int dir = open("/dev/shm", O_RDONLY | O_DIRECTORY);
    switch (way) {
    case 0: return shm_unlink("/gone");
    case 1: return unlink("/dev/shm/gone");
    case 2: return unlinkat(AT_FDCWD, "/dev/shm/gone", 0);
    case 3: return unlinkat(dir, "gone", 0);
    case 4: return remove("/dev/shm/gone");
    case 5: return chdir("/dev/shm") ? -1 : unlink("gone");
    case 6: return unlink("/dev/../dev/shm/./gone");
    default: return unlink("/proc/self/root/dev/shm/gone"); /* only asked for by tests/differences.rs */
    }
}

int main(int argc, char **argv) {
    if (!strcmp(argv[1], "remove")) {
        CHECK(remove_by(atoi(argv[2])) == 0);
        CHECK(remove_by(atoi(argv[2])) == -1);
        printf("again: %s\n", strerror(errno));
        return 0;
    }
    size_t n = bytes_arg(argc, argv, 1);
    for (int way = 0; way < 7; way++) {
        int fd = create_sized("/gone", n);
        void *p = map(fd, n);
        fill(p, n, 10 + way);
        run_self("remove", (char[]){'0' + way, 0}, NULL);
        CHECK(shm_open("/gone", O_RDWR, 0) == -1);
        printf("shm_open: %s\n", strerror(errno));
        CHECK(open("/dev/shm/gone", O_RDWR) == -1);
        printf("open: %s\n", strerror(errno));
        verify(p, n, 10 + way);
        CHECK(size_of(fd) == n);
        struct stat st;
        CHECK(fstat(fd, &st) == 0);
        printf("names left: %d\n", (int)st.st_nlink);
        CHECK(munmap(p, n) == 0 && close(fd) == 0);
    }
    return 0;
}
