/*
 * Advice is data, so that a reader sees all of it at once and a missing line
 * is seen.  Each sentence names the cause first and then the exact command,
 * file or flag.  A row holds for a stage, an errno, a word of the message and
 * a fact of the host; the first row that fits is taken, so the special ones
 * stand before the general ones.
 */

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/advice.h"
#include "base/host.h"


/* what a container's filter must let through for a box to be built */

#define CALLS  "clone, unshare, mount, umount2, pivot_root, open_tree, " \
               "move_mount, fsopen, fsconfig, fsmount, mount_setattr, " \
               "sethostname, setdomainname"

#define FIX_FILTER                                                           \
    "a filter of system calls holds for this process, as a container has "  \
    "it: docker run --security-opt seccomp=unconfined (kubernetes: "        \
    "securityContext.seccompProfile.type: Unconfined), or a profile that "  \
    "allows " CALLS

#define FIX_APPARMOR                                                         \
    "AppArmor takes the capabilities of user namespaces from programs "     \
    "without a profile (Ubuntu 23.10 and later): copy "                     \
    "conf/apparmor/agent-jail to " ADVICE_PROFILE " and run "               \
    "apparmor_parser -r " ADVICE_PROFILE

#define FIX_CONFINED                                                         \
    "an AppArmor profile holds for this process, as a container has it: "   \
    "docker run --security-opt apparmor=unconfined (kubernetes: "           \
    "securityContext.appArmorProfile.type: Unconfined)"

#define FIX_PROC                                                             \
    "parts of /proc are masked, as a container has it, and then the "       \
    "kernel mounts no new one: podman run --security-opt unmask=/proc/*, "  \
    "docker run --security-opt systempaths=unconfined, kubernetes: "        \
    "securityContext.procMount: Unmasked"

#define FIX_MEMFD                                                            \
    "use a kernel with memfd_create; in a container allow it in its "        \
    "seccomp profile"

#define FIX_READ                                                             \
    "let this user read the file: the launcher reads it as its caller"

#define FIX_CAPS                                                             \
    "the user namespace was made without its capabilities: on Ubuntu give " \
    "this program the AppArmor profile conf/apparmor/agent-jail; in a "     \
    "container: docker run --security-opt seccomp=unconfined "              \
    "--security-opt apparmor=unconfined"

#define FIX_CGROUP_RO                                                        \
    "/sys/fs/cgroup is read-only, as a container has it: docker run "       \
    "--cgroupns=host -v /sys/fs/cgroup:/sys/fs/cgroup:rw (kubernetes: a "   \
    "hostPath volume of /sys/fs/cgroup), and once on the host, as root: "   \
    "scripts/setup-host USER"


typedef bool (*advice_fact_t)(void);


typedef struct {
    stage_t        stage;
    int            err;         /* 0: any */
    const char    *about;       /* in the message; NULL: any */
    advice_fact_t  fact;        /* NULL: always */
    const char    *fix;
} advice_row_t;


/* stages that need a capability of the box's own user namespace */

#define NEEDS_CAPS(stage, err)                                               \
    { stage, err, NULL, host_apparmor_restricts, FIX_APPARMOR },             \
    { stage, err, NULL, host_is_filtered, FIX_FILTER },                      \
    { stage, err, NULL, host_is_confined, FIX_CONFINED },                    \
    { stage, err, NULL, NULL, FIX_CAPS }


