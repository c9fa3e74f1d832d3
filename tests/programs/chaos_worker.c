/* cflags: -pthread */
/* One of many processes that make, fill, check, share and remove segments for as long as it is let.
 *
 * chaos_worker SLOT SLOTS SEED LARGEST STOP-FILE SOCKETS: names are chaos-SLOT-K or torch_chaos-SLOT-K; it begins by removing what an earlier process
 * of this slot left. Descriptors are passed through SOCKETS/SLOT. It ends with status 0 soon after STOP-FILE exists.
 *
 * Every segment begins with a head that says how its bytes were made; whoever gets at one whose head is complete checks them
 * all. A segment is touched through a mapping only where that cannot fault for lack of room: it is held from end to end, in
 * /dev/shm or in a target. The others (no target had room) are written and read by calls, which can say ENOSPC. So no SIGBUS is
 * ever right here, and none is ignored. */
#include "check.h"
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#define NAMES 4
#define READY 0x6368616f73000000ull

struct head {
    uint64_t ready, seed, bytes, own;
};

static uint64_t state;
static int slot, slots, mailbox;
static const char *stop, *sockets;
static size_t largest;
static dev_t shm_dev;
static char doing[200] = "nothing";
static struct counts {
    unsigned long made, redirected, held, loose, refused, attached, received, passed, forked, foreign_unlinked, full;
} did;

/* xorshift64*: the same choices for the same seed. */
static uint64_t next(void) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545f4914f6cdd1dull;
}

static unsigned below(unsigned n) {
    return (next() >> 33) % n;
}

static void on_sigbus(int signal, siginfo_t *info, void *context) {
    char line[300];
    int n = snprintf(line, sizeof line, "WRONG: SIGBUS at %p, slot %d, pid %d, while %s\n", info->si_addr, slot, getpid(), doing);
    (void)!write(2, line, n);
    _exit(3);
}

/* Cannot a touch of it fault? */
static int is_safe(int fd, size_t n) {
    struct stat st;
    CHECK(fstat(fd, &st) == 0);
    return (size_t)st.st_blocks * 512 >= ((n + 4095) & ~4095ull);
}

static void wrong(const char *what, const struct head *head, size_t at) {
    fprintf(stderr, "WRONG: %s, slot %d, pid %d, segment %llx of %llu bytes, word %zu, while %s\n", what, slot, getpid(),
            (unsigned long long)head->seed, (unsigned long long)head->bytes, at, doing);
    _exit(4);
}

/* The words behind the head. */
static void check_words(const uint64_t *words, const struct head *head) {
    size_t count = head->bytes / 8;
    for (size_t i = sizeof *head / 8; i < count; i++)
        if (words[i] != (i + head->seed) * 0x9e3779b97f4a7c15ull)
            wrong("a byte is not what was written", head, i);
}

/* Checks what is behind a descriptor that somebody else made; nothing is said of one that is not complete. */
static int inspect(int fd) {
    struct stat st;
    CHECK(fstat(fd, &st) == 0);
    size_t n = st.st_size;
    struct head head;
    if (n < sizeof head || pread(fd, &head, sizeof head, 0) != sizeof head || head.ready != (READY | 1))
        return 0;
    if (head.bytes != n || head.own != (head.seed ^ head.bytes))
        wrong("the head does not fit", &head, 0);
    if (is_safe(fd, n)) {
        uint64_t *words = mmap(NULL, n, PROT_READ, MAP_SHARED, fd, 0);
        CHECK(words != MAP_FAILED);
        check_words(words, &head);
        CHECK(munmap(words, n) == 0);
    } else {
        uint64_t *copy = malloc(n);
        CHECK(copy && pread(fd, copy, n, 0) == (ssize_t)n);
        check_words(copy, &head);
        free(copy);
    }
    return 1;
}

static void name_of(char *name, int of, int k) {
    /* Half of them have names of a kind that is known to attach late: it may be moved on from a full target. */
    sprintf(name, of % 2 ? "/chaos-%d-%d" : "/torch_chaos-%d-%d", of, k);
}

