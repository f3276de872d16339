/*
 * The vault.  Two things are guarded: who can read or replace the file, and
 * that no byte of a value gets anywhere but into the packed form.
 *
 * The order of vault_load matters: the directory is opened first and judged
 * by its descriptor, then the file is opened in that directory and judged by
 * its own descriptor before a byte is read, so nothing can be exchanged
 * between the check and the use.
 *
 * Messages give the line and the cause.  They quote nothing of a line, not
 * even a name: a line with its sides exchanged has the token there.
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
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "policy/vault_internal.h"


#define SMB2_MAGIC  0xfe534d42
#define CIFS_MAGIC  0xff534d42
#define SHOWN_MAX   256


/* Memory that is not swapped, not dumped, and cleansed before it goes. */

typedef struct {
    unsigned char  *data;
    size_t          size;
} locked_t;


struct vault_s {
    locked_t  packed;           /* as in vault_pack.c */
};


static int vault_open(const char *path, uid_t owner, const char *shown,
    struct stat *st, char err[VAULT_ERROR_MAX]);
static int vault_check_directory(int fd, uid_t owner, const char *shown,
    char err[VAULT_ERROR_MAX]);
static int vault_check_file(int fd, uid_t owner, const char *shown,
    struct stat *st, char err[VAULT_ERROR_MAX]);
static ssize_t vault_read_all(int fd, unsigned char *p, size_t cap);
static int vault_memory_alloc(locked_t *l, size_t size);
static void vault_memory_free(locked_t *l);
static void vault_show_path(const char *path, char dst[SHOWN_MAX + 4]);
static int refuse(char err[VAULT_ERROR_MAX], const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));


vault_t *
vault_load(const char *path, uid_t owner, char err[VAULT_ERROR_MAX])
{
    int          fd;
    char         shown[SHOWN_MAX + 4];
    ssize_t      n;
    vault_t     *vault;
    locked_t     text;
    struct stat  before, after;

    memset(&before, 0, sizeof(struct stat));
    vault_show_path(path, shown);

    fd = vault_open(path, owner, shown, &before, err);

    if (fd == -1) {
        return NULL;
    }

    if (vault_memory_alloc(&text, VAULT_FILE_MAX + 1) != 0) {
        (void) refuse(err, "vault \"%s\": no memory", shown);
        (void) close(fd);
        return NULL;
    }

    vault = NULL;
    n = vault_read_all(fd, text.data, VAULT_FILE_MAX + 1);

    if (n == -1) {
        (void) refuse(err, "vault \"%s\" cannot be read: %s", shown,
                      strerror(errno));

    } else if (n > VAULT_FILE_MAX) {
        (void) refuse(err, "vault \"%s\" is larger than 1 MiB", shown);

    } else if (fstat(fd, &after) != 0
               || after.st_size != n
               || after.st_mtim.tv_sec != before.st_mtim.tv_sec
               || after.st_mtim.tv_nsec != before.st_mtim.tv_nsec)
    {
        (void) refuse(err, "vault \"%s\" changed while it was read: try "
                      "again, and replace it by renaming a new file over it",
                      shown);

    } else {
        vault = vault_parse(path, text.data, (size_t) n, err);
    }

    vault_memory_free(&text);
    (void) close(fd);

    return vault;
}


vault_t *
vault_parse(const char *name, const unsigned char *p, size_t n,
    char err[VAULT_ERROR_MAX])
{
    char            shown[SHOWN_MAX + 4];
    size_t          count, size;
    vault_t        *vault;
    const char     *why;
    vault_line_t   *lines, bad;

    vault_show_path(name, shown);

    lines = vault_lines(p, n, &count, &bad, &why);

    if (lines == NULL) {

        if (bad.number == 0) {
            (void) refuse(err, "vault \"%s\": %s", shown, why);

        } else if (bad.other) {
            (void) refuse(err, "vault \"%s\", line %zu: %s %zu", shown,
                          bad.number, why, bad.other);

        } else {
            (void) refuse(err, "vault \"%s\", line %zu: %s", shown,
                          bad.number, why);
        }

        return NULL;
    }

    size = vault_packed_size(lines, count);
    vault = calloc(1, sizeof(vault_t));

    if (vault == NULL || vault_memory_alloc(&vault->packed, size) != 0) {
        (void) refuse(err, "vault \"%s\": no memory", shown);
        free(vault);
        free(lines);
        return NULL;
    }

    vault_pack_lines(lines, count, vault->packed.data);
    free(lines);

    return vault;
}


void
vault_free(vault_t *vault)
{
    if (vault) {
        vault_memory_free(&vault->packed);
        free(vault);
    }
}


size_t
vault_count(const vault_t *vault)
{
    return vault_packed_count(vault->packed.data, vault->packed.size);
}


bool
vault_has(const vault_t *vault, const char *name)
{
    size_t  len;

    return vault_packed_find(vault->packed.data, vault->packed.size, name,
                             &len)
           != NULL;
}


size_t
vault_pack(const vault_t *vault, unsigned char *dst, size_t cap)
{
    if (vault->packed.size <= cap) {
        memcpy(dst, vault->packed.data, vault->packed.size);
    }

    return vault->packed.size;
}


static int
vault_open(const char *path, uid_t owner, const char *shown,
    struct stat *st, char err[VAULT_ERROR_MAX])
{
    int          fd, dir;
    char        *parent;
    const char  *base, *slash;

