/*
 * Opening what a task has left.  The kernel itself refuses a path that leads
 * out of the directory, through a link of any kind, or onto another mount; a
 * check before an open would be about another file than the open.
 */

#ifndef JAIL_BENEATH_H
#define JAIL_BENEATH_H

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>


/* A descriptor, or -1 with errno: ELOOP for a link, EXDEV for a way out. */

static inline int
beneath_open(int dir, const char *path, int flags)
{
    struct open_how  how;

    how = (struct open_how) {
        .flags = (unsigned) flags|O_NOFOLLOW|O_CLOEXEC,
        .resolve = RESOLVE_BENEATH|RESOLVE_NO_SYMLINKS|RESOLVE_NO_MAGICLINKS
                   |RESOLVE_NO_XDEV
    };

    return (int) syscall(SYS_openat2, dir, path, &how, sizeof(how));
}


#endif /* JAIL_BENEATH_H */
