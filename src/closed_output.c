// Before `main`, Rust's runtime opens /dev/null in place of a closed standard output, so that writes to it would succeed.
// The program cannot distinguish that file from a /dev/null that its parent has opened. /dev/full refuses writes.
#include <fcntl.h>
#include <unistd.h>

__attribute__((constructor)) static void refuse_writes_if_closed(void) {
    if (fcntl(STDOUT_FILENO, F_GETFD) != -1) {
        return;
    }
    int full = open("/dev/full", O_WRONLY);
    // It has the number of standard input if that is closed, too.
    if (full != -1 && full != STDOUT_FILENO) {
        dup2(full, STDOUT_FILENO);
        close(full);
    }
}
