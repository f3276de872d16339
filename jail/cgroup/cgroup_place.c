/*
 * Where boxes' groups are, as seen from the launcher's cgroup namespace:
 *
 *   root           MOUNT/agent-jail/0, from wherever it runs
 *   another user   DELEGATED, where the launcher itself runs in DELEGATED or
 *                  below: MOUNT/agent-jail/<uid>, made by scripts/setup-host,
 *                  or a unit of systemd's with Delegate=, or another
 *                  directory that was given to this user
 *
 * The kernel lets a user put a process into a group only if the group that
 * holds both the process's old place and its new one is writable, so a
 * launcher outside of what is delegated can do nothing, whatever it owns.
 *
 * A group that gives controllers to its children has no process of its own
 * (the rule of no internal processes).  So what runs in DELEGATED itself, the
 * launcher first of all, is moved into DELEGATED/launcher before controllers
 * are switched on.
 *
 * A unit that is not delegated is systemd's, even where its directory is the
 * user's, as all of those that a user's manager makes are.  The manager says
 * which are by marks, extended attributes, unless it is an old one (of users:
 * 252 is); then what is not delegated most often lacks a controller.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cgroup/cgroup_delegate.h"
#include "cgroup/cgroup_dir.h"
#include "cgroup/cgroup_place.h"
#include "cgroup/cgroup_text.h"


static int place_mount(char *path, size_t cap);
static int place_own(char *mount, char *own, size_t cap, fault_t *fault);
static int place_root(char *path, size_t cap, fault_t *fault);
static int place_delegated(char *path, size_t cap, fault_t *fault);
static bool place_is_ours(const char *path, uid_t uid);
static bool place_is_tree(const char *path, uid_t uid);
static bool place_has_mark(const char *path, const char *name);
static int place_outside(const char *own, fault_t *fault);


cgroup_offer_t
cgroup_place_offers(void)
{
    char  path[CGROUP_PATH_MAX], list[CGROUP_FILE_MAX], names[64];

    if (place_mount(path, sizeof(path)) != 0 || access(path, F_OK) != 0) {
        return CGROUP_OFFERS_NONE;
    }

    return cgroup_path_read(path, "cgroup.controllers", list, sizeof(list))
           == 0 && !cgroup_delegate_lacks(list, names, sizeof(names))
           ? CGROUP_OFFERS_ALL : CGROUP_OFFERS_SOME;
}


int
cgroup_place_open(char *path, size_t cap, fault_t *fault)
{
    int  fd, rc;

    rc = geteuid() == 0 ? place_root(path, cap, fault)
                        : place_delegated(path, cap, fault);

    if (rc != 0) {
        return -1;
    }

    fd = open(path, O_PATH|O_DIRECTORY|O_NOFOLLOW|O_CLOEXEC);

    if (fd == -1) {
        return fault_set(fault, STAGE_CGROUP, errno,
                         "the group %s cannot be opened", path);
    }

    return fd;
}


int
cgroup_place_tree(uid_t uid, char *path, size_t cap)
{
    size_t  n;

    if (place_mount(path, cap) != 0) {
        return -1;
    }

    n = strlen(path);
    n += (size_t) snprintf(path + n, cap - n, "/" PLACE_TREE);

    if (n < cap && uid != (uid_t) -1) {
        n += (size_t) snprintf(path + n, cap - n, "/%u", (unsigned) uid);
    }

    if (n >= cap) {
        errno = ENAMETOOLONG;
        return -1;
    }

    return 0;
}


/* Where the hierarchy is mounted: at a usual place, or where it is said. */

