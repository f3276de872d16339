/*
 * Copying a workspace back, when no process of the box is left.
 *
 * First all changes are found; a change that the rules refuse is reported and
 * not made.  Then every new file is written into a staging directory in the
 * workspace, so that a full disk changes nothing.  Only then names change,
 * each atomically by rename: removed paths go, the innermost first, then new
 * ones come, the outermost first.
 *
 * The host's side is opened like the box's, never through a link, and a path
 * that somebody else has changed since the copy was made is not overwritten.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "files/beneath.h"
#include "files/copy.h"
#include "files/workspace.h"
#include "shared/utf8.h"


#define WORKSPACE_IN  "/run/task/in/"   /* where links to --in files lead */

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE  (1 << 0)
#endif


typedef struct {
    const tree_entry_t  *old;           /* NULL: it is new */
    const tree_entry_t  *new;           /* NULL: it is gone */
    bool                 is_staged;
} back_change_t;


typedef struct {
    workspace_t    *workspace;
    fault_t        *fault;
    tree_t          after;
    int             work;
    int             staging;
    mode_t          umask;
    back_change_t  *changes;            /* in the order of the trees */
    size_t          n;
    size_t          text;               /* bytes of names in the result */
    unsigned        cut;                /* names left out of the result */
} back_t;


static int workspace_plan(back_t *b);
static void workspace_judge(back_t *b, const tree_entry_t *old,
    const tree_entry_t *new);
static bool workspace_is_beneath(const char *path, const char *dir);
static int workspace_stage(back_t *b);
static int workspace_stage_file(back_t *b, const back_change_t *c,
    const char *name);
static void workspace_unstage(back_t *b);
static void workspace_apply(back_t *b);
static int workspace_remove(back_t *b, const tree_entry_t *old);
static int workspace_put(back_t *b, const back_change_t *c,
    const char *name);
static const char *workspace_conflict(back_t *b, const tree_entry_t *old,
    const tree_entry_t *new);
static void workspace_tell(back_t *b, const char *list,
    const tree_entry_t *e, const char *reason);
static int workspace_fault(back_t *b, const char *path);


int
workspace_take(workspace_t *w, int work, fault_t *fault)
{
    int            rc;
    back_t         b;
    struct statfs  sfs;

    w->result = json_pack("{s:b, s:[], s:[], s:[], s:[], s:i}", "copied", 0,
                          "changed", "added", "removed", "refused",
                          "more", 0);

    if (w->result == NULL) {
        return fault_set(fault, STAGE_WORKSPACE, ENOMEM, "no memory");
    }

    if (work == -1) {
        return 0;
    }

    b = (back_t) {
        .workspace = w, .fault = fault, .work = work, .staging = -1,
        .after = { .content = -1 }, .umask = umask(0)
    };

    (void) umask(b.umask);

    if (fstatfs(work, &sfs) != 0
        || tree_read(&b.after, work,
                     (uint64_t) sfs.f_blocks * (uint64_t) sfs.f_bsize, -1)
           != 0)
    {
        rc = workspace_fault(&b, b.after.path);

    } else {
        rc = workspace_plan(&b);
    }

    if (rc == 0) {
        rc = workspace_stage(&b);
    }

    if (rc == 0) {
        workspace_apply(&b);

        (void) json_object_set_new(w->result, "copied", json_true());
        (void) json_object_set_new(w->result, "more",
                                   json_integer(b.cut));
    }

    workspace_unstage(&b);
    tree_free(&b.after);
    free(b.changes);

    return rc;
}


/* Both lists have the same order. */

static int
workspace_plan(back_t *b)
{
    int                  rc;
    size_t               i, k;
    const char          *hidden, *reason;
    const tree_t        *before;
    const tree_entry_t  *old, *new;

    before = &b->workspace->before;
    b->changes = calloc(before->n + b->after.n + 1, sizeof(back_change_t));

    if (b->changes == NULL) {
        return workspace_fault(b, "");
    }

    hidden = NULL;
    reason = NULL;

    for (i = 0, k = 0; i < before->n || k < b->after.n; /* void */) {

        rc = i == before->n ? 1 : k == b->after.n ? -1
             : tree_compare(before->entries[i].path,
                            b->after.entries[k].path);

        old = rc <= 0 ? &before->entries[i++] : NULL;
        new = rc >= 0 ? &b->after.entries[k++] : NULL;

        if (new && new->refused) {
            hidden = new->path;
            reason = new->refused;
            workspace_tell(b, "refused", new, reason);

        } else if (old && old->refused) {

            /* the box did not get it, so it was not removed */

            if (new) {
                workspace_tell(b, "refused", new, "conflict");
            }

        } else if (new == NULL && hidden
                   && workspace_is_beneath(old->path, hidden))
        {

            /* not removed: it is in a directory that could not be read */

            workspace_tell(b, "refused", old, reason);

        } else if (old == NULL || new == NULL || !tree_same(old, new)) {
            workspace_judge(b, old, new);
        }
    }

    return 0;
}


