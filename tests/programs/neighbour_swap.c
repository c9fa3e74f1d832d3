/* A hostile neighbour, without the library, until its standard input ends.
 * neighbour_swap link NAME TARGET LABEL SECRET: what /dev/shm/NAME and the file TARGET/LABEL are changes all the time: a link of the
 *   library's form, a link to SECRET; a file of the neighbour's, a link to SECRET, a second name of SECRET (where the kernel lets
 *   him), a fifo.
 * neighbour_swap target TARGET UID SECRET: each file of UID that appears in the directory TARGET, his own, is replaced in the same way. */
#include "check.h"
#include <dirent.h>
#include <poll.h>

static int told_to_stop(void) {
    struct pollfd in = {0, POLLIN, 0};
    return poll(&in, 1, 0) > 0;
}

static void put(int what, const char *at, const char *secret) {
    char fresh[600];
    snprintf(fresh, sizeof fresh, "%s.fresh", at);
    unlink(fresh);
    int made = -1;
    switch (what) {
    case 0:
        made = open(fresh, O_CREAT | O_EXCL | O_RDWR, 0666);
        if (made >= 0) {
            CHECK(fchmod(made, 0666) == 0);
            CHECK(write(made, "the neighbour's", 15) == 15);
            CHECK(close(made) == 0);
        }
        break;
    case 1:
        made = symlink(secret, fresh);
        break;
    case 2:
        made = mkfifo(fresh, 0666);
        break;
    case 3:
        made = link(secret, fresh);
        break;
    }
    if (made >= 0)
        rename(fresh, at);
}

int main(int argc, char **argv) {
    umask(0);
    if (!strcmp(argv[1], "link")) {
        const char *target = argv[3], *label = argv[4], *secret = argv[5];
        char name[300], fresh[300], text[600];
        snprintf(name, sizeof name, "/dev/shm/%s", argv[2]);
        snprintf(fresh, sizeof fresh, "/dev/shm/%s.fresh", argv[2]);
        snprintf(text, sizeof text, "%s/%s", target, label);
        /* A sticky directory lets him replace only what is his own: the second name is one of his. */
        char other[620];
        snprintf(other, sizeof other, "%s.other", text);
        close(open(other, O_CREAT | O_RDWR, 0666));
        printf("begun\n");
        fflush(stdout);
        for (unsigned i = 0; !told_to_stop(); i++) {
            put(i % 4, text, i % 4 == 3 ? other : secret);
            if (i % 16 == 3)
                put(0, text, secret); /* stays for a while: so that something is opened at all */
            unlink(fresh);
            if (symlink(i % 5 == 4 ? secret : text, fresh) == 0)
                rename(fresh, name);
            if (i % 16 == 3)
                usleep(500);
        }
        unlink(text);
        unlink(name);
        unlink(fresh);
        unlink(other);
        strcat(text, ".fresh");
        unlink(text);
        return 0;
    }
    CHECK(!strcmp(argv[1], "target"));
    const char *target = argv[2], *secret = argv[4];
    uid_t uid = bytes_arg(argc, argv, 3);
    unsigned replaced = 0;
    printf("begun\n");
    fflush(stdout);
    while (!told_to_stop()) {
        DIR *dir = opendir(target);
        CHECK(dir);
        struct dirent *entry;
        while ((entry = readdir(dir))) {
            char at[600];
            struct stat st;
            snprintf(at, sizeof at, "%s/%s", target, entry->d_name);
            if (lstat(at, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == uid)
                put(replaced++ % 4, at, secret);
        }
        closedir(dir);
    }
    printf("replaced %u\n", replaced);
    return 0;
}
