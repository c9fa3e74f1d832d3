/* Says how often malloc was called before main: under counting_malloc.c. */
#include "check.h"

int allocations(void) __attribute__((weak));

int main(void) {
    CHECK(allocations);
    int before_main = allocations();
    void *volatile p = malloc(100);
    free(p);
    CHECK(allocations() == before_main + 1);
    printf("%d allocations before main\n", before_main);
    return 0;
}
