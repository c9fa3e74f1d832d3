/* A timer's handler jumps out of whatever the program was doing, a hook included, and the same calls are made again; then
 * again, JUMPS times. Afterwards nothing may be lost: no lock held for ever, no descriptor, no memory of what goes where.
 * hostile_longjmp JUMPS BYTES */
#include "check.h"
#include <dirent.h>
#include <setjmp.h>
#include <sys/time.h>

static sigjmp_buf back;
static volatile sig_atomic_t inside;
static volatile int jumps;

static void jump(int number) {
    (void)number;
    if (inside) {
        inside = 0;
        jumps++;
        siglongjmp(back, 1);
    }
}

/* Descriptors that are neither a segment nor one of the first three: what a jump could leak. The program's own segments
 * are closed on the way: it may have been interrupted before it knew their numbers. */
static int strangers(void) {
    char link[64], text[300];
    int count = 0;
    for (int fd = 3; fd < 1024; fd++) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(link, text, sizeof text - 1);
        if (length < 0)
            continue;
        text[length] = 0;
        struct stat st;
        if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && strncmp(text, "/proc/", 6))
            close(fd);
        else
            count++;
    }
    return count;
}

static void one(const char *name, size_t n) {
    int fd = create_sized(name, n);
    char *p = map(fd, n);
    p[0] = 1;
    int again = shm_open(name, O_RDWR, 0);
    CHECK(again >= 0 && size_of(again) == n);
    char other[40];
    snprintf(other, sizeof other, "/dev/shm%s", name);
    CHECK(fchown(fd, geteuid(), getegid()) == 0 && chown(other, geteuid(), getegid()) == 0);
    CHECK(unlink(other) == 0);
    CHECK(munmap(p, n) == 0 && close(fd) == 0 && close(again) == 0);
}

int main(int argc, char **argv) {
    int wanted = atoi(argv[1]);
    size_t n = bytes_arg(argc, argv, 2);
    struct sigaction action = {.sa_handler = jump};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    int at_first = strangers();
    for (volatile int round = 0; jumps < wanted; round++) {
        if (sigsetjmp(back, 1) == 0) {
            struct itimerval soon = {{0, 0}, {0, 1 + round * 37 % 800}};
            inside = 1;
            CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
            for (;;) {
                int fd = shm_open("/jump", O_CREAT | O_EXCL | O_RDWR, 0600);
                if (fd < 0)
                    break; /* left from before */
                int result;
                do
                    result = ftruncate(fd, n);
                while (result && errno == EINTR);
                if (result)
                    break;
                void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
                int other = shm_open("/jump", O_RDWR, 0);
                shm_unlink("/jump");
                munmap(p, n);
                close(other);
                close(fd);
            }
            inside = 0;
        }
        struct itimerval never = {{0, 0}, {0, 0}};
        CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
        sigset_t set;
        CHECK(sigprocmask(SIG_SETMASK, NULL, &set) == 0);
        for (int signal = 1; signal < 32; signal++)
            CHECK(!sigismember(&set, signal));
        shm_unlink("/jump");
        strangers(); /* closes what the jump left of the program's own */
    }
    printf("descriptors lost: %d\n", strangers() - at_first);
    for (int i = 0; i < 3; i++) {
        char name[20];
        sprintf(name, "/after%d", i);
        int fd = create_sized(name, n);
        void *p = map(fd, n);
        fill(p, n, i);
        IN_CHILD verify_named(name, n, i);
        CHECK(shm_unlink(name) == 0 && munmap(p, n) == 0 && close(fd) == 0);
        one(name, n);
    }
    puts("as before");
    return 0;
}
