/*
 * The files of the vault and of its key: who can read or replace them.
 *
 * The order matters: the directory is opened first and judged by its
 * descriptor, then the file is opened in that directory and judged by its own
 * descriptor before a byte is read, so nothing can be exchanged between the
 * check and the use.
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* O_PATH */
#endif

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "policy/vault_internal.h"


#define SMB2_MAGIC  0xfe534d42
#define CIFS_MAGIC  0xff534d42
#define SHOWN_MAX   256


static int vault_file_check_directory(const char *what, int fd, uid_t owner,
    const char *shown, char err[VAULT_ERROR_MAX]);
static int vault_file_check(const char *what, int fd, uid_t owner,
    const char *shown, struct stat *st, char err[VAULT_ERROR_MAX]);
static ssize_t vault_file_read_all(int fd, unsigned char *p, size_t cap);
static void vault_file_show_path(const char *path, char dst[SHOWN_MAX + 4]);


int
vault_file_directory(const char *what, const char *path, int flags,
    uid_t owner, char err[VAULT_ERROR_MAX])
{
    int          dir;
    char        *parent, shown[SHOWN_MAX + 4];
    const char  *slash;

    vault_file_show_path(path, shown);

    slash = strrchr(path, '/');

    parent = slash ? strndup(path, slash == path ? 1 : (size_t) (slash - path))
                   : strdup(".");

    if (parent == NULL) {
        return vault_file_refuse(err, "%s \"%s\": no memory", what, shown);
    }

    dir = open(parent, flags | O_DIRECTORY | O_CLOEXEC);
    free(parent);

    if (dir == -1) {
        return vault_file_refuse(err, "the directory of %s \"%s\" cannot be "
                                 "opened: %s", what, shown, strerror(errno));
    }

    if (vault_file_check_directory(what, dir, owner, shown, err) != 0) {
        (void) close(dir);
        return -1;
    }

    return dir;
}


int
vault_file_open(const char *what, const char *path, int dir, uid_t owner,
    struct stat *st, char err[VAULT_ERROR_MAX])
{
    int          fd;
    char         shown[SHOWN_MAX + 4];
    const char  *slash;

    memset(st, 0, sizeof(struct stat));
    vault_file_show_path(path, shown);

    slash = strrchr(path, '/');

    /* O_NONBLOCK: a FIFO would make the master wait for a writer */

    fd = openat(dir, slash ? slash + 1 : path,
                O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd == -1) {
        return vault_file_refuse(err, "%s \"%s\" cannot be opened: %s", what,
                                 shown,
                                 errno == ELOOP
                                 ? "it is a symbolic link; name the file "
                                   "itself"
                                 : errno == ENXIO
                                 ? "it is a socket; name a regular file"
                                 : errno == ENOENT
                                 ? "No such file: make it, as vault.example "
                                   "says"
                                 : strerror(errno));
    }

    if (vault_file_check(what, fd, owner, shown, st, err) != 0) {
        (void) close(fd);
        return -1;
    }

    return fd;
}


int
vault_file_read(const char *what, const char *path, int fd,
    const struct stat *before, vault_memory_t *memory, size_t *len,
    char err[VAULT_ERROR_MAX])
{
    char         shown[SHOWN_MAX + 4];
    ssize_t      n;
    struct stat  after;

    vault_file_show_path(path, shown);

    if (vault_memory_alloc(memory, VAULT_FILE_MAX + 1) != 0) {
        return vault_file_refuse(err, "%s \"%s\": no memory", what, shown);
    }

    n = vault_file_read_all(fd, memory->data, VAULT_FILE_MAX + 1);

    if (n == -1) {
        (void) vault_file_refuse(err, "%s \"%s\" cannot be read: %s", what,
                                 shown, strerror(errno));

    } else if (n > VAULT_FILE_MAX) {
        (void) vault_file_refuse(err, "%s \"%s\" is larger than 1 MiB", what,
                                 shown);

    } else if (fstat(fd, &after) != 0
               || after.st_size != n
               || after.st_mtim.tv_sec != before->st_mtim.tv_sec
               || after.st_mtim.tv_nsec != before->st_mtim.tv_nsec)
    {
        (void) vault_file_refuse(err, "%s \"%s\" changed while it was read: "
                                 "try again, and replace it by renaming a new "
                                 "file over it", what, shown);

    } else {
        *len = (size_t) n;
        return 0;
    }

    vault_memory_free(memory);

    return -1;
}


int
vault_file_key(const char *path, uid_t owner, vault_memory_t *memory,
    char err[VAULT_ERROR_MAX])
{
    int          dir, fd, rc;
    char         shown[SHOWN_MAX + 4];
    size_t       n;
    struct stat  st;

    static const char  what[] = "the vault's key";

    dir = vault_file_directory(what, path, O_PATH, owner, err);
    if (dir == -1) {
        return -1;
    }

    fd = vault_file_open(what, path, dir, owner, &st, err);
    (void) close(dir);

    if (fd == -1) {
        return -1;
    }

    n = 0;
    rc = vault_file_read(what, path, fd, &st, memory, &n, err);
    (void) close(fd);

    if (rc == 0 && n != VAULT_KEY_SIZE) {
        vault_file_show_path(path, shown);
        rc = vault_file_refuse(err, "%s \"%s\" has %zu bytes and not 32: make "
                               "one with \"agent-vault init-key\"", what,
                               shown, n);
        vault_memory_free(memory);
    }

    return rc;
}


int
vault_file_refuse(char err[VAULT_ERROR_MAX], const char *fmt, ...)
{
    va_list  args;

    va_start(args, fmt);
    (void) vsnprintf(err, VAULT_ERROR_MAX, fmt, args);
    va_end(args);

    return -1;
}


