/* As Boost attaches: another process opens the name as soon as it is there and spins while the size is 0, again and
 * again, while the creator sizes. Whatever the order, both see one object, and nobody dies. race_attach BYTES ROUNDS */
#include "check.h"

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    int rounds = atoi(argv[2]);
    struct turns turns = turns_new();
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < rounds; i++) {
            char name[20];
            int fd;
            sprintf(name, "/race%d", i);
            while ((fd = shm_open(name, O_RDWR, 0)) < 0)
                CHECK(errno == ENOENT);
            while (size_of(fd) == 0)
                ;
            CHECK(size_of(fd) == n);
            uint64_t *p = map(fd, n);
            p[1] = 1000 + i; /* the attacher's word */
            turn_give(turns.to_parent);
            turn_take(turns.to_child);
            CHECK(p[0] == 5000u + i);
            CHECK(munmap(p, n) == 0 && close(fd) == 0);
        }
        _exit(0);
    }
    for (int i = 0; i < rounds; i++) {
        char name[20];
        sprintf(name, "/race%d", i);
        int fd = create_sized(name, n);
        uint64_t *p = map(fd, n);
        p[0] = 5000u + i; /* the creator's word */
        turn_take(turns.to_parent);
        CHECK(p[1] == 1000u + i);
        turn_give(turns.to_child);
        CHECK(shm_unlink(name) == 0 && munmap(p, n) == 0 && close(fd) == 0);
    }
    reap(child);
    printf("%d rounds\n", rounds);
    return 0;
}
