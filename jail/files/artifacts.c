/*
 * Taking a task's files out of its box.
 *
 * The tmpfs is reached by the descriptor of its mount, which the launcher was
 * given before the task ran; the box's mount namespace is gone by now, and
 * nothing is mounted on the host for this.  No process of the box is left, so
 * nothing can be swapped while it is looked at; the opens would still not
 * follow a link, leave the directory or cross a mount, and an entry is opened
 * as a name only until it is known to be a regular file, so that no FIFO and
 * no device is ever opened.
 *
 * What it writes is new (O_EXCL), the caller's alone (0600), and no more than
 * the tmpfs could hold, whatever sizes sparse files claim.  What the result
 * says of it is bounded as well: the names are the task's, and a result is
 * often read by a model.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define OPENSSL_SUPPRESS_DEPRECATED     /* EVP costs 1 ms of set-up */
#include <openssl/sha.h>

#include "files/beneath.h"
#include "files/artifacts.h"
#include "files/media_type.h"
#include "files/directory.h"
#include "shared/utf8.h"


typedef struct {
    char  *path;
    bool   is_dir;
} collect_made_t;


typedef struct {
    collect_t       *collect;
    fault_t         *fault;
    uint64_t         left;              /* bytes that may still be taken */
    unsigned         nfiles;
    unsigned         ndirs;
    ino_t            linked[COLLECT_FILES_MAX];
    unsigned         nlinked;
    collect_made_t   made[2 * COLLECT_FILES_MAX];
    unsigned         nmade;
    size_t           text;              /* of the artifacts' names */
    size_t           skipped_text;
    unsigned         unnamed;           /* skipped, and not in the list */
    char             path[COLLECT_PATH_MAX + 1];
} collect_walk_t;


static int collect_directory(collect_walk_t *w, int from, int to,
    size_t len, unsigned depth);
static int collect_entry(collect_walk_t *w, int from, int to,
    const char *name, size_t len, unsigned depth);
static int collect_file(collect_walk_t *w, int in, int to, const char *name,
    const struct stat *st);
static int collect_copy(collect_walk_t *w, int in, int out,
    const char *name, uint64_t size);
static int collect_write(int out, const char *buf, size_t n);
static int collect_made(collect_walk_t *w, bool is_dir);
static void collect_undo(collect_walk_t *w);
static int collect_skip(collect_walk_t *w, const char *reason);
static int collect_fault(collect_walk_t *w, const char *what);
static json_t *collect_name(const char *path);
static size_t collect_text(const char *path);


int
collect_prepare(collect_t *c, const char *path, fault_t *fault)
{
    size_t        n;
    char        **names;
    struct stat   st;

    c->path = path;
    c->is_made = (mkdir(path, 0700) == 0);

    if (!c->is_made && errno != EEXIST) {
        return fault_set(fault, STAGE_OUT, errno,
                         "the directory %.200s cannot be made", path);
    }

    c->dir = open(path, O_RDONLY|O_DIRECTORY|O_NOFOLLOW|O_CLOEXEC);

    if (c->dir == -1 || fstat(c->dir, &st) != 0) {
        return fault_set(fault, STAGE_OUT, errno,
                         "%.200s cannot be opened as a directory", path);
    }

    if (c->is_made) {
        return 0;
    }

    names = names_read(c->dir, &n);

    if (names == NULL) {
        return fault_set(fault, STAGE_OUT, errno, "%.200s cannot be listed",
                         path);
    }

    names_free(names, n);

    if (n > 0) {
        return fault_set_cause(fault, STAGE_OUT, ENOTEMPTY,
                               CAUSE_OUT_NOT_EMPTY,
                               "%.200s is to be new or empty", path);
    }

    if (st.st_uid != geteuid()) {
        return fault_set(fault, STAGE_OUT, EPERM,
                         "%.200s belongs to another user", path);
    }

    return 0;
}


int
collect_take(collect_t *c, int mount, fault_t *fault)
{
    int                    rc, from;
    struct statfs          sfs;
    static collect_walk_t  w;

    c->artifacts = json_array();
    c->skipped = json_array();

    w.collect = c;
    w.fault = fault;

    from = beneath_open(mount, ".", O_RDONLY|O_DIRECTORY);

    if (from == -1 || fstatfs(from, &sfs) != 0 || c->artifacts == NULL
        || c->skipped == NULL)
    {
        rc = collect_fault(&w, "/run/task/out");

    } else {
        w.left = (uint64_t) sfs.f_blocks * (uint64_t) sfs.f_bsize;
        rc = collect_directory(&w, from, c->dir, 0, 0);
    }

    if (rc == 0 && w.unnamed) {
        (void) json_array_append_new(c->skipped,
                                     json_pack("{s:s, s:i}", "reason", "more",
                                               "count", (int) w.unnamed));
    }

    if (from != -1) {
        (void) close(from);
    }

    if (rc != 0) {
        collect_undo(&w);
        (void) json_array_clear(c->artifacts);
        (void) json_array_clear(c->skipped);
        collect_drop(c);
    }

    while (w.nmade > 0) {
        free(w.made[--w.nmade].path);
    }

    return rc;
}


