/* cflags: -pthread */
/* A thread is cancelled inside each hooked call: the request is pending when the call is made, so whoever is a cancellation
 * point ends the thread there, its clean-up handlers having run, and whoever is none returns. hostile_cancel BYTES DIR */
#include "check.h"
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>

extern int __open_2(const char *, int), __open64_2(const char *, int);
extern int __openat_2(int, const char *, int), __openat64_2(int, const char *, int);

static size_t n;
static char ordinary[200]; /* an ordinary file that exists */
static char fresh[200];    /* a name that does not */
static char template[200];
static int fd;
static int file; /* the ordinary file, open */
static int sockets[2];
static int cleaned;

#define SHM "/dev/shm/cancel"
#define NEW (O_CREAT | O_EXCL | O_RDWR)

static int c_open(void) { return open(ordinary, O_RDWR); }
static int c_open64(void) { return open64(ordinary, O_RDWR); }
static int c_openat(void) { return openat(AT_FDCWD, ordinary, O_RDWR); }
static int c_openat64(void) { return openat64(AT_FDCWD, ordinary, O_RDWR); }
static int c_open_2(void) { return __open_2(ordinary, O_RDWR); }
static int c_open64_2(void) { return __open64_2(ordinary, O_RDWR); }
static int c_openat_2(void) { return __openat_2(AT_FDCWD, ordinary, O_RDWR); }
static int c_openat64_2(void) { return __openat64_2(AT_FDCWD, ordinary, O_RDWR); }
static int c_creat(void) { return creat(fresh, 0600); }
static int c_creat64(void) { return creat64(fresh, 0600); }
static int c_new(void) { return open(fresh, NEW, 0600); }
static int c_attach_shm(void) { return open(SHM, O_RDWR); }
static int c_attach_shm_2(void) { return __open_2(SHM, O_RDWR); }
static int c_meet_shm(void) { return open(SHM, O_CREAT | O_RDWR, 0600); }
static int c_new_shm(void) { return open(SHM "-new", NEW, 0600); }
static int c_new_at_shm(void) { return openat64(AT_FDCWD, SHM "-new", NEW, 0600); }
static int c_creat_shm(void) { return creat(SHM "-new", 0600); }
static int c_tmpfile_shm(void) { return open("/dev/shm", O_TMPFILE | O_EXCL | O_RDWR, 0600); }
static int c_shm_open(void) { return shm_open("/cancel-new", NEW, 0600); }
static int c_shm_attach(void) { return shm_open("/cancel", O_RDWR, 0); }
static int c_mkstemp(void) { return mkstemp(template); }
static int c_fallocate(void) { return fallocate(fd, 0, 0, n); }
static int c_fallocate64(void) { return fallocate64(fd, 0, 0, n); }
static int c_posix_fallocate(void) { return posix_fallocate(fd, 0, n); }
static int c_ftruncate(void) { return ftruncate(fd, n); }
static int c_truncate(void) { return truncate(SHM "-size", n); }
static int c_mmap(void) { return mmap(NULL, n, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED; }
static int c_write(void) { return write(file, "x", 1) == 1 ? 0 : -1; }
static int c_write_shm(void) { return write(fd, "x", 1) == 1 ? 0 : -1; }
static int c_wait(void) { return wait(NULL); }
static int c_waitpid(void) { return waitpid(-1, NULL, 0); }
static int c_waitid(void) { return waitid(P_ALL, 0, &(siginfo_t){0}, WEXITED); }
static int c_wait3(void) { return wait3(NULL, 0, NULL); }
static int c_wait4(void) { return wait4(-1, NULL, 0, NULL); }

static int c_sendmsg(void) {
    struct iovec part = {"x", 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    return sendmsg(sockets[0], &message, 0);
}

static int c_sendmmsg(void) {
    struct iovec part = {"x", 1};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}};
    return sendmmsg(sockets[0], &message, 1, 0);
}

static int c_unlink(void) { return unlink(SHM "-size"); }
static int c_rename(void) { return rename(SHM "-size", SHM "-new"); }

static const struct {
    const char *name;
    int (*call)(void);
} calls[] = {
#define ONE(name) {#name, c_##name}
    ONE(open), ONE(open64), ONE(openat), ONE(openat64), ONE(open_2), ONE(open64_2), ONE(openat_2), ONE(openat64_2),
    ONE(creat), ONE(creat64), ONE(new), ONE(attach_shm), ONE(attach_shm_2), ONE(meet_shm), ONE(new_shm),
    ONE(new_at_shm), ONE(creat_shm), ONE(tmpfile_shm), ONE(shm_open), ONE(shm_attach), ONE(mkstemp), ONE(fallocate),
    ONE(fallocate64), ONE(posix_fallocate), ONE(ftruncate), ONE(truncate), ONE(mmap), ONE(unlink), ONE(rename),
    ONE(write), ONE(write_shm), ONE(wait), ONE(waitpid), ONE(waitid), ONE(wait3), ONE(wait4), ONE(sendmsg),
    ONE(sendmmsg),
};

static void cleanup(void *arg) {
    (void)arg;
    cleaned++;
}

static void *thread(void *arg) {
    int (*call)(void) = arg;
    int old;
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old) == 0);
    pthread_cleanup_push(cleanup, NULL);
    CHECK(pthread_cancel(pthread_self()) == 0);
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old) == 0);
    int result = call();
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old) == 0);
    CHECK(result >= 0);
    pthread_cleanup_pop(0);
    return NULL;
}

int main(int argc, char **argv) {
    n = bytes_arg(argc, argv, 1);
    snprintf(ordinary, sizeof ordinary, "%s/ordinary", argv[2]);
    snprintf(fresh, sizeof fresh, "%s/fresh", argv[2]);
    file = open(ordinary, NEW, 0600);
    CHECK(file >= 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    int kept = create_sized("/cancel", 65536);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        pthread_t id;
        void *result;
        snprintf(template, sizeof template, "/dev/shm/cancel-XXXXXX");
        fd = create("/cancel-size");
        cleaned = 0;
        CHECK(pthread_create(&id, NULL, thread, (void *)calls[i].call) == 0);
        CHECK(pthread_join(id, &result) == 0);
        CHECK(cleaned == (result == PTHREAD_CANCELED));
        printf("%s: %s\n", calls[i].name, result == PTHREAD_CANCELED ? "cancelled" : "returned");
        fflush(stdout);
        unlink(fresh);
        unlink(template);
        shm_unlink("/cancel-new");
        shm_unlink("/cancel-size");
        CHECK(close(fd) == 0);
    }
    /* The library goes on working, from the same thread and from new ones. */
    for (int i = 0; i < 3; i++) {
        int after = create_sized("/cancel-after", n);
        fill(map(after, n), n, i);
        IN_CHILD verify_named("/cancel-after", n, i);
        CHECK(shm_unlink("/cancel-after") == 0 && close(after) == 0);
    }
    CHECK(shm_unlink("/cancel") == 0 && close(kept) == 0 && unlink(ordinary) == 0);
    puts("goes on");
    return 0;
}