static int
place_mount(char *path, size_t cap)
{
    char           *line, root[CGROUP_PATH_MAX];
    FILE           *f;
    size_t          i, n;
    struct statfs   sfs;

    static const char *const  usual[] = {
        "/sys/fs/cgroup", "/sys/fs/cgroup/unified"
    };

    for (i = 0; i < sizeof(usual) / sizeof(usual[0]); i++) {

        if (statfs(usual[i], &sfs) == 0
            && (unsigned long) sfs.f_type == CGROUP2_SUPER_MAGIC)
        {
            (void) snprintf(path, cap, "%s", usual[i]);
            return 0;
        }
    }

    f = fopen("/proc/self/mountinfo", "re");

    if (f == NULL) {
        return -1;
    }

    line = NULL;
    n = 0;
    errno = ENODEV;

    while (getline(&line, &n, f) != -1) {
        if (cgroup_text_mount(line, root, path, cap < sizeof(root)
                                                ? cap : sizeof(root)) == 0)
        {
            errno = 0;
            break;
        }
    }

    free(line);
    (void) fclose(f);

    return errno == 0 ? 0 : -1;
}


/*
 * This process's own directory, through a mount that shows it: a container
 * may have mounts of other parts of the hierarchy.
 */

static int
place_own(char *mount, char *own, size_t cap, fault_t *fault)
{
    int     rc;
    char    text[2 * CGROUP_PATH_MAX], root[CGROUP_PATH_MAX];
    char   *line, group[CGROUP_PATH_MAX];
    FILE   *f;
    size_t  n;

    if (cgroup_file_read(AT_FDCWD, "/proc/self/cgroup", text, sizeof(text))
        != 0
        || cgroup_text_own(text, group, sizeof(group)) != 0) {
        return fault_set(fault, STAGE_CGROUP, errno,
                         "this process's group is not in "
                         "/proc/self/cgroup as it should be");
    }

    f = fopen("/proc/self/mountinfo", "re");

    if (f == NULL) {
        return fault_set(fault, STAGE_CGROUP, errno,
                         "/proc/self/mountinfo cannot be read");
    }

    line = NULL;
    n = 0;
    rc = -1;

    while (rc != 0 && getline(&line, &n, f) != -1) {
        if (cgroup_text_mount(line, root, mount, sizeof(root)) == 0) {
            rc = cgroup_text_locate(root, mount, group, own, cap);
        }
    }

    free(line);
    (void) fclose(f);

    if (rc == 0) {
        return 0;
    }

    return fault_set_cause(fault, STAGE_CGROUP, EXDEV, CAUSE_CGROUP_HIDDEN,
                           "no mount shows this process's group %.300s",
                           group);
}


/*
 * One tree for all of root's launchers, whatever unit they run in: their
 * slots are the boxes' ids outside, which no two live boxes may share.
 */

static int
place_root(char *path, size_t cap, fault_t *fault)
{
    char    list[CGROUP_FILE_MAX], names[64], *p;
    size_t  n;

    if (cgroup_place_tree(0, path, cap) != 0) {
        return fault_set(fault, STAGE_CGROUP, errno,
                         "no unified hierarchy is mounted");
    }

    if (cgroup_path_read(path, "cgroup.subtree_control", list, sizeof(list))
        == 0
        && !cgroup_delegate_lacks(list, names, sizeof(names)))
    {
        return 0;
    }

    /* from above: a group can give only what it was given */

    n = strlen(path);
    p = path + n - (sizeof("/" PLACE_TREE "/0") - 1);

    for ( ;; ) {
        char  c = *p;

        *p = '\0';

        if (cgroup_delegate(path, false, fault) != 0) {
            return -1;
        }

        if (p == path + n) {
            return 0;
        }

        *p = c;
        p += 1 + strcspn(p + 1, "/");
        c = *p;
        *p = '\0';

        if (mkdir(path, 0755) != 0 && errno != EEXIST) {
            return fault_set(fault, STAGE_CGROUP, errno,
                             "the group %s cannot be made", path);
        }

        *p = c;
    }
}


