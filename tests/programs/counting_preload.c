/* cflags: -shared -fPIC */
/* Another library in LD_PRELOAD: counts the calls of shm_open, ftruncate and mmap64 that reach it, and says the counts at
 * the end in a file. */
#include "check.h"
#include <dlfcn.h>

static int opens, truncates;

int shm_open(const char *name, int flags, mode_t mode) {
    int (*next)(const char *, int, mode_t) = dlsym(RTLD_NEXT, "shm_open");
    opens++;
    return next(name, flags, mode);
}

int ftruncate(int fd, off_t size) {
    int (*next)(int, off_t) = dlsym(RTLD_NEXT, "ftruncate");
    truncates++;
    return next(fd, size);
}

__attribute__((destructor)) static void end(void) {
    FILE *out = fopen(getenv("COUNTS"), "a");
    if (out) {
        fprintf(out, "shm_open %d, ftruncate %d\n", opens, truncates);
        fclose(out);
    }
}
