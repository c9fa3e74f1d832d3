/* cflags: -shared -fPIC */
/* An allocator as jemalloc and others are: takes a lock that is not recursive, and calls mmap and open while it holds it.
 * Whoever allocates inside of those calls, on that thread, is caught. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile pthread_t owner;
static volatile int held;
static char *next_byte;
static size_t left;

static void caught(void) {
    static const char words[] = "the allocator was entered from inside of it\n";
    ssize_t ignored = write(2, words, sizeof words - 1);
    (void)ignored;
    _exit(99);
}

static void *take(size_t n) {
    if (held && pthread_equal(owner, pthread_self()))
        caught();
    pthread_mutex_lock(&lock);
    owner = pthread_self();
    held = 1;
    n = (n + 31) & ~(size_t)15;
    if (n > left) {
        size_t chunk = n > (1 << 20) ? n : 1 << 20;
        int fd = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY);
        if (fd >= 0)
            close(fd);
        char *p = mmap(NULL, chunk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            caught();
        /* sometimes gives memory back as well */
        void *q = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        munmap(q, 4096);
        next_byte = p;
        left = chunk;
    }
    size_t *p = (size_t *)next_byte;
    next_byte += n;
    left -= n;
    held = 0;
    pthread_mutex_unlock(&lock);
    p[1] = n - 16;
    return p + 2;
}

void *malloc(size_t n) {
    return take(n);
}

void free(void *p) {
    (void)p;
}

void *calloc(size_t a, size_t b) {
    void *p = take(a * b);
    return memset(p, 0, a * b);
}

void *realloc(void *p, size_t n) {
    void *q = take(n);
    if (p) {
        size_t old = ((size_t *)p)[-1];
        memcpy(q, p, old < n ? old : n);
    }
    return q;
}

void *memalign(size_t align, size_t n) {
    uintptr_t p = (uintptr_t)take(n + align + 16);
    uintptr_t q = (p + align - 1) & ~(align - 1);
    if (q - p >= 16)
        ((size_t *)q)[-1] = n;
    return (void *)q;
}

void *aligned_alloc(size_t align, size_t n) {
    return memalign(align, n);
}

int posix_memalign(void **out, size_t align, size_t n) {
    *out = memalign(align, n);
    return 0;
}
