/* errno after each hooked call: untouched after success, the kernel's after failure; and 0 when main begins.
 * hostile_errno BYTES DIR: DIR is an ordinary directory. */
#include "check.h"
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

enum { UNTOUCHED = 4242 };
static size_t n;

/* Makes the call with a known errno and says what became of it. */
#define SAY(label, call)                                                                              \
    ({                                                                                                \
        errno = UNTOUCHED;                                                                            \
        long result_ = (long)(call);                                                                  \
        int now_ = errno;                                                                             \
        printf("%-34s %s errno %s\n", label, result_ == -1 ? "fails" : "works",                       \
               now_ == UNTOUCHED ? "untouched" : strerrorname_np(now_));                              \
        result_;                                                                                      \
    })

/* posix_fallocate returns its error; the library puts it into errno too (PyTorch reads it there), so only the success is
 * compared there. */
#define SAY_RETURNED(label, call)                                                                     \
    ({                                                                                                \
        errno = UNTOUCHED;                                                                            \
        int result_ = (call);                                                                         \
        int now_ = errno;                                                                             \
        CHECK(now_ == UNTOUCHED || (result_ != 0 && now_ == result_));                                \
        printf("%-34s returns %s\n", label, result_ ? strerrorname_np(result_) : "0");                \
    })

