// Starts a program again and again, in turns without and with a preloaded library, and times each.
//
// usage: launch RUNS LIBRARY PROGRAM
// Prints RUNS lines "WITHOUT WITH": nanoseconds from posix_spawn to the end of waitpid. The order within a pair turns
// from line to line. Exit 1 with a reason if the program cannot be started or does not exit 0.
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static long long once(char *program, char **env) {
    char *argv[] = {program, NULL};
    pid_t pid;
    int status;
    long long start = now();
    int error = posix_spawn(&pid, program, NULL, NULL, argv, env);
    if (error) {
        fprintf(stderr, "%s: %s\n", program, strerror(error));
        exit(1);
    }
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) {
            perror("waitpid");
            exit(1);
        }
    long long end = now();
    if (status != 0) {
        fprintf(stderr, "%s: ended with wait status %d\n", program, status);
        exit(1);
    }
    return end - start;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: launch RUNS LIBRARY PROGRAM\n");
        return 2;
    }
    int runs = atoi(argv[1]);
    char preload[4096];
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", argv[2]);
    char *plain[] = {"PATH=/usr/bin:/bin", "PAD=1", NULL};
    char *loaded[] = {"PATH=/usr/bin:/bin", preload, NULL};
    for (int i = 0; i < 10; i++) {
        once(argv[3], plain);
        once(argv[3], loaded);
    }
    for (int i = 0; i < runs; i++) {
        long long without, with;
        if (i % 2) {
            with = once(argv[3], loaded);
            without = once(argv[3], plain);
        } else {
            without = once(argv[3], plain);
            with = once(argv[3], loaded);
        }
        printf("%lld %lld\n", without, with);
    }
    return 0;
}
