/* cflags: -shared -fPIC */
/* Preloaded: counts what is asked of malloc, by whomever. allocations() tells how often it was. */
#include <stddef.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);

static int count;

int allocations(void) {
    return count;
}

void *malloc(size_t n) {
    count++;
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size) {
    count++;
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n) {
    count++;
    return __libc_realloc(p, n);
}
