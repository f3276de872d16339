/*
 * All that can be known of a box's file system before the box exists: which
 * of the host's files there are, what they are, what the policy adds, what is
 * copied from where.  Decided here, in the launcher, so that the child between
 * clone and exec has nothing to decide: it carries out a list.
 *
 * It opens nothing of the host's: that is left to the child, which has the
 * box's rights only.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "box/mount_table.h"
#include "box/plan.h"
#include "box/plan_trust.h"


#define PLAN_ROOT_BYTES  (8ull << 20)   /* without the task's files */
#define PLAN_SMALL       4096           /* a mount is cheaper than two pages */
#define PLAN_PATH_MAX    512

#define PLAN_ROWS  (sizeof(mount_table) / sizeof(mount_table[0]))

#define PLAN_PATHS_MAX   (BOX_WRITABLE_MAX + BOX_READABLE_MAX + 2)


/* What the policy adds. */

typedef struct {
    const char  *path;          /* where it is mounted */
    const char  *make;          /* a directory in it to be made, or NULL */
    uint64_t     bytes;         /* 0: the host's, read-only */
    unsigned     disk;          /* its place among the writable ones */
} plan_path_t;


static bool plan_is_policy(const mount_row_t *row);
static int plan_rows(box_spec_t *spec, size_t end, fault_t *fault);
static int plan_row(box_spec_t *spec, const mount_row_t *row);
static void plan_text(mount_list_t *list, const char *path, const char *text);
static int plan_host(mount_list_t *list, const char *path, bool optional);
static int plan_link(mount_list_t *list, const char *path, const char *host);
static int plan_git(box_spec_t *spec, const char *path);
static unsigned plan_policy(const box_spec_t *spec,
    plan_path_t paths[PLAN_PATHS_MAX]);
static int plan_path(mount_list_t *list, const plan_path_t *p);
static void plan_unpack(box_spec_t *spec);
static void plan_given(box_spec_t *spec);


int
plan_begin(box_spec_t *spec, fault_t *fault)
{
    size_t  n;

    for (n = 0; n < PLAN_ROWS && !plan_is_policy(&mount_table[n]); n++) {
        /* void */
    }

    return plan_rows(spec, n, fault);
}


int
plan_make(box_spec_t *spec, fault_t *fault)
{
    size_t       i, n;
    plan_path_t  paths[PLAN_PATHS_MAX];

    if (plan_rows(spec, PLAN_ROWS, fault) != 0) {
        return -1;
    }

    n = plan_policy(spec, paths);

    for (i = 0; i < n; i++) {
        if (plan_path(&spec->system, &paths[i]) != 0) {
            return fault_set(fault, STAGE_MOUNT, errno,
                             errno == EINVAL
                             ? "%s is neither a file nor a directory"
                             : "%s", paths[i].path);
        }
    }

    plan_unpack(spec);
    plan_given(spec);

    if (spec->system.is_cut || spec->unpack.is_cut || spec->given.is_cut) {
        return fault_set(fault, STAGE_MOUNT, ENOMEM, "no memory");
    }

    return 0;
}


void
plan_free(box_spec_t *spec)
{
    mount_list_free(&spec->system);
    mount_list_free(&spec->unpack);
    mount_list_free(&spec->given);
}


static bool
plan_is_policy(const mount_row_t *row)
{
    return row->kind == M_ONLINE || row->kind == M_OFFLINE
           || row->kind == M_GIT || row->kind == M_TRUST
           || row->kind == M_TRUST_NAMES || row->kind == M_SHM;
}


static int
plan_rows(box_spec_t *spec, size_t end, fault_t *fault)
{
    for ( /* void */ ; spec->planned < end; spec->planned++) {
        if (plan_row(spec, &mount_table[spec->planned]) != 0) {
            return fault_set(fault, STAGE_MOUNT, errno,
                             "/%s of the box cannot be made",
                             mount_table[spec->planned].path);
        }
    }

    return 0;
}