static int
place_delegated(char *path, size_t cap, fault_t *fault)
{
    char    mount[CGROUP_PATH_MAX], own[CGROUP_PATH_MAX], *name;
    uid_t   uid;
    size_t  nearest, n;

    if (place_own(mount, own, sizeof(own), fault) != 0) {
        return -1;
    }

    uid = geteuid();
    nearest = 0;
    n = (size_t) snprintf(path, cap, "%s", own);

    if (n >= cap) {
        return fault_set(fault, STAGE_CGROUP, ENAMETOOLONG,
                         "this process's group has too long a path");
    }

    for ( ;; ) {

        /* a leaf may be anybody's: what counts is what holds it and boxes */

        if (!place_is_ours(path, uid)) {
            if (strcmp(path, own) != 0) {
                break;
            }

        } else if (place_is_tree(path, uid)
                   || place_has_mark(path, "user.delegate"))
        {
            nearest = n;
            break;

        } else if (cgroup_text_is_unit(path)) {

            /* a manager that marks units, and did not mark this one */

            nearest = place_has_mark(path, "user.invocation_id") ? 0 : n;
            break;

        } else if (nearest == 0) {
            nearest = n;
        }

        name = strrchr(path, '/');

        if (n <= strlen(mount) || name == NULL || name == path) {
            break;
        }

        /* a leaf is where the launcher was put, not what was given to it */

        if (nearest == n && strcmp(name, "/" DELEGATE_LEAF) == 0) {
            nearest = 0;
        }

        n = (size_t) (name - path);
        *name = '\0';
    }

    if (nearest == 0) {
        return place_outside(own, fault);
    }

    own[nearest] = '\0';
    (void) strcpy(path, own);

    return cgroup_delegate(path, true, fault);
}


static bool
place_is_ours(const char *path, uid_t uid)
{
    int          dir;
    bool         is;
    struct stat  st;

    dir = open(path, O_PATH|O_DIRECTORY|O_NOFOLLOW|O_CLOEXEC);

    if (dir == -1) {
        return false;
    }

    is = fstat(dir, &st) == 0 && st.st_uid == uid
         && faccessat(dir, "cgroup.procs", W_OK, AT_EACCESS) == 0
         && faccessat(dir, "cgroup.subtree_control", W_OK, AT_EACCESS) == 0;

    (void) close(dir);

    return is;
}


static bool
place_is_tree(const char *path, uid_t uid)
{
    char    name[sizeof("/" PLACE_TREE) + 16];
    size_t  n, len;

    len = strlen(path);
    n = (size_t) sprintf(name, "/" PLACE_TREE "/%u", (unsigned) uid);

    return len > n && strcmp(path + len - n, name) == 0;
}


static bool
place_has_mark(const char *path, const char *name)
{
    char     value[64];
    ssize_t  n;

    n = getxattr(path, name, value, sizeof(value));

    return n > 0 && value[0] != '0';
}


/* The command is the whole of it: it works when it is copied. */

static int
place_outside(const char *own, fault_t *fault)
{
    char      path[64];
    unsigned  uid;

    uid = (unsigned) geteuid();
    (void) sprintf(path, "/run/user/%u/systemd/private", uid);

    (void) fault_set(fault, STAGE_CGROUP, EACCES,
                     "this launcher runs in the group %.200s, which is not "
                     "delegated to user %u", own, uid);

    if (access("/run/systemd/system", F_OK) != 0) {
        fault_fix(fault, "as root: scripts/setup-host %u %d (what process %d, "
                  "which started this launcher, starts from then on may run "
                  "boxes)", uid, (int) getppid(), (int) getppid());

    } else if (access(path, F_OK) == 0) {
        fault_fix(fault, DELEGATE_SCOPE);

    } else {
        fault_fix(fault, "as root: systemd-run --uid=%u -p Delegate=yes "
                  "--pipe --wait -- jail run ... (for a service: "
                  "Delegate=cpu memory pids in its unit)", uid);
    }

    return -1;
}
