/*
 * openat2(2) with all its restrictions.
 */

#include <errno.h>
#include <linux/limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "files/beneath.h"


int
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


int
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


void
beneath_close(int fd)
{
    int  err;

    err = errno;

    if (fd != -1) {
        (void) close(fd);
    }

    errno = err;
}


int
beneath_parent(int dir, const char *path, const char **name)
{
    char         parent[PATH_MAX];
    const char  *slash;

    slash = strrchr(path, '/');
    *name = slash ? slash + 1 : path;

    (void) snprintf(parent, sizeof(parent), "%.*s",
                    slash ? (int) (slash - path) : 1, slash ? path : ".");

    return beneath_open(dir, parent, O_RDONLY|O_DIRECTORY);
}
