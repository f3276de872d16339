/*
 * Closing all descriptors that the caller left open, without asking /proc
 * which they are: by the ranges between those that are kept.
 */

#include <sys/syscall.h>
#include <unistd.h>

#include "base/descriptors.h"


int
descriptors_close_but(int *keep, unsigned n)
{
    int       fd;
    unsigned  i, j, from;

    for (i = 1; i < n; i++) {
        fd = keep[i];

        for (j = i; j > 0 && keep[j - 1] > fd; j--) {
            keep[j] = keep[j - 1];
        }

        keep[j] = fd;
    }

    from = 0;

    for (i = 0; i <= n; i++) {

        if ((i == n || (unsigned) keep[i] > from)
            && syscall(SYS_close_range, from,
                       i == n ? ~0u : (unsigned) keep[i] - 1, 0) != 0)
        {
            return -1;
        }

        from = i == n ? 0 : (unsigned) keep[i] + 1;
    }

    return 0;
}


void
descriptors_close(int *fds, unsigned n)
{
    unsigned  i;

    for (i = 0; i < n; i++) {
        if (fds[i] != -1) {
            (void) close(fds[i]);
            fds[i] = -1;
        }
    }
}
