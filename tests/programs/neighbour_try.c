/* What a caller gets under a name, by every way there is: neighbour_try NAME
 * Says of each way the errno, or what has been opened: its kind and the beginning of its content. Ways that change something
 * come last. */
#include "check.h"

static char path[300];

static void say(const char *way, int fd) {
    if (fd < 0) {
        printf("%s: %s\n", way, strerrorname_np(errno));
        return;
    }
    struct stat st;
    char text[24] = "";
    CHECK(fstat(fd, &st) == 0);
    if (S_ISREG(st.st_mode)) {
        ssize_t got = pread(fd, text, sizeof text - 1, 0);
        text[got > 0 ? got : 0] = 0;
        text[strcspn(text, "\n")] = 0;
    }
    printf("%s: opens a %s of %u of %lld bytes, %s\n", way,
           S_ISREG(st.st_mode) ? "file" : S_ISDIR(st.st_mode) ? "directory" : S_ISFIFO(st.st_mode) ? "fifo" : "something else",
           st.st_uid, S_ISREG(st.st_mode) ? (long long)st.st_size : 0, text);
    CHECK(close(fd) == 0);
}

static void say_done(const char *way, int result) {
    printf("%s: %s\n", way, result == 0 ? "done" : strerrorname_np(errno));
}

int main(int argc, char **argv) {
    char name[280];
    CHECK(argc == 2);
    snprintf(name, sizeof name, "/%s", argv[1]);
    snprintf(path, sizeof path, "/dev/shm/%s", argv[1]);
    /* This process sizes segments: its calls are the ones that are looked at. */
    CHECK(close(create_sized("/own", 4096)) == 0 && shm_unlink("/own") == 0);

    say("shm_open read", shm_open(name, O_RDONLY | O_NONBLOCK, 0));
    say("shm_open", shm_open(name, O_RDWR | O_NONBLOCK, 0));
    say("shm_open create exclusively", shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600));
    say("open read", open(path, O_RDONLY | O_NONBLOCK));
    say("open", open(path, O_RDWR | O_NONBLOCK));
    say("open nofollow", open(path, O_RDWR | O_NONBLOCK | O_NOFOLLOW));
    say("openat", openat(AT_FDCWD, path, O_RDWR | O_NONBLOCK));
    say("open create exclusively", open(path, O_RDWR | O_CREAT | O_EXCL, 0600));
    say("shm_open create", shm_open(name, O_RDWR | O_NONBLOCK | O_CREAT, 0600));
    say("open create", open(path, O_RDWR | O_NONBLOCK | O_CREAT, 0600));
    say_done("truncate", truncate(path, 100));
    say("shm_open truncate", shm_open(name, O_RDWR | O_NONBLOCK | O_TRUNC, 0600));
    say("open truncate", open(path, O_RDWR | O_NONBLOCK | O_TRUNC));
    say("shm_open create truncate", shm_open(name, O_RDWR | O_NONBLOCK | O_CREAT | O_TRUNC, 0600));
    say("creat", open(path, O_WRONLY | O_NONBLOCK | O_CREAT | O_TRUNC, 0600));
    say_done("shm_unlink", shm_unlink(name));
    say_done("unlink", unlink(path));
    say("afterwards", open(path, O_RDWR | O_NONBLOCK));
    return 0;
}
