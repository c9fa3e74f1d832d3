/* The program's descriptor 2 is a data file: nothing but its own words may land in it. reused_stderr FILE BYTES [closed]
 * closed: 2 was closed before the program started, else it closes it itself. */
#include "check.h"

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 2);
    if (argc == 3)
        close(2);
    int data = open(argv[1], O_CREAT | O_EXCL | O_RDWR, 0600);
    if (data != 2) {
        printf("descriptor %d\n", data);
        return 1;
    }
    if (write(data, "first\n", 6) != 6)
        return 1;
    for (int i = 0; i < 3; i++) {
        int fd = create_sized("/stderr", n);
        fill(map(fd, n), n, i);
        CHECK(shm_unlink("/stderr") == 0);
    }
    if (write(data, "last\n", 5) != 5)
        return 1;
    printf("%zu bytes\n", size_of(data));
    return 0;
}
