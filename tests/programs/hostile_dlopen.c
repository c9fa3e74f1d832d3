/* Loads a plugin in every way and unloads it again: hostile_dlopen BYTES PLUGIN */
#include "check.h"
#include <dlfcn.h>

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    static const struct {
        const char *name;
        int flags;
    } ways[] = {
        {"local", RTLD_NOW | RTLD_LOCAL},
        {"lazy", RTLD_LAZY | RTLD_LOCAL},
        {"global", RTLD_NOW | RTLD_GLOBAL},
        {"deepbind", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND}, /* looks into libc before us */
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        for (int round = 0; round < 2; round++) {
            void *plugin = dlopen(argv[2], ways[i].flags);
            if (plugin == NULL)
                fprintf(stderr, "%s\n", dlerror());
            CHECK(plugin != NULL);
            void (*own)(const char *, size_t, size_t) = dlsym(plugin, "plugin_own");
            void (*check)(int, const char *, size_t, int) = dlsym(plugin, "plugin_check");
            CHECK(own != NULL && check != NULL);
            own("/dlopen-plugin", n, ways[i].flags & RTLD_DEEPBIND ? TOUCHED : n);
            int fd = create_sized("/dlopen-own", n);
            void *p = map(fd, n);
            fill(p, n, i);
            check(fd, "/dev/shm/dlopen-own", n, i);
            CHECK(shm_unlink("/dlopen-own") == 0 && munmap(p, n) == 0 && close(fd) == 0);
            CHECK(dlclose(plugin) == 0);
        }
        printf("%s\n", ways[i].name);
    }
    /* A namespace of its own, with a libc of its own. */
    void *apart = dlmopen(LM_ID_NEWLM, argv[2], RTLD_NOW);
    CHECK(apart != NULL);
    void (*own)(const char *, size_t, size_t) = dlsym(apart, "plugin_own");
    CHECK(own != NULL);
    own("/dlopen-apart", n, TOUCHED);
    CHECK(dlclose(apart) == 0);
    puts("apart");
    return 0;
}
