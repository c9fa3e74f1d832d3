/* cflags: -shared -fPIC */
/* A plugin that uses shared memory: loaded by hostile_dlopen in several ways. */
#include "check.h"

/* Makes a segment, writes `touched` bytes, checks them, removes it. */
__attribute__((visibility("default"))) void plugin_own(const char *name, size_t n, size_t touched) {
    int fd = create_sized(name, n);
    void *p = map(fd, n);
    fill(p, touched, 21);
    verify(p, touched, 21);
    CHECK(shm_unlink(name) == 0 && munmap(p, n) == 0 && close(fd) == 0);
}

/* Checks a segment that the program made. */
__attribute__((visibility("default"))) void plugin_check(int fd, const char *path, size_t n, int seed) {
    CHECK(size_of(fd) == n);
    verify(map_read(fd, n), n, seed);
    int other = open(path, O_RDWR);
    CHECK(other >= 0 && size_of(other) == n);
    verify(map_read(other, n), n, seed);
    CHECK(close(other) == 0);
}

static void load(void) __attribute__((constructor));
static void load(void) {
    plugin_own("/plugin-constructor", 65536, 65536);
}

static void unload(void) __attribute__((destructor));
static void unload(void) {
    plugin_own("/plugin-destructor", 65536, 65536);
}
