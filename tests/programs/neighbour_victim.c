/* The caller beside neighbour_swap.
 * neighbour_victim open NAME NEIGHBOUR: opens NAME by shm_open until it has often been refused and often been let through; whatever
 *   was opened is a regular file of NEIGHBOUR.
 * neighbour_victim create ROUNDS BYTES: makes segments, so that each is made in the target; whatever was made is an empty file of its own. */
#include "check.h"

int main(int argc, char **argv) {
    struct stat st;
    alarm(100); /* whoever opens a fifo without O_NONBLOCK stays there */
    if (!strcmp(argv[1], "open")) {
        uid_t neighbour = bytes_arg(argc, argv, 3);
        unsigned opened = 0, refused = 0;
        while (opened < 300 || refused < 300) {
            int fd = shm_open(argv[2], O_RDWR, 0);
            if (fd < 0) {
                CHECK(errno == ELOOP || errno == ENOENT || errno == EACCES || errno == ENXIO);
                refused++;
                continue;
            }
            CHECK(fstat(fd, &st) == 0);
            CHECK(S_ISREG(st.st_mode));
            CHECK(st.st_uid == neighbour);
            CHECK(!(fcntl(fd, F_GETFL) & O_NONBLOCK));
            CHECK(close(fd) == 0);
            opened++;
        }
        printf("opened and refused\n");
        return 0;
    }
    size_t rounds = bytes_arg(argc, argv, 2), n = bytes_arg(argc, argv, 3), links = 0;
    int big = create_sized("/big", n); /* what is asked for next will not fit either: made in the target at once */
    for (size_t i = 0; i < rounds; i++) {
        char path[80];
        snprintf(path, sizeof path, "/dev/shm/race-%zu", i);
        int flags[] = {O_WRONLY, O_RDWR | O_SYNC, O_RDWR}, fd = open(path, O_CREAT | O_EXCL | flags[i % 3], 0600);
        CHECK(fd >= 0);
        CHECK(fstat(fd, &st) == 0);
        CHECK(S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_size == 0);
        CHECK(!(fcntl(fd, F_GETFL) & O_NONBLOCK));
        CHECK(write(fd, "mine", 4) == 4);
        CHECK(lstat(path, &st) == 0);
        links += S_ISLNK(st.st_mode);
        /* Whoever attaches gets a file of this user, or an error. */
        int again = shm_open(path + 8, O_RDWR, 0);
        if (again >= 0) {
            CHECK(fstat(again, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid());
            CHECK(close(again) == 0);
        }
        CHECK(unlink(path) == 0);
        CHECK(close(fd) == 0);
    }
    CHECK(links > rounds / 2);
    CHECK(close(big) == 0 && shm_unlink("/big") == 0);
    printf("made its own\n");
    return 0;
}
