/*
 * Copying a workspace in.  The directory is locked first, so that two boxes
 * never have it at once; the lock is on the directory itself, ends with the
 * launcher, and leaves nothing on the host.  It stops launchers, not editors:
 * files that others change in the meantime are not overwritten later.
 *
 * All bytes go into one memory file, which the box's first process unpacks.
 * So the box never has a descriptor of the caller's directory, and the copy
 * is in the box's memory, under its limit.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "files/beneath.h"
#include "files/directory.h"
#include "files/readable.h"
#include "files/workspace.h"
#include "shared/utf8.h"


static int workspace_busy(workspace_t *w, const struct stat *st,
    fault_t *fault);
static void workspace_clean(workspace_t *w);


int
workspace_lock(workspace_t *w, const char *path, fault_t *fault)
{
    char         real[PATH_MAX];
    struct stat  st;

    w->path = path;

    if (realpath(path, real) == NULL) {
        return fault_set(fault, STAGE_WORKSPACE, errno,
                         "the workspace %.200s cannot be found", path);
    }

    if (readable_home(real, false)) {
        return fault_set_cause(fault, STAGE_WORKSPACE, 0,
                               CAUSE_WORKSPACE_HOME,
                               "the workspace %.200s is or contains a home",
                               path);
    }

    w->dir = open(real, O_RDONLY|O_DIRECTORY|O_NOFOLLOW|O_CLOEXEC);

    if (w->dir == -1 || fstat(w->dir, &st) != 0) {
        return fault_set(fault, STAGE_WORKSPACE, errno,
                         "the workspace %.200s cannot be opened", path);
    }

    /* else its owner could have files changed with the caller's rights */

    if (st.st_uid != geteuid()) {
        return fault_set_cause(fault, STAGE_WORKSPACE, EPERM,
                               CAUSE_WORKSPACE_OWNER,
                               "the workspace %.200s belongs to another user",
                               path);
    }

    if (flock(w->dir, LOCK_EX|LOCK_NB) != 0) {
        return workspace_busy(w, &st, fault);
    }

    workspace_clean(w);

    return 0;
}


int
workspace_read(workspace_t *w, uint64_t max, fault_t *fault)
{
    int                  content;
    char                 name[240];
    size_t               i;
    const char          *why;
    const tree_entry_t  *e;

    content = memfd_create("workspace", MFD_CLOEXEC|MFD_ALLOW_SEALING);

    if (content == -1) {
        return fault_set(fault, STAGE_WORKSPACE, errno,
                         "a memory file cannot be created "
                         "(memfd_create)");
    }

    if (tree_read(&w->before, w->dir, max, content) != 0) {
        utf8_escape(w->before.path, name, sizeof(name));
        return fault_set(fault, STAGE_WORKSPACE, errno,
                         "\"%s\" of the workspace cannot be read",
                         name[0] ? name : ".");
    }

    /* with a part of it only, the rest would look removed to the task */

    for (i = 0; i < w->before.n; i++) {
        e = &w->before.entries[i];
        why = e->refused;

        if (why == NULL || strcmp(why, "special") == 0) {
            continue;
        }

        utf8_escape(e->path, name, sizeof(name));

        if (strcmp(why, "too_large") != 0) {
            return fault_set(fault, STAGE_WORKSPACE, 0,
                             "\"%s\" of the workspace cannot be copied: %s",
                             name, why);
        }

        return fault_set_cause(fault, STAGE_WORKSPACE, 0,
                               CAUSE_WORKSPACE_SIZE,
                               "the workspace has more than %" PRIu64
                               " bytes, counted up to \"%s\"", max, name);
    }

    if (fcntl(content, F_ADD_SEALS,
              F_SEAL_WRITE|F_SEAL_GROW|F_SEAL_SHRINK|F_SEAL_SEAL) == -1)
    {
        return fault_set(fault, STAGE_WORKSPACE, errno,
                         "the copy of the workspace cannot be sealed");
    }

    return 0;
}


void
workspace_free(workspace_t *w)
{
    if (w->before.content > 0) {
        (void) close(w->before.content);
    }

    tree_free(&w->before);

    if (w->dir != -1) {
        (void) close(w->dir);
        w->dir = -1;
    }

    json_decref(w->result);
    w->result = NULL;
}


/* /proc/locks names the holder of a lock, by its pid as seen from here. */

static int
workspace_busy(workspace_t *w, const struct stat *st, fault_t *fault)
{
    FILE          *f;
    char           line[256], path[64], comm[32], holder[64];
    unsigned       maj, min;
    unsigned long  ino;
    int            pid;

    if (errno != EWOULDBLOCK) {
        return fault_set(fault, STAGE_WORKSPACE, errno,
                         "the workspace %.200s cannot be locked", w->path);
    }

    path[0] = '\0';
    (void) strcpy(holder, "another process");
    f = fopen("/proc/locks", "re");

    while (f && fgets(line, sizeof(line), f)) {
        if (sscanf(line, "%*d: FLOCK %*s WRITE %d %x:%x:%lu", &pid, &maj,
                   &min, &ino) == 4
            && ino == st->st_ino && maj == major(st->st_dev)
            && min == minor(st->st_dev) && pid > 0)
        {
            (void) sprintf(holder, "process %d", pid);
            (void) sprintf(path, "/proc/%d/comm", pid);
        }
    }

    if (f) {
        (void) fclose(f);
    }

    f = fopen(path, "re");

    if (f && fgets(line, 17, f)) {
        line[strcspn(line, "\n")] = '\0';
        utf8_escape(line, comm, sizeof(comm));
        (void) sprintf(holder + strlen(holder), " (%s)", comm);
    }

    if (f) {
        (void) fclose(f);
    }

    return fault_set_cause(fault, STAGE_WORKSPACE, 0, CAUSE_WORKSPACE_BUSY,
                           "the workspace %.200s is in use by %s", w->path,
                           holder);
}


/* A launcher that was killed while it copied back leaves this directory. */

static void
workspace_clean(workspace_t *w)
{
    int              dir, i, n;
    struct dirent  **entries;

    dir = beneath_open(w->dir, WORKSPACE_STAGING, O_RDONLY|O_DIRECTORY);

    if (dir == -1) {
        return;
    }

    n = directory_read(dir, &entries);

    if (n != -1) {
        for (i = 0; i < n; i++) {
            (void) unlinkat(dir, entries[i]->d_name, 0);
        }

        directory_free(entries, n);
    }

    (void) close(dir);
    (void) unlinkat(w->dir, WORKSPACE_STAGING, AT_REMOVEDIR);
}
