/* Maps pages of one segment, every second one so that no two join, until that fails; says how many and ends with status 3. */
#include "check.h"

int main(void) {
    int fd = create_sized("/many-mappings", 2 * 4096), count = 0;
    CHECK(shm_unlink("/many-mappings") == 0);
    while (mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, count % 2 * 4096) != MAP_FAILED)
        count++;
    CHECK(errno == ENOMEM);
    printf("%d\n", count);
    return 3;
}
