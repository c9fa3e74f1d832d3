// Says that it has started (one byte on stdout), then sleeps until stdin ends.
#include <unistd.h>

int main(void) {
    char byte;
    if (write(1, "s", 1) != 1)
        return 1;
    while (read(0, &byte, 1) > 0) {
    }
    return 0;
}