/* A new segment under `name`; empty: nameless. */
static int make(char *path, const char *name, int *named) {
    *named = 1;
    snprintf(path, 100, "/dev/shm%s", name);
    switch (below(8)) {
    case 0:
        *named = 0;
        return open("/dev/shm", O_TMPFILE | O_EXCL | O_RDWR, 0600);
    case 1:
        return open(path, O_CREAT | O_EXCL | O_RDWR, 0600);
    case 2:
        snprintf(path, 100, "/dev/shm/chaos-%d-XXXXXX", slot);
        return mkstemp(path);
    case 3:
        unlink(path); /* else it might be one of its own that is attached to elsewhere, and be sized again */
        return open(path, O_CREAT | O_RDWR, 0600);
    default:
        return shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    }
}

/* Gives it its size. False when it was told that there is no room. */
static int size_it(int fd, const char *path, int named, size_t n) {
    int error;
    switch (below(6)) {
    case 0:
        error = posix_fallocate(fd, 0, n);
        CHECK(error == 0 || error == ENOSPC);
        return error == 0;
    case 1:
        error = fallocate(fd, 0, 0, n);
        CHECK(error == 0 || errno == ENOSPC);
        return error == 0;
    case 2:
        /* Another process may have removed the name. */
        if (named && truncate(path, n) == 0)
            return size_of(fd) == n || ftruncate(fd, n) == 0;
        /* fall through */
    default:
        CHECK(ftruncate(fd, n) == 0);
        return 1;
    }
}

static void send_to(int other, int fd) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof to.sun_path, "%s/%d", sockets, other);
    char byte = 'f', control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &part, .msg_iovlen = 1,
                             .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    /* The other may be dead, or its mailbox full. */
    if (sendmsg(mailbox, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == 1)
        did.passed++;
}

