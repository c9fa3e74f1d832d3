/* A long random life: names are created, sized, written, read, attached, renamed, linked, removed, duplicated, by this
 * process and by others. What each step says depends on the seed alone: dance SEED STEPS alone|together
 *
 * Sizes are up to 12 MiB but few pages are touched, since segments that several parties mean stay where they are. */
#include "check.h"

#define SLOTS 8
#define NAMES 6

static uint64_t state;

static unsigned pick(unsigned n) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(state >> 33) % n;
}

static int fds[SLOTS];

static const char *name(unsigned i, int path) {
    static char text[2][30];
    sprintf(text[path], path ? "/dev/shm/n%u" : "/n%u", i);
    return text[path];
}

static void say(const char *what, long result) {
    printf(" %s %s %ld\n", what, result < 0 ? "fails" : "gives", result < 0 ? (long)errno : result);
}

/* A slot for a new descriptor; what it held is closed. */
static int *slot(void) {
    int *fd = &fds[pick(SLOTS)];
    if (*fd >= 0)
        CHECK(close(*fd) == 0);
    *fd = -1;
    return fd;
}

static int filled(void) {
    unsigned start = pick(SLOTS);
    for (unsigned i = 0; i < SLOTS; i++)
        if (fds[(start + i) % SLOTS] >= 0)
            return fds[(start + i) % SLOTS];
    return -1;
}

static size_t some_size(void) {
    static const size_t sizes[] = {0, 1, 100, 4096, 4097, 65536, 1 << 20, 3 << 20, 12 << 20};
    return sizes[pick(sizeof sizes / sizeof *sizes)];
}

/* Reads 100 bytes somewhere within the size. */
static void look(int fd, unsigned where) {
    size_t n = size_of(fd);
    unsigned char data[100] = {0};
    ssize_t got = pread(fd, data, sizeof data, n ? where % n & ~4095u : 0);
    unsigned sum = 0;
    for (ssize_t i = 0; i < got; i++)
        sum = sum * 31 + data[i];
    printf(" size %zu, sum %x\n", n, sum);
}

static void put(int fd, unsigned where, unsigned value) {
    size_t n = size_of(fd);
    char data[100];
    memset(data, value, sizeof data);
    if (n >= 4096)
        say("pwrite", pwrite(fd, data, sizeof data, where % n & ~4095u));
}

static void touch(int fd, unsigned where, unsigned value) {
    size_t n = size_of(fd);
    if (n < 4096)
        return;
    char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        say("mmap", -1);
        return;
    }
    char *at = p + (where % n & ~4095u);
    printf(" had %d\n", at[5]);
    at[5] = value;
    CHECK(munmap(p, n) == 0);
}

static void step(unsigned kind, unsigned a, unsigned b, unsigned c) {
    int fd = filled();
    printf("%u:\n", kind);
    if (kind >= 6 && kind <= 15 && fd < 0)
        return;
    switch (kind) {
    case 0: /* as PyTorch: the commonest */
    case 1: say("create", (*slot() = shm_open(name(a, 0), O_CREAT | O_EXCL | O_RDWR, 0600)) < 0 ? -1 : 0); break;
    case 2: say("create", (*slot() = open(name(a, 1), O_CREAT | O_EXCL | O_RDWR, 0640)) < 0 ? -1 : 0); break;
    case 3: say("meet", (*slot() = shm_open(name(a, 0), O_CREAT | O_RDWR, 0600)) < 0 ? -1 : 0); break;
    case 4: say("attach", (*slot() = shm_open(name(a, 0), O_RDWR, 0)) < 0 ? -1 : 0); break;
    case 5: say("open", (*slot() = open(name(a, 1), c % 4 ? O_RDWR : O_RDWR | O_TRUNC)) < 0 ? -1 : 0); break;
    case 6: /* the next commonest */
    case 7: say("ftruncate", ftruncate(fd, some_size())); break;
    case 8: say("posix_fallocate", posix_fallocate(fd, 0, 1 + b % 65536)); break;
    case 9: put(fd, b, c); break;
    case 10: look(fd, b); break;
    case 11:
    case 12: touch(fd, b, c); break;
    case 13: {
        int copy = dup(fd);
        CHECK(copy >= 0);
        *slot() = copy;
        break;
    }
    case 14: {
        struct stat st;
        CHECK(fstat(fd, &st) == 0);
        printf(" mode %o, flags %d, offset %ld, links %d\n", (unsigned)st.st_mode, fcntl(fd, F_GETFD),
               (long)lseek(fd, 0, SEEK_CUR), st.st_nlink > 0);
        break;
    }
    case 15: CHECK(lseek(fd, b % 10000, SEEK_SET) >= 0); break;
    case 16: say("unlink", c % 2 ? shm_unlink(name(a, 0)) : unlink(name(a, 1))); break;
    case 17: {
        char from[30];
        strcpy(from, name(a, 1));
        say("rename", rename(from, name(b % NAMES, 1)));
        break;
    }
    case 18: {
        char from[30];
        strcpy(from, name(a, 1));
        say("link", link(from, name(b % NAMES, 1)));
        break;
    }
    case 19: say("truncate", truncate(name(a, 1), some_size())); break;
    case 20:
        slot();
        break;
    case 21:
    case 22: /* another program attaches, looks, writes */
        IN_CHILD {
            int other = kind == 21 ? shm_open(name(a, 0), O_RDWR, 0) : open(name(a, 1), O_RDWR);
            say("other", other < 0 ? -1 : 0);
            if (other >= 0) {
                look(other, b);
                touch(other, c, b);
            }
        }
        break;
    case 23: /* a child works on what it inherited */
        if (fd >= 0)
            IN_CHILD {
                if (c % 2)
                    say("child's ftruncate", ftruncate(fd, some_size()));
                touch(fd, b, c);
            }
        break;
    case 24: /* another process removes and makes the name again */
        IN_CHILD {
            say("unlink", shm_unlink(name(a, 0)));
            int other = shm_open(name(a, 0), O_CREAT | O_EXCL | O_RDWR, 0600);
            say("other", other < 0 ? -1 : 0);
            if (other >= 0 && c % 2) {
                say("other's ftruncate", ftruncate(other, 3 << 20));
                put(other, b, c);
            }
        }
        break;
    }
}

int main(int argc, char **argv) {
    state = strtoull(argv[1], NULL, 10) * 2862933555777941757ull + 3037000493ull;
    int steps = atoi(argv[2]);
    int kinds = !strcmp(argv[3], "alone") ? 21 : 25; /* without other processes more is moved when it is sized */
    for (int i = 0; i < SLOTS; i++)
        fds[i] = -1;
    for (int i = 0; i < steps; i++) {
        unsigned kind = pick(kinds), a = pick(NAMES), b = pick(1 << 24), c = 1 + pick(100);
        step(kind, a, b, c);
    }
    for (int i = 0; i < SLOTS; i++)
        if (fds[i] >= 0) {
            look(fds[i], 0);
            close(fds[i]);
        }
    for (unsigned i = 0; i < NAMES; i++) {
        int fd = shm_open(name(i, 0), O_RDWR, 0);
        printf("%u at the end: ", i);
        say("open", fd < 0 ? -1 : 0);
        if (fd >= 0) {
            look(fd, 4096 * 7);
            close(fd);
            CHECK(shm_unlink(name(i, 0)) == 0);
        }
    }
    return 0;
}
