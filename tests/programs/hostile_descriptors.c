/* Descriptors: everything closed by closefrom and close_range, numbers as without the library, and none left to be had.
 * hostile_descriptors BYTES */
#include "check.h"
#include <linux/close_range.h>
#include <sys/resource.h>

static size_t n;

static void list(const char *when) {
    printf("%s:", when);
    for (int fd = 0; fd < 200; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            printf(" %d%s", fd, fcntl(fd, F_GETFD) & FD_CLOEXEC ? "c" : "");
    puts("");
}

/* Makes a segment and says which number it got. */
static int one(const char *name, int touch_all) {
    int fd = create_sized(name, n);
    char *p = map(fd, n);
    memset(p, 1, touch_all ? n : TOUCHED);
    CHECK(munmap(p, n) == 0);
    printf("%s is %d\n", name, fd);
    return fd;
}

int main(int argc, char **argv) {
    n = bytes_arg(argc, argv, 1);
    int keep = dup(2); /* what the test's harness left open is not of interest */
    closefrom(3);
    (void)keep;
    list("at first");
    int a = one("/descriptors-a", 1);
    int b = open("/dev/shm/descriptors-b", O_CREAT | O_EXCL | O_RDWR, 0600);
    CHECK(ftruncate(b, n) == 0);
    list("two segments");
    CHECK(dup2(a, 100) == 100);
    CHECK(close_range(a, a, 0) == 0);
    list("one closed");
    verify_zero(map_read(b, n), TOUCHED);
    closefrom(3);
    list("closefrom");
    int again = shm_open("/descriptors-a", O_RDWR, 0);
    CHECK(again == 3 && size_of(again) == n);
    CHECK(ftruncate(again, n + 4096) == 0);
    CHECK(shm_unlink("/descriptors-a") == 0);
    one("/descriptors-c", 1);
    list("more");
    CHECK(close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) == 0);
    list("close on exec");
    CHECK(close_range(3, ~0U, CLOSE_RANGE_UNSHARE) == 0);
    list("close_range");
    for (int fd = 0; fd < 3; fd++) /* daemons close these as well; the numbers are used again */
        if (fd != 1)
            close(fd);
    int zero = one("/descriptors-d", 1);
    int two = open("/dev/shm/descriptors-e", O_CREAT | O_EXCL | O_RDWR, 0600);
    CHECK(zero == 0 && two == 2 && ftruncate(two, n) == 0);
    char *p = map(two, n);
    fill(p, n, 9);
    verify(p, n, 9); /* no line of anybody's has landed in it */
    CHECK(shm_unlink("/descriptors-b") == 0 && shm_unlink("/descriptors-c") == 0 && shm_unlink("/descriptors-d") == 0);
    CHECK(shm_unlink("/descriptors-e") == 0);
    CHECK(close(zero) == 0 && close(two) == 0);

    /* None, one and two descriptors left: the calls give the same answers, and only the beginning is touched. */
    struct rlimit limit = {64, 64};
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(open("/dev/null", O_RDONLY) == 0 && open("/dev/null", O_WRONLY) == 2);
    for (int left = 0; left < 3; left++) {
        int last = -1, fd;
        while ((fd = open("/dev/null", O_RDONLY)) >= 0)
            last = fd;
        printf("last is %d, errno %s\n", last, strerrorname_np(errno));
        for (int i = 0; i < left; i++)
            CHECK(close(last - i) == 0);
        fd = shm_open("/descriptors-full", O_CREAT | O_EXCL | O_RDWR, 0600);
        printf("%d left: shm_open %s", left, fd < 0 ? strerrorname_np(errno) : "works");
        if (fd >= 0) {
            printf(" as %d, ftruncate %d", fd, ftruncate(fd, n));
            p = map(fd, n);
            memset(p, 1, TOUCHED);
            int other = open("/dev/shm/descriptors-full", O_RDWR);
            printf(", open %s", other < 0 ? strerrorname_np(errno) : "works");
            if (other >= 0)
                CHECK(size_of(other) == n && close(other) == 0);
            CHECK(munmap(p, n) == 0 && close(fd) == 0);
        }
        puts("");
        /* A name that is taken away with no descriptor left leaves a target for the next collection; so not here. */
        closefrom(3);
        if (left > 0)
            CHECK(shm_unlink("/descriptors-full") == 0);
        CHECK(shm_unlink("/descriptors-full") == -1 && errno == ENOENT);
    }
    return 0;
}
