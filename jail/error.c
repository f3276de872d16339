/*
 * Names of stages, and the table of what mends which failure.  Advice is
 * data, so that a reader sees all of it at once and a missing line is seen.
 */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "fault.h"


typedef struct {
    stage_t      stage;
    int          err;           /* 0: any */
    const char  *fix;
} fault_fix_t;


static const char *const  stage_names[STAGE_COUNT] = {
    [STAGE_NONE] = "none",
    [STAGE_USAGE] = "usage",
    [STAGE_CODE] = "code",
    [STAGE_IN] = "in",
    [STAGE_BROKER] = "broker",
    [STAGE_POLICY] = "policy",
    [STAGE_CGROUP] = "cgroup",
    [STAGE_NAMESPACES] = "namespaces",
    [STAGE_IDMAP] = "idmap",
    [STAGE_RLIMITS] = "rlimits",
    [STAGE_TIE] = "tie",
    [STAGE_DESCRIPTORS] = "descriptors",
    [STAGE_CGROUP_ATTACH] = "cgroup_attach",
    [STAGE_CGROUP_NAMESPACE] = "cgroup_namespace",
    [STAGE_NET_LO] = "net_lo",
    [STAGE_DOORS] = "doors",
    [STAGE_HOSTNAME] = "hostname",
    [STAGE_IDENTITY] = "identity",
    [STAGE_PROPAGATION] = "propagation",
    [STAGE_ROOT] = "root",
    [STAGE_MOUNT] = "mount",
    [STAGE_FILES] = "files",
    [STAGE_PIVOT] = "pivot",
    [STAGE_SCHEDULING] = "scheduling",
    [STAGE_PRIVILEGES] = "privileges",
    [STAGE_LANDLOCK] = "landlock",
    [STAGE_SECCOMP] = "seccomp",
    [STAGE_START] = "start",
    [STAGE_EXEC] = "exec",
    [STAGE_RUN] = "run",
};


/* The first line that fits is taken. */

static const fault_fix_t  fixes[] = {

    { STAGE_BROKER, ENOENT,
      "start the broker (nginx with agent_control on this socket), name its "
      "socket with --control, or run without any network with --offline" },
    { STAGE_BROKER, ECONNREFUSED,
      "start the broker: the socket is there and nobody listens on it" },
    { STAGE_BROKER, EACCES,
      "let this user into the socket's directory: the user must be named in "
      "\"launchers\" of the policy and be able to reach the socket" },
    { STAGE_BROKER, ENAMETOOLONG,
      "put the broker's socket under a path of at most 107 bytes" },

    { STAGE_CGROUP, 0,
      "run once as root: scripts/setup-host USER" },

    { STAGE_NAMESPACES, EPERM,
      "allow unprivileged user namespaces: sysctl -w "
      "kernel.unprivileged_userns_clone=1; in a container allow clone and "
      "unshare in its seccomp profile" },
    { STAGE_NAMESPACES, ENOSPC,
      "raise the limits of namespaces: sysctl -w "
      "user.max_user_namespaces=15000 user.max_net_namespaces=15000" },
    { STAGE_NAMESPACES, EAGAIN,
      "end some processes of this user, or raise its limit of processes" },
    { STAGE_NAMESPACES, EINVAL,
      "use a kernel of 5.12 or later with user, pid, net, ipc, uts and mount "
      "namespaces compiled in" },

    { STAGE_IDMAP, 0,
      "allow user namespaces for this program: on Ubuntu give it an AppArmor "
      "profile with \"userns,\"; in a container leave /proc/self/uid_map "
      "writable" },

    { STAGE_RLIMITS, 0,
      "raise the hard limit of the caller (ulimit -H), or lower the policy's "
      "value" },

    { STAGE_NET_LO, EPERM,
      "the user namespace was made without its capabilities: on Ubuntu give "
      "this program an AppArmor profile with \"userns,\"" },
    { STAGE_DOORS, EAFNOSUPPORT,
      "enable IPv6 in the kernel (remove ipv6.disable=1 from its command "
      "line): the doors are dual-stack sockets" },

    { STAGE_PROPAGATION, EACCES,
      "the user namespace was made without its capabilities: on Ubuntu give "
      "this program an AppArmor profile with \"userns,\"" },
    { STAGE_ROOT, ENOSYS,
      "use a kernel of 5.12 or later: the new mount API is needed" },
    { STAGE_MOUNT, EPERM,
      "if this is a container: leave /proc unmasked (docker run "
      "--security-opt systempaths=unconfined; procMount: Unmasked)" },

    { STAGE_LANDLOCK, 0,
      "use a kernel of 5.13 or later with landlock in its list of security "
      "modules (lsm=landlock,...)" },
    { STAGE_SECCOMP, EINVAL,
      "use a kernel with CONFIG_SECCOMP_FILTER" },

    { STAGE_EXEC, ENOENT,
      "name a program that is in the box: the host's /usr, /bin, /lib are; "
      "home directories, /opt and the caller's working directory are not" },
    { STAGE_EXEC, EACCES,
      "name a file that is executable and on an executable mount" },
    { STAGE_EXEC, ENOEXEC,
      "give the file a #! line, or name its interpreter as the command" },
    { STAGE_EXEC, ELOOP,
      "name the program itself: links through /proc are not followed" },

    { STAGE_NONE, 0, NULL }
};


const char *
stage_name(stage_t stage)
{
    return stage < STAGE_COUNT ? stage_names[stage] : "unknown";
}


int
fault_set(fault_t *fault, stage_t stage, int err, const char *fmt, ...)
{
    size_t              n;
    va_list             args;
    const fault_fix_t  *f;

    if (fault->stage != STAGE_NONE) {
        return -1;
    }

    fault->stage = stage;
    fault->err = err;
    fault->fix[0] = '\0';

    va_start(args, fmt);
    (void) vsnprintf(fault->message, sizeof(fault->message), fmt, args);
    va_end(args);

    if (err != 0) {
        n = strlen(fault->message);
        (void) snprintf(fault->message + n, sizeof(fault->message) - n,
                        ": %s", strerrordesc_np(err) ? strerrordesc_np(err)
                                                     : "unknown error");
    }

    for (f = fixes; f->fix; f++) {
        if (f->stage == stage && (f->err == 0 || f->err == err)) {
            (void) snprintf(fault->fix, sizeof(fault->fix), "%s", f->fix);
            break;
        }
    }

    return -1;
}


void
fault_fix(fault_t *fault, const char *fmt, ...)
{
    va_list  args;

    va_start(args, fmt);
    (void) vsnprintf(fault->fix, sizeof(fault->fix), fmt, args);
    va_end(args);
}


const char *
errno_name(int err)
{
    return err == 0 ? NULL : strerrorname_np(err);
}