static void
workspace_judge(back_t *b, const tree_entry_t *old, const tree_entry_t *new)
{
    const char          *reason;
    const tree_entry_t  *e;

    e = new ? new : old;
    reason = NULL;

    if (old == NULL && new && new->type == S_IFLNK
        && strchr(new->path, '/') == NULL
        && strncmp(new->target, WORKSPACE_IN, sizeof(WORKSPACE_IN) - 1) == 0)
    {
        return;
    }

    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): one is there */
    if (workspace_runs_code(e->path, e->type)
        || (old && workspace_runs_code(old->path, old->type))
        || (new && workspace_makes_repository(&b->workspace->before,
                                              &b->after, new->path)))
    {
        reason = "runs_code";

    } else if (new && new->type == S_IFLNK
               && !workspace_link_is_inside(new->path, new->target))
    {
        reason = "leads_outside";

    } else {
        reason = workspace_conflict(b, old, new);
    }

    if (reason) {
        workspace_tell(b, "refused", e, reason);
        return;
    }

    b->changes[b->n++] = (back_change_t) { .old = old, .new = new };
}


static bool
workspace_is_beneath(const char *path, const char *dir)
{
    size_t  n;

    n = strlen(dir);

    return strncmp(path, dir, n) == 0 && path[n] == '/';
}


static int
workspace_stage(back_t *b)
{
    int                   rc;
    char                  name[24];
    size_t                i;
    const back_change_t  *c;

    for (i = 0; i < b->n; i++) {
        c = &b->changes[i];

        if (c->new == NULL || c->new->type == S_IFDIR) {
            continue;
        }

        if (b->staging == -1) {

            if (mkdirat(b->workspace->dir, WORKSPACE_STAGING, 0700) != 0) {
                return workspace_fault(b, WORKSPACE_STAGING);
            }

            b->staging = beneath_open(b->workspace->dir, WORKSPACE_STAGING,
                                      O_RDONLY|O_DIRECTORY);

            if (b->staging == -1) {
                return workspace_fault(b, WORKSPACE_STAGING);
            }
        }

        (void) sprintf(name, "%zu", i);
        b->changes[i].is_staged = true;

        rc = c->new->type == S_IFLNK
             ? symlinkat(c->new->target, b->staging, name)
             : workspace_stage_file(b, c, name);

        if (rc != 0) {
            return workspace_fault(b, c->new->path);
        }
    }

    return 0;
}


/* The permissions to read and write stay; a set-user-id bit is not copied. */

static int
workspace_stage_file(back_t *b, const back_change_t *c, const char *name)
{
    int              in, out;
    mode_t           mode;
    uint64_t         size;
    struct timespec  times[2];

    in = beneath_open(b->work, c->new->path, O_RDONLY|O_NONBLOCK|O_NOCTTY);
    out = openat(b->staging, name, O_WRONLY|O_CREAT|O_EXCL|O_NOFOLLOW
                                   |O_CLOEXEC, 0600);

    if (in == -1 || out == -1) {
        goto failed;
    }

    if (copy_file(in, out, c->new->size, &size, NULL) != COPY_OK) {
        goto failed;
    }

    if (size != c->new->size) {
        errno = EIO;
        goto failed;
    }

    mode = c->old && c->old->type == S_IFREG ? c->old->mode & 0666
                                             : 0666 & ~b->umask;

    if (c->new->mode & S_IXUSR) {
        mode |= (mode & 0444) >> 2;
    }

    times[0] = c->new->mtime;
    times[1] = c->new->mtime;

    if (fchmod(out, mode) != 0 || futimens(out, times) != 0) {
        goto failed;
    }

    (void) close(in);

    return close(out);

failed:

    beneath_close(in);
    beneath_close(out);

    return -1;
}


static void
workspace_unstage(back_t *b)
{
    char    name[24];
    size_t  i;

    if (b->staging == -1) {
        return;
    }

    for (i = 0; i < b->n; i++) {
        if (b->changes[i].is_staged) {
            (void) sprintf(name, "%zu", i);
            (void) unlinkat(b->staging, name, 0);
        }
    }

    (void) close(b->staging);
    (void) unlinkat(b->workspace->dir, WORKSPACE_STAGING, AT_REMOVEDIR);
}


/* From here on a failure is reported for its path, and the others go on. */

