/* Uses shared memory before main, in main, in an exit handler and in a destructor; errno is 0 at the start of main.
 * early_late BYTES */
#include "check.h"

static size_t n = 65536;

static void one(const char *name, size_t bytes) {
    int fd = create_sized(name, bytes);
    void *p = map(fd, bytes);
    fill(p, bytes, 1);
    verify_named(name, bytes, 1);
    CHECK(shm_unlink(name) == 0 && munmap(p, bytes) == 0 && close(fd) == 0);
}

__attribute__((constructor)) static void before(void) {
    int saved = errno;
    one("/constructor", n);
    errno = saved;
}

__attribute__((destructor)) static void after(void) {
    one("/destructor", n);
}

static void handler(void) {
    one("/handler", n);
    puts("exit handler");
    fflush(stdout);
}

int main(int argc, char **argv) {
    printf("errno %d\n", errno);
    n = bytes_arg(argc, argv, 1);
    CHECK(atexit(handler) == 0);
    one("/main", n);
    return 0;
}