static void in_directory(const char *directory, const char *what) {
    char a[300], b[300], missing[300], template[300], label[80];
    int fd;
    snprintf(a, sizeof a, "%s/errno-a", directory);
    snprintf(b, sizeof b, "%s/errno-b", directory);
    snprintf(missing, sizeof missing, "%s/errno-missing", directory);
#define L(name) (snprintf(label, sizeof label, "%s %s", what, name), label)
    fd = SAY(L("open creat excl"), open(a, O_CREAT | O_EXCL | O_RDWR, 0600));
    SAY(L("ftruncate"), ftruncate(fd, n));
    SAY(L("fallocate"), fallocate(fd, 0, 0, 4096));
    SAY_RETURNED(L("posix_fallocate"), posix_fallocate(fd, 0, 4096));
    void *p = (void *)SAY(L("mmap"), mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    CHECK(munmap(p, n) == 0);
    SAY(L("mmap of a write-only file"), ({
            int other = open(a, O_WRONLY);
            long result = (long)mmap(NULL, n, PROT_READ, MAP_SHARED, other, 0);
            int saved = errno;
            close(other);
            errno = saved;
            result;
        }));
    SAY(L("mmap at an odd offset"), mmap(NULL, n, PROT_READ, MAP_SHARED, fd, 13));
    SAY(L("grow"), ftruncate(fd, n + 4096));
    SAY(L("shrink"), ftruncate(fd, 4096));
    SAY(L("truncate"), truncate(a, n));
    SAY(L("truncate missing"), truncate(missing, n));
    SAY(L("truncate negative"), truncate(a, -1));
    SAY(L("ftruncate negative"), ftruncate(fd, -1));
    SAY(L("fallocate negative"), fallocate(fd, 0, -1, 10));
    SAY(L("fallocate nothing"), fallocate(fd, 0, 0, 0));
    SAY_RETURNED(L("posix_fallocate negative"), posix_fallocate(fd, -1, 10));
    SAY_RETURNED(L("posix_fallocate nothing"), posix_fallocate(fd, 0, 0));
    SAY(L("open again"), close(open(a, O_RDWR)));
    SAY(L("openat"), close(openat(AT_FDCWD, a, O_RDONLY)));
    SAY(L("open excl again"), open(a, O_CREAT | O_EXCL | O_RDWR, 0600));
    SAY(L("open creat again"), close(open(a, O_CREAT | O_RDWR, 0600)));
    SAY(L("open as directory"), open(a, O_RDONLY | O_DIRECTORY));
    SAY(L("open missing"), open(missing, O_RDWR));
    SAY(L("creat"), close(creat(b, 0600)));
    SAY(L("link onto existing"), link(a, b));
    SAY(L("rename"), rename(a, b));
    SAY(L("rename missing"), rename(missing, b));
    SAY(L("renameat"), renameat(AT_FDCWD, b, AT_FDCWD, a));
    SAY(L("renameat2 noreplace"), renameat2(AT_FDCWD, a, AT_FDCWD, a, RENAME_NOREPLACE));
    SAY(L("unlinkat as directory"), unlinkat(AT_FDCWD, a, AT_REMOVEDIR));
    SAY(L("unlink"), unlink(a));
    SAY(L("unlink again"), unlink(a));
    SAY(L("remove"), remove(a));
    CHECK(close(fd) == 0);
    snprintf(template, sizeof template, "%s/errno-XXXXXX", directory);
    fd = SAY(L("mkstemp"), mkstemp(template));
    SAY(L("mkstemp with a bad template"), mkstemp(template));
    SAY(L("ftruncate of it"), ftruncate(fd, n));
    SAY(L("remove of it"), remove(template));
    CHECK(close(fd) == 0);
    snprintf(template, sizeof template, "%s/errno-XXXXXX.x", directory);
    fd = SAY(L("mkostemps"), mkostemps(template, 2, O_CLOEXEC));
    SAY(L("unlinkat of it"), unlinkat(AT_FDCWD, template, 0));
    CHECK(close(fd) == 0);
    fd = SAY(L("O_TMPFILE"), open(directory, O_TMPFILE | O_EXCL | O_RDWR, 0600));
    SAY(L("ftruncate of it"), ftruncate(fd, n));
    CHECK(close(fd) == 0);
    SAY(L("O_TMPFILE read-only"), open(directory, O_TMPFILE | O_RDONLY, 0600));
    struct statvfs vfs;
    struct statfs fs;
    SAY(L("statvfs"), statvfs(directory, &vfs));
    SAY(L("statfs"), statfs(directory, &fs));
    SAY(L("statvfs missing"), statvfs(missing, &vfs));
}

int main(int argc, char **argv) {
    printf("at main %d\n", errno);
    n = bytes_arg(argc, argv, 1);
    in_directory("/dev/shm", "shm");
    in_directory(argv[2], "elsewhere");

    char long_name[300];
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[0] = '/';
    long_name[sizeof long_name - 1] = 0;
    int fd = SAY("shm_open", shm_open("/errno", O_CREAT | O_EXCL | O_RDWR, 0600));
    SAY("shm_open excl again", shm_open("/errno", O_CREAT | O_EXCL | O_RDWR, 0600));
    SAY("ftruncate", ftruncate(fd, n));
    SAY("shm_open attach", close(shm_open("/errno", O_RDWR, 0)));
    SAY("shm_open creat again", close(shm_open("/errno", O_CREAT | O_RDWR, 0600)));
    SAY("shm_open missing", shm_open("/errno-missing", O_RDWR, 0));
    SAY("shm_open no name", shm_open("/", O_RDWR, 0));
    SAY("shm_open slash inside", shm_open("/a/b", O_CREAT | O_RDWR, 0600));
    SAY("shm_open long name", shm_open(long_name, O_CREAT | O_RDWR, 0600));
    SAY("shm_open dot dot", shm_open("..", O_RDWR, 0));
    SAY("shm_unlink", shm_unlink("/errno"));
    SAY("shm_unlink again", shm_unlink("/errno"));
    SAY("shm_unlink no name", shm_unlink("/"));
    SAY("shm_unlink dot dot", shm_unlink(".."));
    CHECK(close(fd) == 0);

    SAY("ftruncate bad fd", ftruncate(-1, n));
    SAY("ftruncate closed fd", ftruncate(77, n));
    SAY("fallocate bad fd", fallocate(-1, 0, 0, 10));
    SAY_RETURNED("posix_fallocate bad fd", posix_fallocate(-1, 0, 10));
    SAY("mmap bad fd", mmap(NULL, n, PROT_READ, MAP_SHARED, -1, 0));
    SAY("mmap nothing", mmap(NULL, 0, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    SAY("mmap shared anonymous", mmap(NULL, n, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    SAY("mmap private", mmap(NULL, n, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    SAY("open of no address", open((char *)8, O_RDONLY));
    SAY("open of nothing", open("", O_RDONLY));
    SAY("unlink of no address", unlink((char *)8));
    SAY("truncate of no address", truncate((char *)8, 10));
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    SAY("ftruncate of a pipe", ftruncate(pipes[1], n));
    SAY("fallocate of a pipe", fallocate(pipes[1], 0, 0, 10));
    SAY_RETURNED("posix_fallocate of a pipe", posix_fallocate(pipes[1], 0, 10));
    SAY("mmap of a pipe", mmap(NULL, n, PROT_READ, MAP_SHARED, pipes[0], 0));
    return 0;
}
