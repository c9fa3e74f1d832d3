/* What shm_open and shm_unlink say to every kind of name. shm_names */
#include "check.h"

static void try(const char *label, const char *name) {
    errno = 77;
    int fd = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    printf("%s: create %s %d", label, fd < 0 ? "fails" : "works", errno);
    if (fd >= 0)
        CHECK(close(fd) == 0);
    errno = 77;
    int again = shm_open(name, O_RDWR, 0);
    printf(", open %s %d", again < 0 ? "fails" : "works", errno);
    if (again >= 0)
        CHECK(close(again) == 0);
    errno = 77;
    int gone = shm_unlink(name);
    printf(", unlink %s %d", gone ? "fails" : "works", errno);
    errno = 77;
    gone = shm_unlink(name);
    printf(", again %s %d\n", gone ? "fails" : "works", errno);
}

static const char *long_name(size_t n, int slash) {
    static char name[300];
    memset(name, 'n', sizeof name);
    if (slash)
        name[0] = '/';
    name[n + slash] = 0;
    return name;
}

int main(void) {
    try("empty", "");
    try("slash", "/");
    try("slashes", "///");
    try("plain", "plain");
    try("slash in front", "/plain");
    try("slashes in front", "///plain");
    try("inner slash", "/in/ner");
    try("slash behind", "/behind/");
    try("dot", "/.");
    try("two dots", "/..");
    try("three dots", "/...");
    try("a space and a newline", "/a b\nc");
    try("not UTF-8", "/\xff\xfe");
    try("a semaphore's name", "/sem.x");
    for (size_t n = 253; n <= 257; n++) {
        printf("%zu bytes, ", n);
        try("no slash", long_name(n, 0));
        printf("%zu bytes, ", n);
        try("slash", long_name(n, 1));
    }
    CHECK(mkdir("/dev/shm/directory", 0700) == 0);
    try("a directory", "/directory");
    CHECK(symlink("/etc/passwd", "/dev/shm/foreign") == 0); /* never followed */
    try("a stranger's link", "/foreign");
    CHECK(symlink("/nowhere", "/dev/shm/dangling") == 0);
    errno = 0;
    CHECK(shm_open("/dangling", O_CREAT | O_RDWR, 0600) == -1);
    printf("through a dangling link: %d\n", errno);
    CHECK(shm_unlink("/dangling") == 0);
    CHECK(mkfifo("/dev/shm/fifo", 0600) == 0);
    errno = 0;
    int fd = shm_open("/fifo", O_RDWR | O_NONBLOCK, 0);
    printf("a fifo: %s %d\n", fd < 0 ? "fails" : "works", errno);
    CHECK(shm_unlink("/fifo") == 0);
    CHECK(rmdir("/dev/shm/directory") == 0);
    return 0;
}
