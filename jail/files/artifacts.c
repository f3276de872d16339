/*
 * Taking a task's files out of its box.
 *
 * The tmpfs is reached by the descriptor of its mount, which the launcher got
 * before the task ran; by now the box's mount namespace is gone, and nothing
 * is mounted on the host for this.  No process of the box is left, so nothing
 * can be exchanged while it is looked at; even so the walk follows no link,
 * does not leave the directory and crosses no mount.
 *
 * Each file it writes is new (O_EXCL), accessible to the caller only (0600),
 * and all together have no more bytes than the tmpfs could hold, whatever sizes
 * sparse files claim.  The lists in the result are bounded as well: the task
 * chooses the names, and a result is often read by a model.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "files/artifacts.h"
#include "files/beneath.h"
#include "files/copy.h"
#include "files/directory.h"
#include "files/media_type.h"
#include "files/walk.h"
#include "shared/utf8.h"


typedef struct {
    artifacts_t  *artifacts;
    fault_t      *fault;
    uint64_t      left;                 /* bytes that may still be taken */
    unsigned      nfiles;
    unsigned      ndirs;
    ino_t         linked[ARTIFACTS_FILES_MAX];
    unsigned      nlinked;
    char         *made[2 * ARTIFACTS_FILES_MAX];
    unsigned      nmade;
    size_t        text;                 /* bytes of the artifacts' names */
    size_t        skipped_text;
    unsigned      unnamed;              /* skipped, but not in the list */

    /* of the entry: its path as it may be shown on a terminal */
    char          name[4 * WALK_PATH_MAX + 1];
} artifacts_walk_t;


static int artifacts_visit(walk_t *walk, walk_entry_t *e);
static const char *artifacts_refusal(artifacts_walk_t *w,
    const walk_entry_t *e);
static int artifacts_make(artifacts_walk_t *w, const char *path, bool is_dir);
static int artifacts_copy(artifacts_walk_t *w, const walk_entry_t *e, int out);
static void artifacts_skip(artifacts_walk_t *w, const char *reason);
static int artifacts_fault(artifacts_walk_t *w, const char *what);


int
artifacts_prepare(artifacts_t *a, const char *path, fault_t *fault)
{
    int               n;
    struct stat       st;
    struct dirent   **entries;

    a->path = path;
    a->is_made = (mkdir(path, 0700) == 0);

    if (!a->is_made && errno != EEXIST) {
        return fault_set(fault, STAGE_OUT, errno,
                         "the directory %.200s cannot be created", path);
    }

    a->dir = open(path, O_RDONLY|O_DIRECTORY|O_NOFOLLOW|O_CLOEXEC);

    if (a->dir == -1 || fstat(a->dir, &st) != 0) {
        return fault_set(fault, STAGE_OUT, errno,
                         "%.200s cannot be opened as a directory", path);
    }

    if (a->is_made) {
        return 0;
    }

    n = directory_read(a->dir, &entries);

    if (n == -1) {
        return fault_set(fault, STAGE_OUT, errno, "%.200s cannot be listed",
                         path);
    }

    directory_free(entries, n);

    if (n > 0) {
        return fault_set_cause(fault, STAGE_OUT, ENOTEMPTY,
                               CAUSE_OUT_NOT_EMPTY,
                               "%.200s must not exist, or must be empty", path);
    }

    if (st.st_uid != geteuid()) {
        return fault_set(fault, STAGE_OUT, EPERM,
                         "%.200s belongs to another user", path);
    }

    return 0;
}


int
artifacts_take(artifacts_t *a, int mount, fault_t *fault)
{
    int                      rc, from;
    walk_t                   walk;
    struct statfs            sfs;
    static artifacts_walk_t  w;

    a->artifacts = json_array();
    a->skipped = json_array();

    w.artifacts = a;
    w.fault = fault;

    walk = (walk_t) {
        .visit = artifacts_visit, .data = &w,
        .depth_max = ARTIFACTS_DEPTH_MAX, .is_left_by_task = true
    };

    from = beneath_open(mount, ".", O_RDONLY|O_DIRECTORY);

    if (from == -1 || fstatfs(from, &sfs) != 0 || a->artifacts == NULL
        || a->skipped == NULL)
    {
        rc = artifacts_fault(&w, "/run/task/out");

    } else {
        w.left = (uint64_t) sfs.f_blocks * (uint64_t) sfs.f_bsize;
        rc = walk_below(&walk, from);

        if (rc != 0) {
            (void) artifacts_fault(&w, walk.path);
        }
    }

    if (rc == 0 && w.unnamed) {
        (void) json_array_append_new(a->skipped,
                                     json_pack("{s:s, s:i}", "reason", "more",
                                               "count", (int) w.unnamed));
    }

    if (from != -1) {
        (void) close(from);
    }

    while (w.nmade > 0) {
        w.nmade--;

        if (rc != 0 && unlinkat(a->dir, w.made[w.nmade], 0) != 0) {
            (void) unlinkat(a->dir, w.made[w.nmade], AT_REMOVEDIR);
        }

        free(w.made[w.nmade]);
    }

    if (rc != 0) {
        (void) json_array_clear(a->artifacts);
        (void) json_array_clear(a->skipped);
        artifacts_drop(a);
    }

    return rc;
}


