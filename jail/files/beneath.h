/*
 * Opening what a task has left.  The kernel itself refuses a path that leads
 * out of the directory, through a link of any kind, or onto another mount; a
 * check before an open would be about another file than the open.
 */

#ifndef JAIL_BENEATH_H
#define JAIL_BENEATH_H

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
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


/*
 * The same, for what `entry` is an O_PATH descriptor of.  A task may leave
 * what its owner cannot read; the owner outside is us, and the name cannot
 * lead elsewhere: it is that of an entry which is held open.
 */

static inline int
beneath_read(int dir, const char *name, int entry, int flags)
{
    int   fd;
    char  path[64];

    fd = beneath_open(dir, name, flags);

    if (fd == -1 && errno == EACCES) {
        (void) sprintf(path, "/proc/self/fd/%d", entry);

        if (chmod(path, flags & O_DIRECTORY ? 0700 : 0600) == 0) {
            fd = beneath_open(dir, name, flags);
        }
    }

    return fd;
}


#endif /* JAIL_BENEATH_H */