void
vault_bad_say(const char *path, const vault_bad_t *bad,
    char err[VAULT_ERROR_MAX])
{
    int   n;
    char  shown[SHOWN_MAX + 4], tail[VAULT_NAME_MAX + 32];

    vault_file_show_path(path, shown);

    tail[0] = '\0';

    if (bad->origin) {
        (void) snprintf(tail, sizeof(tail), " \"%.*s\"",
                        (int) bad->origin->name_len, bad->origin->name);

    } else if (bad->other) {
        (void) snprintf(tail, sizeof(tail), " %zu", bad->other);
    }

    n = snprintf(err, VAULT_ERROR_MAX, "vault \"%s\"", shown);

    if (bad->number) {
        n += snprintf(err + n, VAULT_ERROR_MAX - (size_t) n, ", line %zu",
                      bad->number);
    }

    if (bad->name) {
        n += snprintf(err + n, VAULT_ERROR_MAX - (size_t) n,
                      ", entry \"%.*s\"", (int) bad->name_len, bad->name);
    }

    (void) snprintf(err + n, VAULT_ERROR_MAX - (size_t) n, ": %s%s", bad->why,
                    tail);
}


/*
 * Locking is tried, not required: an ordinary user has a small RLIMIT_MEMLOCK,
 * and what must stay locked is the shared segment.
 */

int
vault_memory_alloc(vault_memory_t *memory, size_t size)
{
    void  *p;

    p = mmap(NULL, size, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED) {
        return -1;
    }

    (void) mlock(p, size);
    (void) madvise(p, size, MADV_DONTDUMP);

    memory->data = p;
    memory->size = size;

    return 0;
}


void
vault_memory_free(vault_memory_t *memory)
{
    if (memory->data) {
        OPENSSL_cleanse(memory->data, memory->size);
        (void) munmap(memory->data, memory->size);
        memory->data = NULL;
    }
}


/*
 * Anyone who can write to the directory can put a file of their own there.
 * The sticky bit keeps others from removing ours, not from being there first.
 */

static int
vault_file_check_directory(const char *what, int fd, uid_t owner,
    const char *shown, char err[VAULT_ERROR_MAX])
{
    struct stat  st;

    if (fstat(fd, &st) != 0) {
        return vault_file_refuse(err, "the directory of %s \"%s\" cannot be "
                                 "examined: %s", what, shown, strerror(errno));
    }

    if (st.st_uid != 0 && st.st_uid != owner) {
        return vault_file_refuse(err, "the directory of %s \"%s\" belongs to "
                                 "uid %u: chown %u its directory, or move the "
                                 "file", what, shown, (unsigned) st.st_uid,
                                 (unsigned) owner);
    }

    if (st.st_mode & (S_IWGRP | S_IWOTH)) {
        return vault_file_refuse(err, "the directory of %s \"%s\" can be "
                                 "written by others (mode %04o): chmod go-w "
                                 "its directory", what, shown,
                                 (unsigned) st.st_mode & 07777);
    }

    return 0;
}


static int
vault_file_check(const char *what, int fd, uid_t owner, const char *shown,
    struct stat *st, char err[VAULT_ERROR_MAX])
{
    uint32_t       type;
    struct statfs  fs;

    if (fstat(fd, st) != 0 || fstatfs(fd, &fs) != 0) {
        return vault_file_refuse(err, "%s \"%s\" cannot be examined: %s",
                                 what, shown, strerror(errno));
    }

    if (!S_ISREG(st->st_mode)) {
        return vault_file_refuse(err, "%s \"%s\" is not a regular file", what,
                                 shown);
    }

    if (st->st_uid != 0 && st->st_uid != owner) {
        return vault_file_refuse(err, "%s \"%s\" belongs to uid %u: "
                                 "chown %u %s", what, shown,
                                 (unsigned) st->st_uid, (unsigned) owner,
                                 shown);
    }

    if (st->st_mode & (S_IRWXG | S_IRWXO)) {
        return vault_file_refuse(err, "%s \"%s\" is open to others (mode "
                                 "%04o): chmod 600 %s", what, shown,
                                 (unsigned) st->st_mode & 07777, shown);
    }

    /* another name may stand where others can read or keep it */

    if (st->st_nlink != 1) {
        return vault_file_refuse(err, "%s \"%s\" has %lu names: remove its "
                                 "other hard links", what, shown,
                                 (unsigned long) st->st_nlink);
    }

    /* there, owner and mode are what some other machine or user says */

    type = (uint32_t) fs.f_type;

    if (type == NFS_SUPER_MAGIC || type == FUSE_SUPER_MAGIC
        || type == SMB_SUPER_MAGIC || type == SMB2_MAGIC
        || type == CIFS_MAGIC)
    {
        return vault_file_refuse(err, "%s \"%s\" is on a network or FUSE file "
                                 "system: move it to a local one", what,
                                 shown);
    }

    return 0;
}


static ssize_t
vault_file_read_all(int fd, unsigned char *p, size_t cap)
{
    size_t   len;
    ssize_t  n;

    for (len = 0; len < cap; len += (size_t) n) {

        n = read(fd, p + len, cap - len);

        if (n == -1 && errno == EINTR) {
            n = 0;
            continue;
        }

        if (n == -1) {
            return -1;
        }

        if (n == 0) {
            break;
        }
    }

    return (ssize_t) len;
}


static void
vault_file_show_path(const char *path, char dst[SHOWN_MAX + 4])
{
    size_t  i;

    for (i = 0; i < SHOWN_MAX && path[i]; i++) {
        dst[i] = ((unsigned char) path[i] < 0x20 || path[i] == 0x7f)
                 ? '?' : path[i];
    }

    (void) strcpy(dst + i, path[i] ? "..." : "");
}