void
artifacts_drop(artifacts_t *a)
{
    if (a->dir != -1 && a->is_made) {
        (void) rmdir(a->path);
        a->is_made = false;
    }
}


void
artifacts_free(artifacts_t *a)
{
    if (a->dir != -1) {
        (void) close(a->dir);
        a->dir = -1;
    }

    json_decref(a->artifacts);
    json_decref(a->skipped);
    a->artifacts = NULL;
    a->skipped = NULL;
}


static int
artifacts_visit(walk_t *walk, walk_entry_t *e)
{
    int                rc, out;
    artifacts_walk_t  *w;

    w = walk->data;
    utf8_escape(walk->path, w->name, sizeof(w->name));

    if (e->refused == NULL) {
        e->refused = artifacts_refusal(w, e);
    }

    if (e->refused) {
        artifacts_skip(w, e->refused);
        return 0;
    }

    if (S_ISDIR(e->st.st_mode)) {
        w->ndirs++;
        return artifacts_make(w, walk->path, true);
    }

    if (e->st.st_nlink > 1) {
        w->linked[w->nlinked++] = e->st.st_ino;
    }

    w->left -= (uint64_t) e->st.st_size;
    w->text += strlen(w->name);
    w->nfiles++;

    out = artifacts_make(w, walk->path, false);

    if (out == -1) {
        return -1;
    }

    rc = artifacts_copy(w, e, out);

    /* a file system may report only now that it is full */

    return close(out) == 0 ? rc : -1;
}


/* Why an entry is not taken, or NULL. */

static const char *
artifacts_refusal(artifacts_walk_t *w, const walk_entry_t *e)
{
    unsigned  i;

    switch (e->st.st_mode & S_IFMT) {

    case S_IFDIR:
        return w->ndirs == ARTIFACTS_FILES_MAX ? "too_many" : NULL;

    case S_IFREG:
        break;

    case S_IFLNK:
        return "symlink";

    case S_IFIFO:
        return "fifo";

    case S_IFSOCK:
        return "socket";

    default:
        return "device";
    }

    if (w->nfiles == ARTIFACTS_FILES_MAX
        || w->text + strlen(w->name) > ARTIFACTS_TEXT_MAX)
    {
        return "too_many";
    }

    for (i = 0; i < w->nlinked; i++) {
        if (w->linked[i] == e->st.st_ino) {
            return "hard_link";
        }
    }

    return (uint64_t) e->st.st_size > w->left ? "too_large" : NULL;
}


/*
 * Makes a directory, and returns 0, or a file, and returns its descriptor.  It
 * is remembered, to be removed if another file cannot be taken.
 */

static int
artifacts_make(artifacts_walk_t *w, const char *path, bool is_dir)
{
    int          rc, parent;
    const char  *name;

    parent = beneath_parent(w->artifacts->dir, path, &name);

    if (parent == -1) {
        return -1;
    }

    w->made[w->nmade] = strdup(path);

    if (w->made[w->nmade] == NULL) {
        rc = -1;

    } else if (is_dir) {
        rc = mkdirat(parent, name, 0700);

    } else {
        rc = openat(parent, name, O_WRONLY|O_CREAT|O_EXCL|O_NOFOLLOW|O_CLOEXEC,
                    0600);
    }

    beneath_close(parent);

    if (rc != -1) {
        w->nmade++;

    } else {
        free(w->made[w->nmade]);
    }

    return rc;
}


/* Holes stay holes: the host's disk holds no more than the box's did. */

static int
artifacts_copy(artifacts_walk_t *w, const walk_entry_t *e, int out)
{
    char           text[COPY_HASH_LEN + 1];
    ssize_t        n;
    json_t        *artifact;
    uint64_t       size;
    unsigned char  hash[SHA256_DIGEST_LENGTH], head[MEDIA_TYPE_HEAD];

    n = pread(e->fd, head, sizeof(head), 0);

    if (n == -1
        || copy_file(e->fd, out, (uint64_t) e->st.st_size, &size, hash)
           != COPY_OK)
    {
        return -1;
    }

    if (size != (uint64_t) e->st.st_size) {
        errno = EIO;
        return -1;
    }

    copy_hash_text(hash, text);

    artifact = json_pack("{s:s, s:I, s:s, s:s}",
                         "name", w->name,
                         "bytes", (json_int_t) size,
                         "sha256", text,
                         "type", media_type_of(e->name, head, (size_t) n));

    if (json_array_append_new(w->artifacts->artifacts, artifact) != 0) {
        errno = ENOMEM;
        return -1;
    }

    return 0;
}


static void
artifacts_skip(artifacts_walk_t *w, const char *reason)
{
    w->skipped_text += strlen(w->name);

    if (json_array_size(w->artifacts->skipped) >= ARTIFACTS_SKIPPED_MAX
        || w->skipped_text > ARTIFACTS_TEXT_MAX)
    {
        w->unnamed++;

    } else {
        (void) json_array_append_new(w->artifacts->skipped,
                                     json_pack("{s:s, s:s}",
                                               "name", w->name,
                                               "reason", reason));
    }
}


static int
artifacts_fault(artifacts_walk_t *w, const char *what)
{
    char  name[240];
    int   err;

    err = errno;
    utf8_escape(what, name, sizeof(name));

    return fault_set(w->fault, STAGE_OUT, err,
                     "\"%s\" cannot be copied into the directory of --out",
                     name);
}
