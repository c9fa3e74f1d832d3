/* cflags: -pthread */
/* Every slow path of the library in threads with the smallest stack there is, 16 KiB: hostile_stacks BYTES. Behind each stack
 * lies a guard so large that no frame steps over it. */
#include "check.h"
#include <limits.h>
#include <pthread.h>

static size_t n;

#define PATH "/dev/shm/stacks"
#define NEW (O_CREAT | O_EXCL | O_RDWR)

static void touch_all(int fd) {
    char *p = map(fd, n);
    memset(p, 1, n);
    CHECK(munmap(p, n) == 0);
}

static void by_ftruncate(void) {
    int fd = create_sized("/stacks", n);
    touch_all(fd);
    CHECK(shm_unlink("/stacks") == 0 && close(fd) == 0);
}

static void by_posix_fallocate(void) {
    int fd = open(PATH, NEW, 0600);
    CHECK(posix_fallocate(fd, 0, n) == 0);
    touch_all(fd);
    CHECK(unlink(PATH) == 0 && close(fd) == 0);
}

static void by_fallocate(void) {
    int fd = openat(AT_FDCWD, PATH, NEW, 0600);
    CHECK(fallocate(fd, 0, 0, n) == 0);
    touch_all(fd);
    CHECK(unlinkat(AT_FDCWD, PATH, 0) == 0 && close(fd) == 0);
}

static void by_truncate(void) {
    int fd = open(PATH, NEW, 0600);
    CHECK(truncate(PATH, n) == 0);
    touch_all(fd);
    CHECK(remove(PATH) == 0 && close(fd) == 0);
}

static void by_writing(void) { /* 64 KiB are copied at the first mmap */
    int fd = open(PATH, NEW, 0600);
    char byte = 7;
    for (int i = 0; i < 8; i++)
        CHECK(pwrite(fd, &byte, 1, i * 4096) == 1);
    CHECK(pwrite(fd, &byte, 1, n - 1) == 1);
    touch_all(fd);
    CHECK(unlink(PATH) == 0 && close(fd) == 0);
}

static void by_mkstemp(void) {
    char template[] = "/dev/shm/stacks-XXXXXX";
    int fd = mkstemp(template);
    CHECK(fd >= 0 && unlink(template) == 0 && ftruncate(fd, n) == 0);
    touch_all(fd);
    CHECK(close(fd) == 0);
}

static void by_tmpfile(void) {
    int fd = open("/dev/shm", O_TMPFILE | O_EXCL | O_RDWR, 0600);
    CHECK(fd >= 0 && ftruncate(fd, n) == 0);
    touch_all(fd);
    CHECK(close(fd) == 0);
}

static void attached_and_grown(void) {
    int fd = create_sized("/stacks", n);
    touch_all(fd);
    int again = shm_open("/stacks", O_RDWR, 0);
    CHECK(again >= 0 && size_of(again) == n);
    CHECK(ftruncate(fd, n + 65536) == 0);
    CHECK(rename(PATH, PATH "-2") == 0);
    CHECK(link(PATH "-2", PATH) == 0 && unlink(PATH) == 0);
    CHECK(shm_unlink("/stacks-2") == 0 && close(fd) == 0 && close(again) == 0);
}

static void kept(void) { /* what may not be moved is told */
    int fd = shm_open("/stacks-meet", O_CREAT | O_RDWR, 0600);
    CHECK(fd >= 0 && ftruncate(fd, n) == 0);
    CHECK(shm_unlink("/stacks-meet") == 0 && close(fd) == 0);
}

static const struct {
    const char *name;
    void (*run)(void);
} ways[] = {
#define ONE(name) {#name, name}
    ONE(by_ftruncate), ONE(by_posix_fallocate), ONE(by_fallocate), ONE(by_truncate), ONE(by_writing), ONE(by_mkstemp),
    ONE(by_tmpfile), ONE(attached_and_grown), ONE(kept),
};

static void *in_thread(void *arg) {
    ((void (*)(void))arg)();
    return NULL;
}

int main(int argc, char **argv) {
    n = bytes_arg(argc, argv, 1);
    size_t guard = 1 << 20, size = PTHREAD_STACK_MIN, most = 0;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char *whole = mmap(NULL, guard + size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(whole != MAP_FAILED);
        char *stack = whole + guard;
        CHECK(mprotect(stack, size, PROT_READ | PROT_WRITE) == 0);
        memset(stack, 0x5a, size);
        pthread_attr_t attr;
        pthread_t thread;
        CHECK(pthread_attr_init(&attr) == 0 && pthread_attr_setstack(&attr, stack, size) == 0);
        CHECK(pthread_create(&thread, &attr, in_thread, (void *)ways[i].run) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        size_t unused = 0;
        while (unused < size && stack[unused] == 0x5a)
            unused++;
        printf("%s: done\n", ways[i].name);
        if (getenv("STACKS"))
            fprintf(stderr, "%s: %zu bytes of %zu used\n", ways[i].name, size - unused, size);
        most = size - unused > most ? size - unused : most;
        CHECK(munmap(whole, guard + size) == 0);
    }
    CHECK(most < size);
    return 0;
}