    slash = strrchr(path, '/');
    base = slash ? slash + 1 : path;

    parent = slash ? strndup(path, slash == path ? 1 : (size_t) (slash - path))
                   : strdup(".");

    if (parent == NULL) {
        return refuse(err, "vault \"%s\": no memory", shown);
    }

    dir = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    free(parent);

    if (dir == -1) {
        return refuse(err, "the directory of vault \"%s\" cannot be opened: "
                      "%s", shown, strerror(errno));
    }

    if (vault_check_directory(dir, owner, shown, err) != 0) {
        (void) close(dir);
        return -1;
    }

    /* O_NONBLOCK: a FIFO would make the master wait for a writer */

    fd = openat(dir, base, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK
                           | O_NOCTTY);

    if (fd == -1) {
        (void) refuse(err, "vault \"%s\" cannot be opened: %s", shown,
                      errno == ELOOP ? "it is a symbolic link; name the file "
                                       "itself"
                      : errno == ENOENT ? "No such file: make it, as "
                                          "vault.example says"
                                        : strerror(errno));
        (void) close(dir);
        return -1;
    }

    (void) close(dir);

    if (vault_check_file(fd, owner, shown, st, err) != 0) {
        (void) close(fd);
        return -1;
    }

    return fd;
}


/*
 * Anyone who can write to the directory can put a file of their own there.
 * The sticky bit keeps others from removing ours, not from being there first.
 */

static int
vault_check_directory(int fd, uid_t owner, const char *shown,
    char err[VAULT_ERROR_MAX])
{
    struct stat  st;

    if (fstat(fd, &st) != 0) {
        return refuse(err, "the directory of vault \"%s\" cannot be "
                      "examined: %s", shown, strerror(errno));
    }

    if (st.st_uid != 0 && st.st_uid != owner) {
        return refuse(err, "the directory of vault \"%s\" belongs to uid %u: "
                      "chown %u its directory, or move the vault", shown,
                      (unsigned) st.st_uid, (unsigned) owner);
    }

    if (st.st_mode & (S_IWGRP | S_IWOTH)) {
        return refuse(err, "the directory of vault \"%s\" can be written by "
                      "others (mode %04o): chmod go-w its directory", shown,
                      (unsigned) st.st_mode & 07777);
    }

    return 0;
}


static int
vault_check_file(int fd, uid_t owner, const char *shown, struct stat *st,
    char err[VAULT_ERROR_MAX])
{
    uint32_t       type;
    struct statfs  fs;

    if (fstat(fd, st) != 0 || fstatfs(fd, &fs) != 0) {
        return refuse(err, "vault \"%s\" cannot be examined: %s", shown,
                      strerror(errno));
    }

    if (!S_ISREG(st->st_mode)) {
        return refuse(err, "vault \"%s\" is not a regular file", shown);
    }

    if (st->st_uid != 0 && st->st_uid != owner) {
        return refuse(err, "vault \"%s\" belongs to uid %u: chown %u %s",
                      shown, (unsigned) st->st_uid, (unsigned) owner, shown);
    }

    if (st->st_mode & (S_IRWXG | S_IRWXO)) {
        return refuse(err, "vault \"%s\" is open to others (mode %04o): "
                      "chmod 600 %s", shown, (unsigned) st->st_mode & 07777,
                      shown);
    }

    /* another name may stand where others can read or keep it */

    if (st->st_nlink != 1) {
        return refuse(err, "vault \"%s\" has %lu names: remove its other "
                      "hard links", shown, (unsigned long) st->st_nlink);
    }

    /* there, owner and mode are what some other machine or user says */

    type = (uint32_t) fs.f_type;

    if (type == NFS_SUPER_MAGIC || type == FUSE_SUPER_MAGIC
        || type == SMB_SUPER_MAGIC || type == SMB2_MAGIC
        || type == CIFS_MAGIC)
    {
        return refuse(err, "vault \"%s\" is on a network or FUSE file "
                      "system: move it to a local one", shown);
    }

    return 0;
}


static ssize_t
vault_read_all(int fd, unsigned char *p, size_t cap)
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


/*
 * Pages of their own.  Locking is tried, not required: an ordinary user has a
 * small RLIMIT_MEMLOCK, and what must stay locked is the shared segment.
 */

static int
vault_memory_alloc(locked_t *l, size_t size)
{
    void  *p;

    p = mmap(NULL, size, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED) {
        return -1;
    }

    (void) mlock(p, size);
    (void) madvise(p, size, MADV_DONTDUMP);

    l->data = p;
    l->size = size;

    return 0;
}


static void
vault_memory_free(locked_t *l)
{
    OPENSSL_cleanse(l->data, l->size);
    (void) munmap(l->data, l->size);
}


static void
vault_show_path(const char *path, char dst[SHOWN_MAX + 4])
{
    size_t  i;

    for (i = 0; i < SHOWN_MAX && path[i]; i++) {
        dst[i] = ((unsigned char) path[i] < 0x20 || path[i] == 0x7f)
                 ? '?' : path[i];
    }

    (void) strcpy(dst + i, path[i] ? "..." : "");
}


static int
refuse(char err[VAULT_ERROR_MAX], const char *fmt, ...)
{
    va_list  args;

    va_start(args, fmt);
    (void) vsnprintf(err, VAULT_ERROR_MAX, fmt, args);
    va_end(args);

    return -1;
}
