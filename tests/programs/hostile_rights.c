/* Run set-uid, as sudo and ping are: says who it is and whether the library came along, then uses shared memory.
 * hostile_rights BYTES */
#include "check.h"

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    char line[4096];
    int mapped = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL);
    while (fgets(line, sizeof line, maps))
        mapped |= strstr(line, "libshmguard") != NULL;
    fclose(maps);
    printf("uid %d, effective %d, library %s\n", getuid(), geteuid(), mapped ? "there" : "not there");
    int fd = create_sized("/rights", n);
    void *p = map(fd, n);
    fill(p, TOUCHED, 1);
    IN_CHILD {
        int again = shm_open("/rights", O_RDONLY, 0);
        CHECK(again >= 0 && size_of(again) == n);
        verify(map_read(again, n), TOUCHED, 1);
    }
    CHECK(shm_unlink("/rights") == 0);
    puts("used");
    return 0;
}
