/* As Boost attaches: a process opens the name as soon as it is there and spins while the size is 0, again and again, while
 * a creator sizes. Whatever the order, both see one object, and nobody dies. Each creator is a process of its own: after one
 * segment that did not fit, a process's next ones are links from their creation, and there would be nothing to race with.
 * race_attach shm_open|open|nonblock BYTES ROUNDS [PAUSE]
 * PAUSE, the most microseconds between two looks for the name, each time another number: who looks all the time always comes
 * before the sizing. */
#include "check.h"
#include <sched.h>

static struct turns turns;

static int attach_fd(const char *how, const char *path) {
    return !strcmp(how, "shm_open") ? shm_open(strrchr(path, '/'), O_RDWR, 0)
                                    : open(path, O_RDWR | (!strcmp(how, "open") ? 0 : O_NONBLOCK));
}

static void attacher(const char *how, size_t n, int rounds, int pause) {
    for (int i = 0; i < rounds; i++) {
        char path[40];
        int fd, turns_spun = 0;
        sprintf(path, "/dev/shm/race%d", i);
        while ((fd = attach_fd(how, path)) < 0) {
            CHECK(errno == ENOENT);
            if (pause)
                usleep((i * 64 + turns_spun++) * 2654435761u % pause);
            else if (turns_spun++ % 64 == 63)
                sched_yield();
        }
        while (size_of(fd) == 0)
            if (turns_spun++ % 64 == 63)
                sched_yield(); /* on busy processors the creator would wait for whole time slices */
        CHECK(size_of(fd) == n);
        uint64_t *p = map(fd, n);
        p[1] = 1000 + i; /* the attacher's word */
        turn_give(turns.to_parent);
        turn_take(turns.to_child);
        CHECK(p[0] == 5000u + i);
        CHECK(munmap(p, n) == 0 && close(fd) == 0);
    }
}

static void creator(size_t n, int i) {
    char name[20];
    sprintf(name, "/race%d", i);
    int fd = create(name);
    CHECK(fcntl(fd, F_SETSIG, SIGUSR1) == 0); /* nobody gets a signal of the library's, not this one either */
    CHECK(ftruncate(fd, n) == 0);
    uint64_t *p = map(fd, n);
    p[0] = 5000u + i; /* the creator's word */
    turn_take(turns.to_parent);
    CHECK(p[1] == 1000u + i);
    turn_give(turns.to_child);
    CHECK(shm_unlink(name) == 0);
}

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 2);
    int rounds = atoi(argv[3]);
    turns = turns_new();
    pid_t child = fork();
    if (child == 0) {
        CHECK(close(turns.to_parent[0]) == 0 && close(turns.to_child[1]) == 0);
        attacher(argv[1], n, rounds, argc > 4 ? atoi(argv[4]) : 0);
        _exit(0);
    }
    CHECK(close(turns.to_parent[1]) == 0 && close(turns.to_child[0]) == 0); /* who waits for a dead one sees the end */
    for (int i = 0; i < rounds; i++)
        IN_CHILD creator(n, i);
    reap(child);
    printf("%d rounds\n", rounds);
    return 0;
}
