/* patched BYTES: puts a jump to its own function over the first instructions of mmap, as UCX does, and then makes a
 * segment of BYTES as MPICH does: mkstemp, lseek, write of one byte, mmap, attach by name. Prints what it found. */
#include "check.h"
#include <dlfcn.h>
#include <sys/syscall.h>

static int calls;

static void *own_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    calls++;
    return (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
}

static void overwrite(void *function) {
    uint64_t to = (uint64_t)(uintptr_t)own_mmap;
#if defined(__x86_64__)
    unsigned char code[12] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0}; /* movabs rax, to; jmp rax */
    memcpy(code + 2, &to, sizeof to);
#elif defined(__aarch64__)
    unsigned char code[16] = {0x50, 0, 0, 0x58, 0, 2, 0x1f, 0xd6}; /* ldr x16, .+8; br x16 */
    memcpy(code + 8, &to, sizeof to);
#else
#error "no jump known for this machine"
#endif
    uintptr_t page = (uintptr_t)function & ~(uintptr_t)4095;
    CHECK(mprotect((void *)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
    memcpy(function, code, sizeof code);
    __builtin___clear_cache((char *)function, (char *)function + sizeof code);
    CHECK(mprotect((void *)page, 8192, PROT_READ | PROT_EXEC) == 0);
}

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    void *found = dlsym(RTLD_DEFAULT, "mmap");
    CHECK(found);
    overwrite(found);
    char path[] = "/dev/shm/mpich_shar_tmpXXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    CHECK(lseek(fd, (off_t)n - 1, SEEK_SET) == (off_t)n - 1);
    CHECK(write(fd, "", 1) == 1);
    CHECK(lseek(fd, 0, SEEK_CUR) == (off_t)n);
    struct stat stat;
    CHECK(fstat(fd, &stat) == 0 && stat.st_size == (off_t)n);
    void *mine = map(fd, n);
    CHECK(calls == 1);
    int attached = open(path, O_RDWR);
    CHECK(attached >= 0);
    CHECK(unlink(path) == 0);
    fill(mine, n, 3);
    void *theirs = map(attached, n);
    verify(theirs, n, 3);
    printf("%zu bytes, %d mappings of our own\n", n, calls);
    return 0;
}
