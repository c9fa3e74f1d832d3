/* A segment with a hostile name, of a process with a hostile name: neighbour_named BYTES WAIT NAME-IN-HEX
 * WAIT: "wait" says "ready" before anything is done; "go" does not. */
#include "check.h"
#include <sys/prctl.h>

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1), length = strlen(argv[3]) / 2;
    char name[300] = "/";
    for (size_t i = 0; i < length; i++) {
        unsigned byte;
        CHECK(sscanf(argv[3] + 2 * i, "%2x", &byte) == 1);
        name[i + 1] = byte;
    }
    if (!strcmp(argv[2], "wait"))
        say_and_wait("ready");
    else
        CHECK(prctl(PR_SET_NAME, "\x1b[2J\n\"x\\\x7f") == 0);
    int fd = create_sized(name, n);
    void *p = map(fd, n);
    fill(p, n, 1);
    int again = shm_open(name, O_RDWR, 0);
    CHECK(again >= 0 && size_of(again) == n);
    verify(p, n, 1);
    CHECK(shm_unlink(name) == 0);
    struct stat st;
    CHECK(fstat(fd, &st) == 0);
    printf("%s\n", st.st_nlink ? "still named" : "gone with its name");
    return 0;
}
