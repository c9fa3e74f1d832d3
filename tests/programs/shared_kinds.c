/* Memory shared in every way, N bytes each, all of it written, held until told to end: shared_kinds BYTES
 * - a segment with a name, mapped;
 * - one whose name is gone, held by nothing but a descriptor that another process duplicated, mapped nowhere;
 * - memfd_create, a shared anonymous mapping, a System V segment. */
#include "check.h"
#include <sys/ipc.h>
#include <sys/shm.h>

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    int named = create("/named");
    CHECK(ftruncate(named, n) == 0);
    fill(map(named, n), n, 1);

    int nameless = create("/nameless");
    CHECK(ftruncate(nameless, n) == 0);
    void *p = map(nameless, n);
    fill(p, n, 2);
    CHECK(munmap(p, n) == 0 && shm_unlink("/nameless") == 0);
    int end[2];
    CHECK(pipe(end) == 0);
    pid_t holder = fork();
    CHECK(holder >= 0);
    if (holder == 0) {
        char c;
        CHECK(close(end[1]) == 0 && close(named) == 0);
        CHECK(dup(nameless) >= 0 && close(nameless) == 0);
        CHECK(read(end[0], &c, 1) == 0); /* end of file: the parent is done */
        _exit(0);
    }
    CHECK(close(nameless) == 0);

    int memfd = memfd_create("of-the-test", MFD_CLOEXEC);
    CHECK(memfd >= 0 && ftruncate(memfd, n) == 0);
    fill(map(memfd, n), n, 3);
    void *anonymous = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(anonymous != MAP_FAILED);
    fill(anonymous, n, 4);
    int id = shmget(IPC_PRIVATE, n, 0600);
    CHECK(id >= 0);
    void *system_v = shmat(id, NULL, 0);
    CHECK(system_v != (void *)-1 && shmctl(id, IPC_RMID, NULL) == 0);
    fill(system_v, n, 5);

    printf("pids %d %d\n", getpid(), holder);
    say_and_wait("ready");
    CHECK(shm_unlink("/named") == 0);
    CHECK(close(end[1]) == 0);
    reap(holder);
    return 0;
}
