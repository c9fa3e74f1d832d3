/* cflags: -rdynamic */
/* A program that exports getenv, setenv, malloc's relatives aside, and throws its environment away, as bash and daemons
 * do: environment BYTES */
#include "check.h"

extern char **environ;

char *getenv(const char *name) {
    (void)name;
    fprintf(stderr, "somebody called the program's getenv\n");
    _exit(98);
}

int setenv(const char *name, const char *value, int overwrite) {
    (void)name, (void)value, (void)overwrite;
    _exit(97);
}

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    for (char **entry = environ; *entry; entry++)
        memset(*entry, 'x', strlen(*entry));
    environ = NULL;
    for (int fd = 3; fd < 100; fd++)
        close(fd);
    int fd = create_sized("/environment", n);
    void *p = map(fd, n);
    fill(p, n, 1);
    IN_CHILD verify_named("/environment", n, 1);
    CHECK(shm_unlink("/environment") == 0);
    puts("lives");
    return 0;
}