static void
workspace_apply(back_t *b)
{
    char            name[24];
    size_t          i;
    const char     *why;
    back_change_t  *c;

    for (i = b->n; i > 0; i--) {
        c = &b->changes[i - 1];

        if (c->new == NULL) {
            why = workspace_conflict(b, c->old, NULL);

            if (why == NULL && workspace_remove(b, c->old) != 0) {
                why = errno == ENOTEMPTY ? "not_empty"
                                         : fault_errno_name(errno);
            }

            workspace_tell(b, why ? "refused" : "removed", c->old, why);
        }
    }

    for (i = 0; i < b->n; i++) {
        c = &b->changes[i];

        if (c->new) {
            (void) sprintf(name, "%zu", i);
            why = workspace_conflict(b, c->old, c->new);

            if (why == NULL && workspace_put(b, c, name) != 0) {
                why = fault_errno_name(errno);
            }

            workspace_tell(b, why ? "refused" : c->old ? "changed" : "added",
                      c->new, why);
        }
    }
}


static int
workspace_remove(back_t *b, const tree_entry_t *old)
{
    int          rc, parent;
    const char  *name;

    parent = beneath_parent(b->workspace->dir, old->path, &name);

    if (parent == -1) {
        return -1;
    }

    rc = unlinkat(parent, name, old->type == S_IFDIR ? AT_REMOVEDIR : 0);

    beneath_close(parent);

    return rc;
}


/* A path of another type is removed first: rename does not replace it. */

static int
workspace_put(back_t *b, const back_change_t *c, const char *staged)
{
    int          rc, parent;
    const char  *name;

    if (c->old && (c->old->type == S_IFDIR) != (c->new->type == S_IFDIR)
        && workspace_remove(b, c->old) != 0)
    {
        return -1;
    }

    parent = beneath_parent(b->workspace->dir, c->new->path, &name);

    if (parent == -1) {
        return -1;
    }

    if (c->new->type == S_IFDIR) {
        rc = mkdirat(parent, name, 0777 & ~b->umask);

    } else if (c->old) {
        rc = renameat(b->staging, staged, parent, name);

    } else {
        rc = renameat2(b->staging, staged, parent, name, RENAME_NOREPLACE);

        if (rc != 0 && errno == EINVAL) {       /* not all file systems */
            rc = renameat(b->staging, staged, parent, name);
        }
    }

    beneath_close(parent);

    return rc;
}


/* The host must still have there what the box's copy was made of. */

static const char *
workspace_conflict(back_t *b, const tree_entry_t *old, const tree_entry_t *new)
{
    int          rc, parent;
    const char  *name, *path;
    struct stat  st;

    /* cppcheck-suppress nullPointer; at least one of them is there */
    path = old ? old->path : new->path; /* NOLINT: the same */
    parent = beneath_parent(b->workspace->dir, path, &name);

    if (parent == -1) {

        /* its parent may be new as well, and not be made yet */

        return old == NULL && (errno == ENOENT || errno == ENOTDIR
                               || errno == ELOOP)
               ? NULL : "conflict";
    }

    rc = fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW);
    beneath_close(parent);

    if (old == NULL) {
        return rc == -1 && errno == ENOENT ? NULL : "conflict";
    }

    if (rc == -1 || (st.st_mode & S_IFMT) != old->type) {
        return "conflict";
    }

    if (old->type == S_IFDIR) {
        return NULL;
    }

    return st.st_ino == old->ino
           && st.st_mtim.tv_sec == old->mtime.tv_sec
           && st.st_mtim.tv_nsec == old->mtime.tv_nsec
           ? NULL : "conflict";
}


/* A directory's name ends with "/"; names are escaped for a terminal. */

static void
workspace_tell(back_t *b, const char *list, const tree_entry_t *e,
    const char *reason)
{
    char     name[4 * TREE_PATH_MAX + 2];
    json_t  *array, *value;

    array = json_object_get(b->workspace->result, list);
    utf8_escape(e->path, name, sizeof(name) - 1);

    if (json_array_size(array) >= WORKSPACE_NAMES_MAX
        || b->text + strlen(name) > WORKSPACE_TEXT_MAX)
    {
        b->cut++;
        return;
    }

    b->text += strlen(name);

    if (e->type == S_IFDIR) {
        (void) strcat(name, "/");
    }

    value = reason ? json_pack("{s:s, s:s}", "name", name, "reason", reason)
                   : json_string(name);

    (void) json_array_append_new(array, value);
}


static int
workspace_fault(back_t *b, const char *path)
{
    int   err;
    char  name[240];

    err = errno;
    utf8_escape(path, name, sizeof(name));

    return fault_set(b->fault, STAGE_WORKSPACE, err,
                     "\"%s\" of the workspace cannot be copied back",
                     name[0] ? name : ".");
}