void
collect_drop(collect_t *c)
{
    if (c->dir != -1 && c->is_made) {
        (void) rmdir(c->path);
        c->is_made = false;
    }
}


void
collect_free(collect_t *c)
{
    if (c->dir != -1) {
        (void) close(c->dir);
        c->dir = -1;
    }

    json_decref(c->artifacts);
    json_decref(c->skipped);
    c->artifacts = NULL;
    c->skipped = NULL;
}


/* The names are sorted, so that the same files give the same result. */

static int
collect_directory(collect_walk_t *w, int from, int to, size_t len,
    unsigned depth)
{
    int      rc;
    char   **names;
    size_t   i, n, m;

    names = names_read(from, &n);

    if (names == NULL) {
        return collect_fault(w, w->path);
    }

    rc = 0;

    for (i = 0; i < n && rc == 0; i++) {
        m = strlen(names[i]);

        if (len + 1 + m > COLLECT_PATH_MAX) {
            w->path[len] = '\0';
            rc = collect_skip(w, "too_deep");
            continue;
        }

        if (len > 0) {
            w->path[len] = '/';
        }

        (void) memcpy(w->path + len + (len > 0), names[i], m + 1);

        rc = collect_entry(w, from, to, names[i], len + (len > 0) + m, depth);

        w->path[len] = '\0';
    }

    names_free(names, n);

    return rc;
}


static int
collect_entry(collect_walk_t *w, int from, int to, const char *name,
    size_t len, unsigned depth)
{
    int          rc, entry, in, below;
    struct stat  st;
    const char  *reason;

    entry = beneath_open(from, name, O_PATH);

    if (entry == -1 || fstat(entry, &st) != 0) {

        if (entry != -1) {
            (void) close(entry);
        }

        return collect_skip(w, errno == ELOOP ? "symlink" : "unreadable");
    }

    in = -1;
    below = -1;
    rc = 0;
    reason = NULL;

    switch (st.st_mode & S_IFMT) {

    case S_IFREG:
        in = beneath_read(from, name, entry, O_RDONLY|O_NONBLOCK|O_NOCTTY);

        if (in == -1 || fstat(in, &st) != 0 || !S_ISREG(st.st_mode)) {
            reason = "unreadable";

        } else {
            rc = collect_file(w, in, to, name, &st);
        }

        break;

    case S_IFDIR:

        if (depth + 1 == COLLECT_DEPTH_MAX) {
            reason = "too_deep";
            break;
        }

        if (w->ndirs == COLLECT_FILES_MAX) {
            reason = "too_many";
            break;
        }

        in = beneath_read(from, name, entry, O_RDONLY|O_DIRECTORY);

        if (in == -1) {
            reason = "unreadable";
            break;
        }

        w->ndirs++;

        if (mkdirat(to, name, 0700) != 0 || collect_made(w, true) != 0
            || (below = openat(to, name, O_RDONLY|O_DIRECTORY|O_NOFOLLOW
                                         |O_CLOEXEC)) == -1)
        {
            rc = collect_fault(w, w->path);
            break;
        }

        rc = collect_directory(w, in, below, len, depth + 1);
        break;

    case S_IFLNK:
        reason = "symlink";
        break;

    case S_IFIFO:
        reason = "fifo";
        break;

    case S_IFSOCK:
        reason = "socket";
        break;

    default:
        reason = "device";
        break;
    }

    if (in != -1) {
        (void) close(in);
    }

    if (below != -1) {
        (void) close(below);
    }

    (void) close(entry);

    return reason ? collect_skip(w, reason) : rc;
}


static int
collect_file(collect_walk_t *w, int in, int to, const char *name,
    const struct stat *st)
{
    int       rc, out;
    unsigned  i;

    if (w->nfiles == COLLECT_FILES_MAX
        || w->text + collect_text(w->path) > COLLECT_TEXT_MAX)
    {
        return collect_skip(w, "too_many");
    }

    if (st->st_nlink > 1) {

        for (i = 0; i < w->nlinked; i++) {
            if (w->linked[i] == st->st_ino) {
                return collect_skip(w, "hard_link");
            }
        }
    }

    if ((uint64_t) st->st_size > w->left) {
        return collect_skip(w, "too_large");
    }

    if (st->st_nlink > 1) {
        w->linked[w->nlinked++] = st->st_ino;
    }

    w->left -= (uint64_t) st->st_size;
    w->nfiles++;
    w->text += collect_text(w->path);

    out = openat(to, name, O_WRONLY|O_CREAT|O_EXCL|O_NOFOLLOW|O_CLOEXEC,
                 0600);

    if (out == -1) {
        return collect_fault(w, w->path);
    }

    rc = collect_made(w, false);

    if (rc == 0) {
        rc = collect_copy(w, in, out, name, (uint64_t) st->st_size);
    }

    /* a file system may say only now that it has no room */

    if (close(out) != 0 && rc == 0) {
        rc = collect_fault(w, w->path);
    }

    return rc;
}


