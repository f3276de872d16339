/*
 * Facts that explain a refusal.  The kernel answers EPERM for a dozen
 * different reasons; each of them can be seen somewhere in /proc, and these
 * functions look there.  None of them decides whether a box is made.
 */

#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/host.h"


static bool host_number_is(const char *path, long value);
static bool host_line(const char *path, const char *start, char *line,
    int cap);


/*
 * Only a box has all of these: a root that is a read-only tmpfs, the task's
 * directories in it, no way to gain privileges, and a filter.
 */

bool
host_is_box(void)
{
    struct statfs   sfs;
    struct statvfs  svfs;

    return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1
           && statfs("/", &sfs) == 0
           && (unsigned long) sfs.f_type == TMPFS_MAGIC
           && statvfs("/", &svfs) == 0
           && (svfs.f_flag & ST_RDONLY)
           && access("/run/task/in", F_OK) == 0
           && access("/run/task/out", F_OK) == 0
           && host_is_filtered();
}


bool
host_is_container(void)
{
    return access("/.dockerenv", F_OK) == 0
           || access("/run/.containerenv", F_OK) == 0
           || access("/var/run/secrets/kubernetes.io", F_OK) == 0
           || getenv("KUBERNETES_SERVICE_HOST") != NULL
           || getenv("container") != NULL;
}


bool
host_is_filtered(void)
{
    char  line[64];

    return host_line("/proc/self/status", "Seccomp:", line, sizeof(line))
           && strtol(line + sizeof("Seccomp:") - 1, NULL, 10) == 2;
}


bool
host_is_confined(void)
{
    char  line[256];

    return (host_line("/proc/self/attr/apparmor/current", "", line,
                      sizeof(line))
            || host_line("/proc/self/attr/current", "", line, sizeof(line)))
           && line[0] != '\0'
           && strncmp(line, "unconfined", 10) != 0;
}


bool
host_apparmor_restricts(void)
{
    return host_number_is("/proc/sys/kernel/"
                          "apparmor_restrict_unprivileged_userns", 1);
}


bool
host_userns_is_off(void)
{
    return host_number_is("/proc/sys/kernel/unprivileged_userns_clone", 0);
}


bool
host_userns_max_is_zero(void)
{
    return host_number_is("/proc/sys/user/max_user_namespaces", 0);
}


/*
 * The kernel mounts a new proc in a user namespace only if a proc is visible
 * there that is covered at most on empty directories.
 */

bool
host_proc_is_masked(void)
{
    FILE  *f;
    char   line[1024], point[256];
    bool   masked;

    f = fopen("/proc/self/mountinfo", "re");

    if (f == NULL) {
        return false;
    }

    masked = false;

    while (fgets(line, sizeof(line), f)) {
        if (sscanf(line, "%*s %*s %*s %*s %255s", point) == 1
            && strncmp(point, "/proc/", 6) == 0
            && strcmp(point, "/proc/sys/fs/binfmt_misc") != 0)
        {
            masked = true;
            break;
        }
    }

    (void) fclose(f);

    return masked;
}


bool
host_cgroup_is_readonly(void)
{
    size_t          i;
    struct statvfs  svfs;

    static const char *const  paths[] = {
        "/sys/fs/cgroup/pids", "/sys/fs/cgroup"
    };

    for (i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        if (statvfs(paths[i], &svfs) == 0) {
            return (svfs.f_flag & ST_RDONLY) != 0;
        }
    }

    return false;
}


static bool
host_number_is(const char *path, long value)
{
    char  line[32], *end;
    long  n;

    if (!host_line(path, "", line, sizeof(line))) {
        return false;
    }

    n = strtol(line, &end, 10);

    return end != line && n == value;
}


/* The first line that begins with start. */

static bool
host_line(const char *path, const char *start, char *line, int cap)
{
    FILE  *f;
    bool   found;

    f = fopen(path, "re");

    if (f == NULL) {
        return false;
    }

    found = false;

    while (!found && fgets(line, cap, f)) {
        found = (strncmp(line, start, strlen(start)) == 0);
    }

    (void) fclose(f);

    return found;
}