static int
plan_row(box_spec_t *spec, const mount_row_t *row)
{
    int            rc;
    mount_list_t  *list;

    list = &spec->system;

    switch (row->kind) {

    case M_ONLINE:
    case M_OFFLINE:
        if ((row->kind == M_ONLINE) != (spec->ndoors > 0)) {
            return 0;
        }

        /* fall through */

    case M_TEXT:
        plan_text(list, row->path, row->arg);
        return 0;

    case M_SYSTEM:
        return plan_host(list, row->path, true);

    case M_GIT:
        return plan_git(spec, row->path);

    case M_TRUST:
        rc = plan_trust_files(list, &spec->trust);
        return rc == 1 ? plan_host(list, row->path, true) : rc;

    case M_TRUST_NAMES:
        plan_trust_names(list, &spec->trust);
        return 0;

    case M_SHM:
        mount_list_add(list, (mount_op_t) {
            .kind = M_DISK, .path = row->path, .mode = row->mode,
            .number = BOX_DISK_SHM, .size = spec->memory / 2,
            .flags = MS_NOSUID|MS_NODEV|MS_NOEXEC
        });
        return 0;

    default:
        mount_list_add(list, (mount_op_t) {
            .kind = row->kind, .path = row->path, .arg = row->arg,
            .len = row->arg ? strlen(row->arg) : 0,
            .mode = row->mode, .number = row->number
        });
        return 0;
    }
}


static void
plan_text(mount_list_t *list, const char *path, const char *text)
{
    mount_list_add(list, (mount_op_t) {
        .kind = M_FILE, .path = path, .mode = 0444, .fd = -1,
        .arg = text, .len = strlen(text)
    });
}


/*
 * A part of the host's file system, read-only, at the same place.  A link
 * stays one if what it leads to is in the box as well.  A short file is
 * copied, which is cheaper than a mount and its end.
 */

static int
plan_host(mount_list_t *list, const char *path, bool optional)
{
    int          rc;
    char         host[PLAN_PATH_MAX];
    struct stat  st;

    if (snprintf(host, sizeof(host), "/%s", path) >= (int) sizeof(host)) {
        errno = ENAMETOOLONG;
        return -1;
    }

    if (lstat(host, &st) != 0) {
        return optional && errno == ENOENT ? 0 : -1;
    }

    if (S_ISLNK(st.st_mode)) {
        rc = optional ? plan_link(list, path, host) : 1;

        if (rc != 1) {
            return rc;
        }

        if (stat(host, &st) != 0) {
            return optional && errno == ENOENT ? 0 : -1;
        }
    }

    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
        errno = EINVAL;
        return -1;
    }

    if (S_ISREG(st.st_mode) && optional && st.st_size <= PLAN_SMALL) {
        mount_list_add(list, (mount_op_t) {
            .kind = M_FILE, .path = path, .mode = 0444,
            .host = mount_list_text(list, "%s", host),
            .size = (uint64_t) st.st_size
        });

    } else {
        mount_list_add(list, (mount_op_t) {
            .kind = M_BIND, .path = path, .mode = st.st_mode & S_IFMT
        });
    }

    return 0;
}


/* 1: what it leads to is not in the box. */

static int
plan_link(mount_list_t *list, const char *path, const char *host)
{
    bool        is_there;
    char        target[PLAN_PATH_MAX];
    size_t      i;
    ssize_t     n;

    static const char *const  there[] = {
        "/usr/", "../usr/", "/etc/alternatives/"
    };

    n = readlink(host, target, sizeof(target) - 1);

    if (n == -1) {
        return -1;
    }

    target[n] = '\0';

    is_there = strncmp(path, "etc/", 4) != 0;

    for (i = 0; i < sizeof(there) / sizeof(there[0]); i++) {
        is_there |= strncmp(target, there[i], strlen(there[i])) == 0;
    }

    if (!is_there) {
        return 1;
    }

    mount_list_add(list, (mount_op_t) {
        .kind = M_LINK, .path = path,
        .arg = mount_list_text(list, "%s", target)
    });

    return 0;
}


/*
 * git works in no repository of another user's, lest that user's hooks are
 * run.  In a box all that is readable is the policy's choice, and what it
 * shares is often another's.  A file and not variables: git keeps those from
 * the programs it starts for a clone, which look for the .git itself.
 */

static int
plan_git(box_spec_t *spec, const char *path)
{
    char        *text;
    FILE        *f;
    size_t       len;
    unsigned     i;
    const char  *p;

    f = open_memstream(&text, &len);

    if (f == NULL) {
        return -1;
    }

    (void) fputs("[safe]\n\tdirectory = " BOX_WORK "\n", f);

    for (i = 0; i < spec->nreadable * 2; i++) {
        (void) fputs("\tdirectory = \"", f);

        for (p = spec->readable[i / 2]; *p; p++) {
            (void) fprintf(f, *p == '"' || *p == '\\' ? "\\%c" : "%c", *p);
        }

        (void) fputs(i % 2 ? "/.git\"\n" : "\"\n", f);
    }

    if (fclose(f) != 0) {
        return -1;
    }

    plan_text(&spec->system, path,
              mount_list_text(&spec->system, "%s", text));
    free(text);

    return 0;
}


