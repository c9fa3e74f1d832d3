/* What the programs of this directory share: checks that end the program, segments with a known content, processes.
 * A program prints what it observed on standard output; the same lines are expected with and without the library. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                              \
    do {                                                                                              \
        if (!(condition)) {                                                                           \
            fprintf(stderr, "%s:%d: pid %d: not so: %s (errno %d, %s)\n", __FILE__, __LINE__, getpid(), \
                    #condition, errno, strerror(errno));                                              \
            _exit(1);                                                                                 \
        }                                                                                             \
    } while (0)

/* Number of bytes given as argument `i`. */
static inline size_t bytes_arg(int argc, char **argv, int i) {
    CHECK(i < argc);
    char *end;
    size_t n = strtoull(argv[i], &end, 10);
    CHECK(*end == 0);
    return n;
}

/* Every 8 bytes hold a value that depends on their place and on the seed. */
static inline void fill(void *p, size_t n, uint64_t seed) {
    uint64_t *word = p;
    for (size_t i = 0; i < n / 8; i++)
        word[i] = (i + seed) * 0x9e3779b97f4a7c15ull;
}

static inline void verify(const void *p, size_t n, uint64_t seed) {
    const uint64_t *word = p;
    size_t wrong = 0;
    for (size_t i = 0; i < n / 8; i++)
        wrong += word[i] != (i + seed) * 0x9e3779b97f4a7c15ull;
    CHECK(wrong == 0);
}

static inline void verify_zero(const void *p, size_t n) {
    const uint64_t *word = p;
    size_t wrong = 0;
    for (size_t i = 0; i < n / 8; i++)
        wrong += word[i] != 0;
    CHECK(wrong == 0);
}

static inline void *map(int fd, size_t n) {
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(p != MAP_FAILED);
    return p;
}

static inline void *map_read(int fd, size_t n) {
    void *p = mmap(NULL, n, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(p != MAP_FAILED);
    return p;
}

/* A new segment as PyTorch and CPython make it. */
static inline int create(const char *name) {
    int fd = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    CHECK(fd >= 0);
    return fd;
}

static inline int create_sized(const char *name, size_t n) {
    int fd = create(name);
    CHECK(ftruncate(fd, n) == 0);
    return fd;
}

static inline size_t size_of(int fd) {
    struct stat st;
    CHECK(fstat(fd, &st) == 0);
    return st.st_size;
}

/* Opens `name` and checks its size and content. */
static inline void verify_named(const char *name, size_t n, uint64_t seed) {
    int fd = shm_open(name, O_RDONLY, 0);
    CHECK(fd >= 0);
    CHECK(size_of(fd) == n);
    void *p = map_read(fd, n);
    verify(p, n, seed);
    CHECK(munmap(p, n) == 0);
    CHECK(close(fd) == 0);
}

/* Waits for a child that must end well. */
static inline void reap(pid_t pid) {
    int status;
    CHECK(pid > 0);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* IN_CHILD { ... }: the block runs in a forked child, which must get to the block's end. */
#define IN_CHILD                                                                                      \
    for (pid_t child_ = (fflush(NULL), fork()), once_ = 1; once_;                                     \
         once_ = 0, child_ == 0 ? (fflush(NULL), _exit(0)) : reap(child_))                            \
        if (child_ == 0)

/* Becomes this program again; argv[0] is "self". Where an emulator runs it (CHECK_EMULATOR: words, the first a path), the kernel
 * cannot start /proc/self/exe. Returns only on failure. */
static inline void exec_self(const char **argv) {
    const char *under[32], *emulator = getenv("CHECK_EMULATOR");
    char words[256], path[4096], *rest;
    int n = 0;
    if (!emulator)
        execv("/proc/self/exe", (char **)argv);
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (!emulator || length < 0 || strlen(emulator) >= sizeof words)
        return;
    path[length] = 0;
    for (char *word = strtok_r(strcpy(words, emulator), " ", &rest); word && n < 8; word = strtok_r(NULL, " ", &rest))
        under[n++] = word;
    under[n++] = path;
    for (int i = 1; n < 32 && (under[n] = argv[i]); i++)
        n++;
    execvp(under[0], (char **)under);
}

/* Runs this program again with other arguments: a process that shares nothing with this one but names. */
static inline void run_self(const char *first, ...) {
    const char *argv[12] = {"self", first};
    va_list rest;
    va_start(rest, first);
    for (int i = 2; i < 11 && (argv[i] = va_arg(rest, const char *)); i++)
        ;
    va_end(rest);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        exec_self(argv);
        _exit(127);
    }
    reap(pid);
}

/* A descriptor goes through a socket, and comes out at its other end. */
static inline void send_fd(int socket, int fd) {
    char byte = 0, space[CMSG_SPACE(sizeof(int))];
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    CHECK(sendmsg(socket, &message, 0) == 1);
}

static inline int receive_fd(int socket) {
    char byte, space[CMSG_SPACE(sizeof(int))];
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    CHECK(recvmsg(socket, &message, 0) == 1 && CMSG_FIRSTHDR(&message) != NULL);
    int fd;
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

/* Tells the test something and waits for its word to go on. */
static inline void say_and_wait(const char *word) {
    char c;
    printf("%s\n", word);
    fflush(stdout);
    do
        CHECK(read(0, &c, 1) == 1);
    while (c != '\n');
}

/* What the name itself is: "regular file" unless it was redirected. Lines that start with "name: " are what a test
 * looks at to see whether a segment was moved. */
static inline void say_kind(const char *path) {
    struct stat st;
    CHECK(lstat(path, &st) == 0);
    printf("name: %s\n", S_ISREG(st.st_mode) ? "regular file" : S_ISLNK(st.st_mode) ? "link" : "something else");
}

/* A pair of pipes between a parent and a child: each can wait for the other. */
struct turns {
    int to_child[2], to_parent[2];
};

static inline struct turns turns_new(void) {
    struct turns t;
    CHECK(pipe2(t.to_child, O_CLOEXEC) == 0 && pipe2(t.to_parent, O_CLOEXEC) == 0);
    return t;
}

static inline void turn_give(const int pipe[2]) {
    CHECK(write(pipe[1], "t", 1) == 1);
}

static inline void turn_take(const int pipe[2]) {
    char c;
    CHECK(read(pipe[0], &c, 1) == 1);
}

/* Of a segment that may have stayed in a /dev/shm too small for it, only this much is touched. */
#define TOUCHED ((size_t)64 << 10)
