/* Machine code in a segment, run from an executable mapping: hostile_executable BYTES */
#include "check.h"

static const unsigned char code[] = {
#if defined(__x86_64__)
    0xb8, 42, 0, 0, 0, 0xc3, /* mov eax, 42; ret */
#elif defined(__aarch64__)
    0x40, 0x05, 0x80, 0x52, 0xc0, 0x03, 0x5f, 0xd6, /* mov w0, 42; ret */
#else
#error "which machine?"
#endif
};

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    int fd = create("/executable");
    CHECK(ftruncate(fd, n) == 0);
    char *p = map(fd, n);
    memcpy(p, code, sizeof code);
    void *run = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
    if (run == MAP_FAILED) {
        printf("mmap: %s\n", strerror(errno));
    } else {
        __builtin___clear_cache(run, (char *)run + sizeof code);
        printf("ran: %d\n", ((int (*)(void))run)());
        CHECK(mprotect(p, 4096, PROT_READ | PROT_EXEC) == 0);
    }
    say_kind("/dev/shm/executable");
    CHECK(shm_unlink("/executable") == 0);
    return 0;
}
