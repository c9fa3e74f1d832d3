/* One life of a segment, for kill_at: kill_life HOW BYTES, and what another process does after it: kill_life after BYTES.
 * HOW: named (shm_open), nameless (O_TMPFILE), renamed (another segment takes its name at the end), small (it is a link from the
 * beginning), moving (so too, and it moves on to another target when it is sized). */
#include "check.h"
#include <sys/prctl.h>

#define MARK 0x53484d47
#define NAME "/torch_victim" /* of a kind that attaches late: may be moved on from a target that is full */
#define PATH "/dev/shm" NAME

/* What another process meets under the name: nothing, an empty segment, or a sized one whose bytes are zero up to the end or filled
 * up to where the dead one came. */
static void look(size_t n) {
    int fd = shm_open(NAME, O_RDWR, 0);
    if (fd < 0) {
        CHECK(errno == ENOENT);
        printf("gone\n");
        return;
    }
    size_t size = size_of(fd);
    CHECK(size == 0 || size == n);
    if (size) {
        uint64_t *word = map_read(fd, n);
        size_t filled = 0;
        while (filled < n / 8 && word[filled] == (filled + 7) * 0x9e3779b97f4a7c15ull)
            filled++;
        for (size_t i = filled; i < n / 8; i++)
            CHECK(word[i] == 0);
        CHECK(munmap(word, n) == 0);
        printf("%s\n", filled == n / 8 ? "filled" : "sized");
    } else
        printf("empty\n");
    CHECK(close(fd) == 0);
}

int main(int argc, char **argv) {
    const char *how = argv[1];
    size_t n = bytes_arg(argc, argv, 2);
    if (!strcmp(how, "look")) {
        look(n);
        return 0;
    }
    if (!strcmp(how, "after")) {
        /* The name can be used as if nobody had died. */
        if (shm_unlink(NAME) != 0)
            CHECK(errno == ENOENT);
        int fd = create_sized(NAME, n);
        void *p = map(fd, n);
        verify_zero(p, n);
        fill(p, n, 9);
        run_self("again", argv[2], NULL);
        CHECK(shm_unlink(NAME) == 0);
        CHECK(shm_open(NAME, O_RDWR, 0) == -1 && errno == ENOENT);
        verify(p, n, 9);
        return 0;
    }
    if (!strcmp(how, "again")) {
        verify_named(NAME, n, 9);
        return 0;
    }
    if (!strcmp(how, "keep")) { /* a bystander's segment: it stays when its maker has ended */
        int fd = create_sized("/bystander", n);
        fill(map(fd, n), n, 3);
        return 0;
    }
    if (!strcmp(how, "kept")) {
        verify_named("/bystander", n, 3);
        return 0;
    }
    if (!strcmp(how, "small") || !strcmp(how, "moving")) {
        /* Makes the process one that asks for much: the next creation is under pressure. For "moving" it is less than what the
         * segment will ask for, so that the target in which it is made has no room for it. */
        int fd = create_sized("/first", !strcmp(how, "small") ? n : n / 8 * 5);
        CHECK(shm_unlink("/first") == 0);
        CHECK(close(fd) == 0);
        how = "named";
    }
    prctl(MARK, 1);
    int fd = !strcmp(how, "nameless") ? open("/dev/shm", O_TMPFILE | O_EXCL | O_RDWR, 0600) : create(NAME);
    CHECK(fd >= 0);
    CHECK(ftruncate(fd, n) == 0);
    void *p = map(fd, n);
    fill(p, n, 7);
    if (!strcmp(how, "renamed")) {
        int other = create_sized("/other", n);
        fill(map(other, n), n, 7);
        CHECK(rename("/dev/shm/other", PATH) == 0);
    }
    if (strcmp(how, "nameless")) {
        CHECK(shm_unlink(NAME) == 0);
        CHECK(close(open(PATH, O_RDWR)) == -1 && errno == EBADF);
    }
    verify(p, n, 7);
    return 0; /* and the library's own end, with the ledger */
}
