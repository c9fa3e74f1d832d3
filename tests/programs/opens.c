/* Opens a name by shm_open and by open and says its size: opens NAME */
#include "check.h"

int main(int argc, char **argv) {
    char path[300];
    CHECK(argc == 2);
    snprintf(path, sizeof path, "/dev/shm/%s", argv[1]);
    int one = shm_open(argv[1], O_RDWR, 0), two = open(path, O_RDWR);
    CHECK(one >= 0 && two >= 0);
    struct stat a, b;
    CHECK(fstat(one, &a) == 0 && fstat(two, &b) == 0);
    CHECK(a.st_dev == b.st_dev && a.st_ino == b.st_ino);
    printf("%zu\n", size_of(one));
    return 0;
}