static const advice_row_t  advice_rows[] = {

    { STAGE_NESTED, 0, NULL, NULL,
      "run the command itself: it is in a box already, with all of its "
      "walls and limits, and boxes do not nest" },

    { STAGE_BROKER, ENOENT, NULL, NULL,
      "start the broker (nginx with agent_control on this socket), name its "
      "socket with --control, or run without any network with --offline" },
    { STAGE_BROKER, ECONNREFUSED, NULL, NULL,
      "start the broker: the socket is there and nobody listens on it" },
    { STAGE_BROKER, ENOTSOCK, NULL, NULL,
      "name the broker's socket in --control: what its \"agent_control\" "
      "says" },
    { STAGE_BROKER, ETIMEDOUT, "was gone", NULL,
      "start the broker again, and run the task again: its error.log says "
      "why it ended" },
    { STAGE_BROKER, EACCES, NULL, NULL,
      "let this user into the socket's directory: the user must be named in "
      "\"launchers\" of the policy and be able to reach the socket" },
    { STAGE_BROKER, ENAMETOOLONG, NULL, NULL,
      "put the broker's socket under a path of at most 107 bytes" },

    { STAGE_CGROUP, EROFS, NULL, NULL, FIX_CGROUP_RO },
    { STAGE_CGROUP, 0, NULL, host_cgroup_is_readonly, FIX_CGROUP_RO },
    { STAGE_CGROUP, ENODEV, NULL, host_is_container,
      "no controller is mounted in this container: docker run "
      "--cgroupns=host -v /sys/fs/cgroup:/sys/fs/cgroup:rw" },
    { STAGE_CGROUP, 0, NULL, NULL,
      "run as root, again after each boot: scripts/setup-host USER (of the "
      "sources, or in share/agent-broker); with systemd and cgroup v2 also, "
      "for one command: systemd-run --user --scope -p Delegate=yes jail run "
      "..." },

    { STAGE_NAMESPACES, EPERM, NULL, host_userns_is_off,
      "user namespaces are switched off for ordinary users: sysctl -w "
      "kernel.unprivileged_userns_clone=1 (and a line in /etc/sysctl.d)" },
    { STAGE_NAMESPACES, EPERM, NULL, host_is_filtered, FIX_FILTER },
    { STAGE_NAMESPACES, ENOSYS, NULL, host_is_filtered, FIX_FILTER },
    { STAGE_NAMESPACES, EPERM, NULL, host_apparmor_restricts, FIX_APPARMOR },
    { STAGE_NAMESPACES, EACCES, NULL, host_apparmor_restricts,
      FIX_APPARMOR },
    { STAGE_NAMESPACES, EPERM, NULL, host_is_confined, FIX_CONFINED },
    { STAGE_NAMESPACES, EACCES, NULL, host_is_confined, FIX_CONFINED },
    { STAGE_NAMESPACES, EPERM, NULL, NULL,
      "allow user namespaces to ordinary users: sysctl -w "
      "kernel.unprivileged_userns_clone=1; in a container allow clone and "
      "unshare in its seccomp profile; in a plain chroot none can be made" },
    { STAGE_NAMESPACES, ENOSPC, NULL, host_userns_max_is_zero,
      "user.max_user_namespaces is 0: sysctl -w "
      "user.max_user_namespaces=15000 (and a line in /etc/sysctl.d)" },
    { STAGE_NAMESPACES, ENOSPC, NULL, NULL,
      "raise the limits of namespaces: sysctl -w "
      "user.max_user_namespaces=15000 user.max_net_namespaces=15000" },
    { STAGE_NAMESPACES, EAGAIN, NULL, NULL,
      "end some processes of this user, or raise its limit of processes" },
    { STAGE_NAMESPACES, EINVAL, NULL, NULL,
      "use a kernel of 5.12 or later with user, pid, net, ipc, uts and mount "
      "namespaces compiled in" },

    { STAGE_IDMAP, EACCES, NULL, host_apparmor_restricts, FIX_APPARMOR },
    { STAGE_IDMAP, EPERM, NULL, host_apparmor_restricts, FIX_APPARMOR },
    { STAGE_IDMAP, EACCES, NULL, host_is_confined, FIX_CONFINED },
    { STAGE_IDMAP, EPERM, NULL, host_is_container,
      "this container's root may not give a box an id of its own: docker run "
      "--cap-add SETUID --cap-add SETGID, or run the launcher as an ordinary "
      "user of the container" },
    { STAGE_IDMAP, 0, NULL, NULL,
      "allow user namespaces for this program: on Ubuntu install the "
      "AppArmor profile conf/apparmor/agent-jail; in a container leave "
      "/proc/self/uid_map writable" },

    { STAGE_RLIMITS, 0, NULL, NULL,
      "raise the hard limit of the caller (ulimit -H), or lower the policy's "
      "value" },

    { STAGE_TIE, EAGAIN, "guard", NULL,
      "end some processes of this user, or raise its limit of processes" },
    { STAGE_TIE, 0, "guard", NULL,
      "raise \"cpu\" or lower \"pids\" in the policy: with a processor for "
      "each 256 processes a box needs no guard" },

    { STAGE_DESCRIPTORS, 0, NULL, host_is_filtered,
      "a container's filter refuses close_range: docker run --security-opt "
      "seccomp=unconfined, or allow close_range in its profile" },
    { STAGE_DESCRIPTORS, 0, NULL, NULL,
      "use a kernel of 5.11 or later: close_range is needed" },

    { STAGE_CGROUP_ATTACH, 0, NULL, NULL,
      "the box may not join its group: as root, again after each boot: "
      "scripts/setup-host USER; with systemd and cgroup v2 also, for one "
      "command: systemd-run --user --scope -p Delegate=yes jail run ..." },
    { STAGE_CGROUP_NAMESPACE, EPERM, NULL, host_is_filtered, FIX_FILTER },

    NEEDS_CAPS(STAGE_NET_LO, EPERM),
    NEEDS_CAPS(STAGE_NET_ROUTE, EPERM),

    { STAGE_NET_ROUTE, EAFNOSUPPORT, NULL, host_is_filtered,
      "a container's filter refuses netlink sockets: docker run "
      "--security-opt seccomp=unconfined, or allow socket for AF_NETLINK in "
      "its profile" },
    { STAGE_NET_ROUTE, ENETUNREACH, NULL, NULL,
      "boxes do without: programs reach hosts by name and by IPv4; for IPv6 "
      "addresses use a kernel with IPv6 and IPV6_SEG6_LWTUNNEL" },

    NEEDS_CAPS(STAGE_HOSTNAME, EPERM),
    NEEDS_CAPS(STAGE_IDENTITY, EPERM),
    NEEDS_CAPS(STAGE_DOORS, EACCES),

    NEEDS_CAPS(STAGE_PROPAGATION, EACCES),
    NEEDS_CAPS(STAGE_PROPAGATION, EPERM),

    { STAGE_PROPAGATION, ENOSYS, NULL, host_is_filtered, FIX_FILTER },
    { STAGE_PROPAGATION, ENOSYS, NULL, NULL,
      "use a kernel of 5.12 or later: mount_setattr is needed" },
    { STAGE_ROOT, ENOSYS, NULL, host_is_filtered, FIX_FILTER },
    { STAGE_ROOT, ENOSYS, NULL, NULL,
      "use a kernel of 5.12 or later: the new mount API is needed" },

    NEEDS_CAPS(STAGE_ROOT, EPERM),
    NEEDS_CAPS(STAGE_ROOT, EACCES),

    { STAGE_MOUNT, EPERM, "/proc", host_proc_is_masked, FIX_PROC },
    { STAGE_MOUNT, ENOSYS, NULL, host_is_filtered, FIX_FILTER },

    NEEDS_CAPS(STAGE_MOUNT, EPERM),
    NEEDS_CAPS(STAGE_MOUNT, EACCES),
    NEEDS_CAPS(STAGE_PIVOT, EPERM),
    NEEDS_CAPS(STAGE_PIVOT, EACCES),

    { STAGE_PIVOT, ENOSYS, NULL, host_is_filtered, FIX_FILTER },
    { STAGE_PIVOT, EINVAL, NULL, NULL,
      "the root of this machine is its initial ramdisk, which cannot be "
      "left: switch_root to another one first" },

    { STAGE_PRIVILEGES, 0, NULL, host_is_filtered,
      "a container's filter refuses prctl or capset: docker run "
      "--security-opt seccomp=unconfined, or allow both in its profile" },

    { STAGE_LANDLOCK, EOPNOTSUPP, NULL, NULL,
      "Landlock is in the kernel and not switched on: add landlock to its "
      "list of security modules (lsm=landlock,... on its command line)" },
    { STAGE_LANDLOCK, EPERM, NULL, host_is_filtered,
      "a container's filter refuses Landlock: docker run --security-opt "
      "seccomp=unconfined, or allow landlock_create_ruleset, "
      "landlock_add_rule and landlock_restrict_self in its profile" },
    { STAGE_LANDLOCK, ENOSYS, NULL, host_is_filtered,
      "this kernel has no Landlock (use 5.13 or later with "
      "CONFIG_SECURITY_LANDLOCK), or a container's filter hides it: docker "
      "run --security-opt seccomp=unconfined, or allow "
      "landlock_create_ruleset, landlock_add_rule, landlock_restrict_self" },
    { STAGE_LANDLOCK, 0, NULL, NULL,
      "use a kernel of 5.13 or later with CONFIG_SECURITY_LANDLOCK, and "
      "landlock in its list of security modules (lsm=landlock,...)" },

    { STAGE_SECCOMP, EPERM, NULL, host_is_filtered, FIX_FILTER },
    { STAGE_SECCOMP, EINVAL, NULL, NULL,
      "use a kernel with CONFIG_SECCOMP_FILTER" },
    { STAGE_SECCOMP, ENOSYS, NULL, NULL,
      "use a kernel with CONFIG_SECCOMP_FILTER" },

    { STAGE_CODE, ENOSYS, NULL, NULL, FIX_MEMFD },
    { STAGE_IN, ENOSYS, NULL, NULL, FIX_MEMFD },

    { STAGE_CODE, ENOENT, NULL, NULL,
      "name a file that is there in --code, or give the text on the standard "
      "input: --code -" },
    { STAGE_CODE, EACCES, NULL, NULL, FIX_READ },
    { STAGE_CODE, 0, "not a regular file", NULL,
      "name one file of program text in --code" },
    { STAGE_IN, ENOENT, NULL, NULL,
      "name a file that is there in --in; what follows a last colon is its "
      "name in the box" },
    { STAGE_IN, EACCES, NULL, NULL, FIX_READ },
    { STAGE_IN, 0, "not a regular file", NULL,
      "name each file in an --in of its own, or copy a whole directory with "
      "--workspace" },
    { STAGE_OUT, ENOENT, NULL, NULL,
      "make the directory above it first: --out makes only the last one" },
    { STAGE_OUT, EACCES, NULL, NULL,
      "name a directory in --out that this user may make" },
    { STAGE_OUT, ENOTDIR, NULL, NULL,
      "name a directory in --out that is not there" },
    { STAGE_WORKSPACE, ENOENT, NULL, NULL,
      "name a directory that is there in --workspace" },
    { STAGE_WORKSPACE, ENOTDIR, NULL, NULL,
      "name a directory in --workspace; for a file there is --in" },

    { STAGE_EXEC, ENOSYS, NULL, NULL,
      "use a kernel of 5.6 or later: openat2 is needed; in a container allow "
      "it in its seccomp profile" },
    { STAGE_EXEC, ENOENT, NULL, NULL,
      "name a program that is in the box: the host's /usr, /bin, /lib are; "
      "home directories, /opt and the caller's working directory are not" },
    { STAGE_EXEC, EACCES, NULL, NULL,
      "name a file that is executable and on an executable mount" },
    { STAGE_EXEC, ENOEXEC, NULL, NULL,
      "give the file a #! line, or name its interpreter as the command" },
    { STAGE_EXEC, ELOOP, NULL, NULL,
      "name the program itself: links through /proc are not followed" },

    { STAGE_NONE, 0, NULL, NULL, NULL }
};


const char *
advice(stage_t stage, int err, const char *message)
{
    const advice_row_t  *r;

    for (r = advice_rows; r->fix; r++) {
        if (r->stage == stage
            && (r->err == 0 || r->err == err)
            && (r->about == NULL || strstr(message, r->about))
            && (r->fact == NULL || r->fact()))
        {
            return r->fix;
        }
    }

    return NULL;
}
