/*
 * A group gives controllers to its children by naming them in
 * cgroup.subtree_control, and may then have no process of its own (the rule
 * of no internal processes).
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "cgroup/cgroup_delegate.h"
#include "cgroup/cgroup_dir.h"
#include "cgroup/cgroup_text.h"


#define DELEGATE_ROUNDS  100                /* of moving what forks meanwhile */


/* all of them are needed, and switched on by one write */

static const char *const  delegate_controllers[] = { "cpu", "memory", "pids" };

#define DELEGATE_CONTROLLERS  "+cpu +memory +pids"
#define DELEGATE_COUNT        (sizeof(delegate_controllers)                  \
                               / sizeof(delegate_controllers[0]))


static int delegate_nothing(const char *path, const char *names,
    fault_t *fault);
static bool delegate_manager_has_all(const char *path, unsigned uid);
static int delegate_move(int dir);


int
cgroup_delegate(const char *path, bool may_move, fault_t *fault)
{
    int   dir, err;
    char  list[CGROUP_FILE_MAX], names[64];

    dir = open(path, O_PATH|O_DIRECTORY|O_NOFOLLOW|O_CLOEXEC);

    if (dir == -1
        || cgroup_file_read(dir, "cgroup.subtree_control", list,
                            sizeof(list)) != 0)
    {
        err = errno;
        descriptors_close(&dir, 1);

        return fault_set(fault, STAGE_CGROUP, err,
                         "the group %s cannot be opened", path);
    }

    if (!cgroup_delegate_lacks(list, names, sizeof(names))) {
        (void) close(dir);
        return 0;
    }

    if (cgroup_file_read(dir, "cgroup.controllers", list, sizeof(list)) != 0
        || cgroup_delegate_lacks(list, names, sizeof(names)))
    {
        (void) close(dir);
        return delegate_nothing(path, names, fault);
    }

    err = 0;

    if (cgroup_file_write(dir, "cgroup.subtree_control", DELEGATE_CONTROLLERS)
        != 0)
    {
        err = errno;

        if (err == EBUSY && may_move && delegate_move(dir) == 0) {
            err = cgroup_file_write(dir, "cgroup.subtree_control",
                                    DELEGATE_CONTROLLERS) == 0 ? 0 : errno;
        }
    }

    (void) close(dir);

    if (err == 0) {
        return 0;
    }

    (void) fault_set(fault, STAGE_CGROUP, err,
                     err == EBUSY
                     ? "processes run in the group %s itself, so it cannot "
                       "give its controllers to boxes"
                     : "the group %s cannot give its controllers to boxes",
                     path);

    if (err == EBUSY) {
        fault_fix(fault, "as root: scripts/setup-host %u (it moves these "
                  "processes into a group of their own)",
                  (unsigned) geteuid());
    }

    return -1;
}


/* Whether one is missing in the list, and the names of all that are. */

bool
cgroup_delegate_lacks(const char *list, char *names, size_t cap)
{
    size_t  i, n;

    n = 0;
    names[0] = '\0';

    for (i = 0; i < DELEGATE_COUNT; i++) {
        if (!cgroup_text_lists(list, delegate_controllers[i]) && n < cap) {
            n += (size_t) snprintf(names + n, cap - n, "%s%s", n ? ", " : "",
                                   delegate_controllers[i]);
        }
    }

    return n > 0;
}


static int
delegate_nothing(const char *path, const char *names, fault_t *fault)
{
    unsigned  uid;

    uid = (unsigned) geteuid();

    (void) fault_set(fault, STAGE_CGROUP, 0,
                     "the group %.200s was not given the controllers that "
                     "boxes need; missing: %s", path, names);

    if (uid == 0) {
        fault_fix(fault, "boot a kernel with these controllers switched on "
                  "(no cgroup_disable= and no cgroup_no_v1= for them on its "
                  "command line); in a container, as root on the host: give "
                  "it the controllers");

    } else if (delegate_manager_has_all(path, uid)) {
        fault_fix(fault, DELEGATE_SCOPE);

    } else if (strstr(path, "/user@")) {
        fault_fix(fault, "as root: scripts/setup-host %u && systemctl "
                  "restart user@%u.service (this ends the user's sessions)",
                  uid, uid);

    } else if (cgroup_text_is_unit(path)) {
        fault_fix(fault, "write Delegate=cpu memory pids into the unit "
                  "%.100s", strrchr(path, '/') + 1);

    } else {
        fault_fix(fault, "as root: scripts/setup-host %u", uid);
    }

    return -1;
}


/* Whether the user's manager, in whose tree the path is, could give all. */

static bool
delegate_manager_has_all(const char *path, unsigned uid)
{
    char         name[64], list[CGROUP_FILE_MAX], names[64];
    char         manager[CGROUP_PATH_MAX];
    const char  *p;

    (void) sprintf(name, "/user@%u.service/", uid);
    p = strstr(path, name);

    if (p == NULL) {
        return false;
    }

    (void) snprintf(manager, sizeof(manager), "%.*s",
                    (int) (p - path + strlen(name) - 1), path);

    return cgroup_path_read(manager, "cgroup.controllers", list, sizeof(list))
           == 0 && !cgroup_delegate_lacks(list, names, sizeof(names));
}


/*
 * What runs in the group itself goes into a leaf below it.  A process that
 * forks meanwhile has its child where itself is, so it is read again until
 * nothing is there.
 */

static int
delegate_move(int dir)
{
    int            leaf, rc;
    char           list[CGROUP_FILE_MAX], pid[24], *p, *end;
    unsigned       i;
    unsigned long  number;

    if (mkdirat(dir, DELEGATE_LEAF, 0755) != 0 && errno != EEXIST) {
        return -1;
    }

    leaf = openat(dir, DELEGATE_LEAF, O_PATH|O_DIRECTORY|O_NOFOLLOW|O_CLOEXEC);

    if (leaf == -1) {
        return -1;
    }

    rc = -1;

    for (i = 0; i < DELEGATE_ROUNDS; i++) {

        if (cgroup_file_read(dir, "cgroup.procs", list, sizeof(list)) != 0) {
            break;
        }

        if (list[0] == '\0') {
            rc = 0;
            break;
        }

        for (p = list; ; p = end + 1) {
            number = strtoul(p, &end, 10);

            /* 0: of another pid namespace; a cut one stands for the next */

            if (end == p || *end != '\n' || number == 0) {
                break;
            }

            (void) sprintf(pid, "%lu", number);
            (void) cgroup_file_write(leaf, "cgroup.procs", pid);
        }
    }

    (void) close(leaf);
    errno = EBUSY;

    return rc;
}