/* Holes stay holes: the host's disk holds no more than the box's did. */

static int
collect_copy(collect_walk_t *w, int in, int out, const char *name,
    uint64_t size)
{
    char           hex[2 * SHA256_DIGEST_LENGTH + 1];
    size_t         head;
    ssize_t        n;
    json_t        *artifact;
    uint64_t       done;
    unsigned       i;
    const char    *type;
    SHA256_CTX     sha;
    unsigned char  digest[SHA256_DIGEST_LENGTH];

    static char        buf[65536];
    static const char  zeros[sizeof(buf)];

    (void) SHA256_Init(&sha);
    type = NULL;

    for (done = 0; done < size; done += (uint64_t) n) {
        n = read(in, buf, size - done < sizeof(buf) ? (size_t) (size - done)
                                                    : sizeof(buf));
        if (n == -1 && errno == EINTR) {
            n = 0;
            continue;
        }

        if (n <= 0) {
            errno = n == 0 ? EIO : errno;
            return collect_fault(w, w->path);
        }

        if (type == NULL) {
            head = n < KIND_HEAD ? (size_t) n : KIND_HEAD;
            type = kind_of(name, (unsigned char *) buf, head);
        }

        (void) SHA256_Update(&sha, buf, (size_t) n);

        if (memcmp(buf, zeros, (size_t) n) == 0
            ? lseek(out, n, SEEK_CUR) == -1
            : collect_write(out, buf, (size_t) n) != 0)
        {
            return collect_fault(w, w->path);
        }
    }

    if (ftruncate(out, (off_t) size) != 0) {
        return collect_fault(w, w->path);
    }

    (void) SHA256_Final(digest, &sha);

    for (i = 0; i < sizeof(digest); i++) {
        (void) sprintf(hex + 2 * i, "%02x", digest[i]);
    }

    if (type == NULL) {
        type = kind_of(name, NULL, 0);
    }

    artifact = json_pack("{s:o, s:I, s:s, s:s}",
                         "name", collect_name(w->path),
                         "bytes", (json_int_t) size,
                         "sha256", hex,
                         "type", type);

    if (artifact == NULL
        || json_array_append_new(w->collect->artifacts, artifact) != 0)
    {
        errno = ENOMEM;
        return collect_fault(w, w->path);
    }

    return 0;
}


static int
collect_write(int out, const char *buf, size_t n)
{
    ssize_t  rc;

    while (n > 0) {
        rc = write(out, buf, n);

        if (rc == -1 && errno == EINTR) {
            continue;
        }

        if (rc == -1) {
            return -1;
        }

        buf += rc;
        n -= (size_t) rc;
    }

    return 0;
}


static int
collect_made(collect_walk_t *w, bool is_dir)
{
    char  *path;

    path = strdup(w->path);

    if (path == NULL) {
        return collect_fault(w, w->path);
    }

    w->made[w->nmade++] = (collect_made_t) { path, is_dir };

    return 0;
}


static void
collect_undo(collect_walk_t *w)
{
    unsigned               i;
    const collect_made_t  *made;

    for (i = w->nmade; i > 0; i--) {
        made = &w->made[i - 1];
        (void) unlinkat(w->collect->dir, made->path,
                        made->is_dir ? AT_REMOVEDIR : 0);
    }
}


static int
collect_skip(collect_walk_t *w, const char *reason)
{
    w->skipped_text += collect_text(w->path);

    if (json_array_size(w->collect->skipped) >= COLLECT_SKIPPED_MAX
        || w->skipped_text > COLLECT_TEXT_MAX)
    {
        w->unnamed++;

    } else {
        (void) json_array_append_new(w->collect->skipped,
                                     json_pack("{s:o, s:s}",
                                               "name", collect_name(w->path),
                                               "reason", reason));
    }

    return 0;
}


static int
collect_fault(collect_walk_t *w, const char *what)
{
    char  name[240];
    int   err;

    err = errno;
    utf8_escape(what, name, sizeof(name));

    return fault_set(w->fault, STAGE_OUT, err,
                     "\"%s\" cannot be taken into the directory of --out",
                     name);
}


/* As it may be shown on a terminal. */

static json_t *
collect_name(const char *path)
{
    char  name[4 * COLLECT_PATH_MAX + 1];

    utf8_escape(path, name, sizeof(name));

    return json_string(name);
}


static size_t
collect_text(const char *path)
{
    char  name[4 * COLLECT_PATH_MAX + 1];

    utf8_escape(path, name, sizeof(name));

    return strlen(name);
}