/*
 * What is above comes first, or it would hide what is below: a readable
 * directory may hold a writable one, and the other way round.
 *
 * Unless the policy gives /tmp a size of its own, it shares the working
 * directory's: a temporary file then has all the room the policy gives.
 */

static unsigned
plan_policy(const box_spec_t *spec, plan_path_t paths[PLAN_PATHS_MAX])
{
    unsigned     i, k, n;
    uint64_t     work, out;
    plan_path_t  path;

    work = BOX_WORK_BYTES;
    out = spec->nwritable ? spec->writable[0].bytes : BOX_WORK_BYTES;

    for (i = 0; i < spec->nwritable; i++) {
        if (strcmp(spec->writable[i].path, BOX_WORK) == 0) {
            work = spec->writable[i].bytes;
        }
    }

    n = 0;

    paths[n++] = box_has_tmp(spec)
                 ? (plan_path_t) { BOX_WORK, NULL, work, BOX_DISK_WORK }
                 : (plan_path_t) { "/tmp", BOX_WORK, work, BOX_DISK_WORK };

    paths[n++] = (plan_path_t) { "/run/task/out", NULL, out, BOX_DISK_OUT };

    for (i = 0; i < spec->nwritable; i++) {
        if (strcmp(spec->writable[i].path, BOX_WORK) != 0) {
            paths[n] = (plan_path_t) { spec->writable[i].path, NULL,
                                       spec->writable[i].bytes, n + 1 };
            n++;
        }
    }

    for (i = 0; i < spec->nreadable; i++) {
        paths[n++] = (plan_path_t) { spec->readable[i], NULL, 0, 0 };
    }

    for (i = 1; i < n; i++) {
        path = paths[i];

        for (k = i; k > 0 && strlen(paths[k - 1].path) > strlen(path.path);
             k--)
        {
            paths[k] = paths[k - 1];
        }

        paths[k] = path;
    }

    return n;
}


static int
plan_path(mount_list_t *list, const plan_path_t *p)
{
    if (strlen(p->path) > PLAN_PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }

    mount_list_add(list, (mount_op_t) {
        .kind = M_PARENTS, .path = p->path + 1
    });

    if (p->bytes == 0) {
        return plan_host(list, p->path + 1, false);
    }

    mount_list_add(list, (mount_op_t) {
        .kind = M_DISK, .path = p->path + 1, .number = p->disk,
        .mode = strcmp(p->path, "/tmp") == 0 ? 01777 : 0755,
        .size = p->bytes, .flags = MS_NOSUID|MS_NODEV
    });

    if (p->make) {
        mount_list_add(list, (mount_op_t) {
            .kind = M_DIR, .path = p->make + 1, .mode = 0755
        });
    }

    return 0;
}


/* The workspace's copy, below BOX_WORK: a time is kept for `make`'s sake. */

static void
plan_unpack(box_spec_t *spec)
{
    size_t               i;
    const tree_t        *tree;
    const tree_entry_t  *e;

    tree = spec->workspace;

    for (i = 0; tree && i < tree->n; i++) {
        e = &tree->entries[i];

        if (e->refused == NULL) {
            mount_list_add(&spec->unpack, (mount_op_t) {
                .kind = S_ISDIR(e->type) ? M_DIR
                        : S_ISLNK(e->type) ? M_LINK : M_FILE,
                .mode = S_ISDIR(e->type) || (e->mode & S_IXUSR) ? 0755 : 0644,
                .path = e->path, .arg = e->target,
                .fd = tree->content, .offset = e->offset, .size = e->size,
                .keeps_time = true, .mtime = e->mtime
            });
        }
    }
}


/* The task's files, and the links to them from the working directory. */

static void
plan_given(box_spec_t *spec)
{
    unsigned            i;
    mount_list_t       *list;
    const task_file_t  *file;

    list = &spec->given;
    spec->root_bytes = PLAN_ROOT_BYTES;

    plan_text(list, BOX_LIMITS + 1, spec->limits);

    for (i = 0; i < spec->nfiles; i++) {
        file = &spec->files[i];
        spec->root_bytes += (file->size + 4095) & ~4095ull;

        mount_list_add(list, (mount_op_t) {
            .kind = M_FILE, .path = file->path, .mode = 0444,
            .fd = file->fd, .size = file->size
        });

        if (file->link[0]) {
            mount_list_add(list, (mount_op_t) {
                .kind = M_LINK,
                .path = mount_list_text(list, BOX_WORK "/%s", file->link) + 1,
                .arg = mount_list_text(list, "/%s", file->path)
            });
        }
    }
}