static void receive(void) {
    char byte, control[CMSG_SPACE(sizeof(int))];
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    if (recvmsg(mailbox, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != 1)
        return;
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    if (!c || c->cmsg_type != SCM_RIGHTS)
        return;
    int fd;
    memcpy(&fd, CMSG_DATA(c), sizeof fd);
    sprintf(doing, "looking at a descriptor that was passed");
    did.received += inspect(fd);
    CHECK(close(fd) == 0);
}

static void attach(void) {
    char name[60], path[100];
    name_of(name, below(slots), below(NAMES));
    snprintf(path, sizeof path, "/dev/shm%s", name);
    int fd = below(2) ? shm_open(name, O_RDWR, 0) : open(path, O_RDWR);
    if (fd < 0) {
        CHECK(errno == ENOENT);
        return;
    }
    sprintf(doing, "looking at %s of another process", name);
    did.attached += inspect(fd);
    CHECK(close(fd) == 0);
    if (below(16) == 0)
        did.foreign_unlinked += (below(2) ? shm_unlink(name) : unlink(path)) == 0;
}

/* Fills it, through a mapping or by calls, and completes its head at the very end. False: no room. */
static int fill_it(int fd, size_t n, uint64_t seed, int safe, uint64_t **mapped) {
    struct head head = {READY, seed, n, seed ^ n};
    if (safe) {
        uint64_t *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        CHECK(p != MAP_FAILED);
        if (!is_safe(fd, n))
            wrong("it was held or in a target, and is no longer", &head, 0);
        for (size_t i = sizeof head / 8; i < n / 8; i++)
            p[i] = (i + seed) * 0x9e3779b97f4a7c15ull;
        memcpy(p + 1, (char *)&head + 8, sizeof head - 8);
        __atomic_store_n(p, READY | 1, __ATOMIC_RELEASE);
        *mapped = p;
        return 1;
    }
    uint64_t *copy = malloc(n);
    CHECK(copy);
    for (size_t i = 0; i < n / 8; i++)
        copy[i] = (i + seed) * 0x9e3779b97f4a7c15ull;
    memcpy(copy, &head, sizeof head);
    ssize_t wrote = pwrite(fd, copy, n, 0);
    free(copy);
    if (wrote != (ssize_t)n) {
        CHECK(wrote >= 0 || errno == ENOSPC);
        return 0;
    }
    head.ready |= 1;
    CHECK(pwrite(fd, &head, 8, 0) == 8);
    return 1;
}

static void one(int k) {
    char name[60], path[100];
    int named;
    name_of(name, slot, k);
    size_t n = below(8) ? (1 + next() % largest) & ~7ull : 4096;
    if (n < 4096)
        n = 4096;
    uint64_t seed = next();
    sprintf(doing, "making %s of %zu bytes", name, n);
    int fd = make(path, name, &named);
    if (fd < 0) {
        CHECK(errno == EEXIST || errno == ENOSPC);
        did.full++;
        return;
    }
    if (!size_it(fd, path, named, n)) {
        did.refused++;
        if (named)
            unlink(path);
        CHECK(close(fd) == 0);
        return;
    }
    CHECK(size_of(fd) == n);
    struct stat st;
    CHECK(fstat(fd, &st) == 0);
    int safe = is_safe(fd, n);
    did.made++;
    *(!safe ? &did.loose : st.st_dev != shm_dev ? &did.redirected : &did.held) += 1;
    sprintf(doing, "filling %s of %zu bytes, %s", path, n, !safe ? "loose" : st.st_dev != shm_dev ? "held in a target" : "held");
    uint64_t *mapped = NULL;
    if (fill_it(fd, n, seed, safe, &mapped)) {
        struct head head = {READY | 1, seed, n, seed ^ n};
        if (below(3) == 0)
            send_to(below(slots), fd);
        if (below(30) == 0 && mapped) {
            did.forked++;
            pid_t child = fork();
            CHECK(child >= 0);
            if (child == 0) {
                check_words(mapped, &head);
                _exit(0);
            }
            reap(child);
        }
        for (unsigned i = below(4); i > 0; i--) {
            receive();
            attach();
        }
        sprintf(doing, "checking its own %s of %zu bytes again", path, n);
        if (mapped) {
            check_words(mapped, &head);
            CHECK(munmap(mapped, n) == 0);
        }
    } else {
        did.refused++;
        if (named)
            unlink(path);
        CHECK(close(fd) == 0);
        return;
    }
    /* Some names stay for a while, for others to attach to; not those of mkstemp, which nobody would find. */
    if (named && (below(3) || strcmp(path + 8, name)))
        if ((below(2) ? unlink(path) : shm_unlink(path + 8)) != 0)
            CHECK(errno == ENOENT);
    if (inspect(fd) != 1)
        wrong("its own head is gone", &(struct head){0, seed, n, 0}, 0);
    CHECK(close(fd) == 0);
}

static void remove_own(void) {
    char name[60];
    for (int k = 0; k < NAMES; k++) {
        name_of(name, slot, k);
        if (shm_unlink(name) != 0)
            CHECK(errno == ENOENT);
    }
}

int main(int argc, char **argv) {
    CHECK(argc == 7);
    slot = atoi(argv[1]);
    slots = atoi(argv[2]);
    state = strtoull(argv[3], NULL, 16) | 1;
    largest = bytes_arg(argc, argv, 4);
    stop = argv[5];
    sockets = argv[6];
    struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGBUS, &action, NULL) == 0);
    struct stat st;
    CHECK(stat("/dev/shm", &st) == 0);
    shm_dev = st.st_dev;
    mailbox = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%s/%d", sockets, slot);
    unlink(at.sun_path);
    CHECK(bind(mailbox, (struct sockaddr *)&at, sizeof at) == 0);
    remove_own();
    while (access(stop, F_OK) != 0) {
        one(below(NAMES));
        receive();
        attach();
        if (below(4) == 0) {
            char name[60];
            name_of(name, slot, below(NAMES));
            shm_unlink(name);
        }
    }
    remove_own();
    printf("made %lu redirected %lu held %lu loose %lu refused %lu full %lu attached %lu passed %lu received %lu forked %lu "
           "foreign %lu\n",
           did.made, did.redirected, did.held, did.loose, did.refused, did.full, did.attached, did.passed, did.received,
           did.forked, did.foreign_unlinked);
    return 0;
}
