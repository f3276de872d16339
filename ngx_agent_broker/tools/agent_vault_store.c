/*
 * How agent-vault writes a file.  The text goes to a file without a name, which
 * is gone if the process is killed; only when it is on the disk is it given
 * one, and then the other's.  If the process is killed between these two, its
 * guard, a child that waits for that, removes the file, and has the lock until
 * then.  If that is killed as well, the next change removes it.
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* O_TMPFILE */
#endif

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/agent_vault.h"


static pid_t agent_vault_guard(int dir, int *end);
static int agent_vault_write(int fd, const struct stat *st,
    const unsigned char *p, size_t n);


int
agent_vault_store(const char *path, int dir, const char *base,
    const struct stat *st, const unsigned char *p, size_t n,
    char err[VAULT_ERROR_MAX])
{
    int          fd, end, rc, has_name;
    char         self[64];
    pid_t        guard;
    const char  *doing;

    rc = -1;
    doing = "written";
    has_name = 0;

    guard = agent_vault_guard(dir, &end);

    if (guard == -1) {
        return vault_file_refuse(err, "\"%s\" could not be written: no "
                                 "process could be made: %s", path,
                                 strerror(errno));
    }

    fd = openat(dir, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);

    if (fd == -1 && (errno == EOPNOTSUPP || errno == EISDIR)) {
        fd = openat(dir, AGENT_VAULT_NEW,
                    O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600);
        has_name = (fd != -1);
    }

    if (fd == -1 || agent_vault_write(fd, st, p, n) != 0) {
        goto failed;
    }

    if (!has_name) {
        (void) snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);

        if (linkat(AT_FDCWD, self, dir, AGENT_VAULT_NEW, AT_SYMLINK_FOLLOW)
            != 0)
        {
            goto failed;
        }

        has_name = 1;
    }

    if (renameat(dir, AGENT_VAULT_NEW, dir, base) != 0) {
        goto failed;
    }

    has_name = 0;
    doing = "surely kept on the disk, but was replaced";

    rc = fsync(dir);

failed:

    if (rc != 0) {
        (void) vault_file_refuse(err, "\"%s\" could not be %s: %s", path,
                                 doing, strerror(errno));
    }

    if (has_name) {
        (void) unlinkat(dir, AGENT_VAULT_NEW, 0);
    }

    if (fd != -1) {
        (void) close(fd);
    }

    (void) !write(end, "", 1);
    (void) close(end);
    (void) waitpid(guard, NULL, 0);

    return rc;
}


/* It ends at a byte; without one, it removes the file.  -1 with errno. */

static pid_t
agent_vault_guard(int dir, int *end)
{
    int    ends[2];
    char   byte;
    pid_t  pid;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return -1;
    }

    pid = fork();

    if (pid == 0) {

        /* what kills the group of the caller's does not kill it */

        (void) setsid();
        (void) close(ends[1]);
        (void) close(STDIN_FILENO);
        (void) close(STDOUT_FILENO);
        (void) close(STDERR_FILENO);

        if (read(ends[0], &byte, 1) != 1) {
            (void) unlinkat(dir, AGENT_VAULT_NEW, 0);
        }

        _exit(0);
    }

    (void) close(ends[0]);

    if (pid == -1) {
        (void) close(ends[1]);
    }

    *end = ends[1];

    return pid;
}


static int
agent_vault_write(int fd, const struct stat *st, const unsigned char *p,
    size_t n)
{
    ssize_t  written;

    if (st) {

        if ((st->st_uid != geteuid() || st->st_gid != getegid())
            && fchown(fd, st->st_uid, st->st_gid) != 0)
        {
            return -1;
        }

        if (fchmod(fd, st->st_mode & (S_IRUSR | S_IWUSR)) != 0) {
            return -1;
        }
    }

    while (n) {

        written = write(fd, p, n);

        if (written == -1) {
            return -1;
        }

        p += written;
        n -= (size_t) written;
    }

    return fsync(fd);
}
