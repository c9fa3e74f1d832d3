/* A vfork child, which runs in its parent's memory, makes and sizes a segment; then the parent does. vfork_child BYTES */
#include "check.h"

int main(int argc, char **argv) {
    size_t n = bytes_arg(argc, argv, 1);
    volatile int before = create_sized("/parent-1", n);
    fill(map(before, n), n, 1);
    for (int i = 0; i < 3; i++) {
        pid_t pid = vfork();
        if (pid == 0) {
            int fd = shm_open("/child", O_CREAT | O_EXCL | O_RDWR, 0600);
            if (fd < 0 || ftruncate(fd, 65536) || shm_unlink("/child") || close(fd))
                _exit(1);
            _exit(0);
        }
        reap(pid);
    }
    int after = create_sized("/parent-2", n);
    fill(map(after, n), n, 2);
    IN_CHILD {
        verify_named("/parent-1", n, 1);
        verify_named("/parent-2", n, 2);
    }
    CHECK(shm_unlink("/parent-1") == 0 && shm_unlink("/parent-2") == 0);
    puts("both there");
    return 0;
}
