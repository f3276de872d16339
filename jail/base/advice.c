/*
 * Advice is data, so that a reader sees all of it at once and notices a
 * missing line.  Each sentence names the cause first and then the exact
 * command, file or flag.  A row applies to a cause, a stage, an errno and a
 * fact of the host; the first row that matches is taken, so the special rows
 * come before the general ones.
 */

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/advice.h"
#include "base/host.h"


/* the calls that a container's filter must allow for a box to be built */

#define CALLS  "clone, unshare, mount, umount2, pivot_root, open_tree, " \
               "move_mount, fsopen, fsconfig, fsmount, mount_setattr, " \
               "sethostname, setdomainname"

#define FIX_FILTER                                                           \
    "a seccomp filter, as containers have one, applies to this process: "   \
    "docker run --security-opt seccomp=unconfined (kubernetes: "            \
    "securityContext.seccompProfile.type: Unconfined), or a profile that "  \
    "allows " CALLS

#define FIX_APPARMOR                                                         \
    "AppArmor gives no capabilities in user namespaces to programs "        \
    "without a profile (Ubuntu 23.10 and later): copy "                     \
    "conf/apparmor/agent-jail to " ADVICE_PROFILE " and run "               \
    "apparmor_parser -r " ADVICE_PROFILE

#define FIX_CONFINED                                                         \
    "an AppArmor profile, as containers have one, applies to this "         \
    "process: docker run --security-opt apparmor=unconfined (kubernetes: "  \
    "securityContext.appArmorProfile.type: Unconfined)"

#define FIX_PROC                                                             \
    "parts of /proc are masked, as in most containers, so the kernel "      \
    "refuses to mount a new one: podman run --security-opt "                \
    "unmask=/proc/*, "                                                      \
    "docker run --security-opt systempaths=unconfined, kubernetes: "        \
    "securityContext.procMount: Unmasked"

#define FIX_MEMFD                                                            \
    "use a kernel with memfd_create; in a container allow it in its "        \
    "seccomp profile"

#define FIX_READ                                                             \
    "give this user permission to read the file"

#define FIX_CAPS                                                             \
    "the user namespace was created without capabilities: on Ubuntu give "  \
    "this program the AppArmor profile conf/apparmor/agent-jail; in a "     \
    "container: docker run --security-opt seccomp=unconfined "              \
    "--security-opt apparmor=unconfined"

#define FIX_CGROUP_RO                                                        \
    "/sys/fs/cgroup is read-only, as in most containers: docker run "       \
    "--cgroupns=host -v /sys/fs/cgroup:/sys/fs/cgroup:rw (kubernetes: a "   \
    "hostPath volume of /sys/fs/cgroup), and once on the host, as root: "   \
    "scripts/setup-host USER"


typedef bool (*advice_fact_t)(void);


typedef struct {
    stage_t        stage;       /* STAGE_NONE: any */
    int            err;         /* 0: any */
    cause_t        cause;       /* CAUSE_NONE: any */
    advice_fact_t  fact;        /* NULL: always */
    const char    *fix;         /* NULL: another row has it */
} advice_row_t;


/* the cause is enough, whatever the stage and the errno */

#define CAUSE(cause, fix)  { STAGE_NONE, 0, CAUSE_ ## cause, NULL, fix }

#define AT(stage, err, fix)           { stage, err, CAUSE_NONE, NULL, fix }
#define AT_IF(stage, err, fact, fix)  { stage, err, CAUSE_NONE, fact, fix }


/* stages that need a capability of the box's own user namespace */

#define NEEDS_CAPS(stage, err)                                               \
    AT_IF(stage, err, host_apparmor_restricts, FIX_APPARMOR),                \
    AT_IF(stage, err, host_is_filtered, FIX_FILTER),                         \
    AT_IF(stage, err, host_is_confined, FIX_CONFINED),                       \
    AT(stage, err, FIX_CAPS)


static const advice_row_t  advice_rows[] = {

    CAUSE(FILES_SIZE,
          "give fewer or smaller files, or raise \"memory\" in the policy"),
    CAUSE(OUT_NOT_EMPTY, "name a new or an empty directory in --out"),
    CAUSE(WORKSPACE_HOME, "name the directory of one project"),
    CAUSE(WORKSPACE_OWNER, "run the launcher as the owner of the directory"),
    CAUSE(WORKSPACE_SIZE,
          "raise \"writable /tmp/work\" and \"memory\" in the policy: the "
          "files may use half of the memory"),
    CAUSE(WORKSPACE_BUSY,
          "wait until that process ends, or give each task its own copy"),

    CAUSE(BROKER_CLOSED,
          "read the broker's error log: if it says \"worker_connections are "
          "not enough\", raise \"worker_connections\" or start fewer tasks at "
          "once"),
    CAUSE(BROKER_GONE,
          "start the broker again, then run the task again; the broker's "
          "error log says why it ended"),
    CAUSE(BROKER_VERSION,
          "use a launcher and a broker of the same release"),
    CAUSE(BROKER_BUSY,
          "wait for tasks to end, or raise the bound that the message names "
          "in the broker's configuration"),
    CAUSE(BROKER_CA,
          "replace the certificate and key that \"agent_ca\" of the broker's "
          "configuration names, or write \"agent_ca auto;\", and reload it"),
    CAUSE(POLICY_UNKNOWN,
          "add \"agent_policy\" of this name to the broker's configuration "
          "and reload it, or name another with --policy"),
    CAUSE(POLICY_NOT_ALLOWED,
          "add \"launchers user:NAME;\" to the policy and reload the broker, "
          "or name another policy with --policy"),
    CAUSE(POLICY_GONE,
          "the policy was removed by a reload: name another"),
    CAUSE(TASK_REFUSALS,
          "let the program stop at the first refusals, which \"egress\" names, "
          "allow what it needs in the policy, or raise \"refusals\" there"),
    CAUSE(TASK_AUDIT_BUDGET,
          "let the program send fewer requests, or raise \"audit_budget\" in "
          "the policy"),
    CAUSE(TASK_OVERDUE,
          "look for what kept the launcher from ending the task in time: it "
          "was stopped, or the host was overloaded"),
    CAUSE(POLICY_ISOLATION, "set \"isolation namespaces;\" in the policy"),
    CAUSE(READABLE_MISSING,
          "remove the path from \"readable\" in the policy, or create it on "
          "this host"),
    CAUSE(READABLE_REFUSED,
          "remove the path from \"readable\" in the policy; single files can "
          "be given with --in"),

    CAUSE(CGROUP_NOT_MOUNTED,
          "as root: mount -t cgroup2 cgroup2 /sys/fs/cgroup"),
    CAUSE(CGROUP_HIDDEN,
          "mount the hierarchy in this cgroup namespace: mount -t cgroup2 "
          "cgroup2 /sys/fs/cgroup"),
    CAUSE(CGROUP_SWAP, "boot with swapaccount=1, or as root: swapoff -a"),
    CAUSE(CONTROLLER_CPU, NULL),
    CAUSE(CONTROLLER_CPUACCT, NULL),
    CAUSE(CONTROLLER_MEMORY, NULL),
    CAUSE(CONTROLLER_PIDS, NULL),

    CAUSE(ROOT_WITHOUT_IDS, "run the launcher as an ordinary user"),

    AT(STAGE_NESTED, 0,
       "run the command itself, without jail: it is already in a box, with "
       "all of the box's walls and limits, and boxes cannot be nested"),

    AT(STAGE_BROKER, ENOENT,
       "start the broker (nginx with agent_control on this socket), name its "
       "socket with --control, or run without any network with --offline"),
    AT(STAGE_BROKER, ECONNREFUSED,
       "start the broker: the socket exists, but nothing listens on it"),
    AT(STAGE_BROKER, ENOTSOCK,
       "name the broker's socket in --control: the path in its "
       "\"agent_control\" directive"),
    AT(STAGE_BROKER, EACCES,
       "give this user access to the socket and its directory, and name the "
       "user in \"launchers\" of the policy"),
    AT(STAGE_BROKER, ENAMETOOLONG,
       "move the broker's socket to a path of at most 107 bytes"),

    AT(STAGE_CGROUP, EROFS, FIX_CGROUP_RO),
    AT_IF(STAGE_CGROUP, 0, host_cgroup_is_readonly, FIX_CGROUP_RO),
    AT_IF(STAGE_CGROUP, ENODEV, host_is_container,
          "no controller is mounted in this container: docker run "
          "--cgroupns=host -v /sys/fs/cgroup:/sys/fs/cgroup:rw"),
    AT(STAGE_CGROUP, 0,
       "run as root, after each boot: scripts/setup-host USER (in the "
       "sources, or in share/agent-broker); with systemd and cgroup v2, for "
       "one command: systemd-run --user --scope -p Delegate=yes jail run ..."),

    AT_IF(STAGE_NAMESPACES, EPERM, host_userns_is_off,
          "user namespaces are disabled for ordinary users: sysctl -w "
          "kernel.unprivileged_userns_clone=1 (and a line in /etc/sysctl.d)"),
    AT_IF(STAGE_NAMESPACES, EPERM, host_is_filtered, FIX_FILTER),
    AT_IF(STAGE_NAMESPACES, ENOSYS, host_is_filtered, FIX_FILTER),
    AT_IF(STAGE_NAMESPACES, EPERM, host_apparmor_restricts, FIX_APPARMOR),
    AT_IF(STAGE_NAMESPACES, EACCES, host_apparmor_restricts, FIX_APPARMOR),
    AT_IF(STAGE_NAMESPACES, EPERM, host_is_confined, FIX_CONFINED),
    AT_IF(STAGE_NAMESPACES, EACCES, host_is_confined, FIX_CONFINED),
    AT(STAGE_NAMESPACES, EPERM,
       "allow user namespaces to ordinary users: sysctl -w "
       "kernel.unprivileged_userns_clone=1; in a container allow clone and "
       "unshare in its seccomp profile; in a chroot the kernel refuses them"),
    AT_IF(STAGE_NAMESPACES, ENOSPC, host_userns_max_is_zero,
          "user.max_user_namespaces is 0: sysctl -w "
          "user.max_user_namespaces=15000 (and a line in /etc/sysctl.d)"),
    AT(STAGE_NAMESPACES, ENOSPC,
       "raise the limits on namespaces: sysctl -w "
       "user.max_user_namespaces=15000 user.max_net_namespaces=15000"),
    AT(STAGE_NAMESPACES, EAGAIN,
       "end some of this user's processes, or raise the user's process limit"),
    AT(STAGE_NAMESPACES, EINVAL,
       "use a kernel of 5.12 or later with user, pid, net, ipc, uts and mount "
       "namespaces compiled in"),

    AT_IF(STAGE_IDMAP, EACCES, host_apparmor_restricts, FIX_APPARMOR),
    AT_IF(STAGE_IDMAP, EPERM, host_apparmor_restricts, FIX_APPARMOR),
    AT_IF(STAGE_IDMAP, EACCES, host_is_confined, FIX_CONFINED),
    AT_IF(STAGE_IDMAP, EPERM, host_is_container,
          "root of this container may not map another id for a box: docker "
          "run --cap-add SETUID --cap-add SETGID, or run the launcher as an "
          "ordinary user of the container"),
    AT(STAGE_IDMAP, 0,
       "allow user namespaces for this program: on Ubuntu install the AppArmor "
       "profile conf/apparmor/agent-jail; in a container keep "
       "/proc/self/uid_map writable"),

    AT(STAGE_RLIMITS, 0,
       "raise the caller's hard limit (ulimit -H), or lower the policy's "
       "value"),

    { STAGE_TIE, EAGAIN, CAUSE_GUARD, NULL,
      "end some of this user's processes, or raise the user's process limit" },
    { STAGE_TIE, 0, CAUSE_GUARD, NULL,
      "raise \"cpu\" or lower \"pids\" in the policy: a box with at least one "
      "core for each 256 processes needs no guard" },

    AT_IF(STAGE_DESCRIPTORS, 0, host_is_filtered,
          "a container's filter refuses close_range: docker run --security-opt "
          "seccomp=unconfined, or allow close_range in its profile"),
    AT(STAGE_DESCRIPTORS, 0,
       "use a kernel of 5.11 or later: close_range is needed"),

    AT(STAGE_CGROUP_ATTACH, 0,
       "the box may not join its cgroup: run as root, after each boot: "
       "scripts/setup-host USER; with systemd and cgroup v2, for one "
       "command: systemd-run --user --scope -p Delegate=yes jail run ..."),
    AT_IF(STAGE_CGROUP_NAMESPACE, EPERM, host_is_filtered, FIX_FILTER),

    NEEDS_CAPS(STAGE_NET_LO, EPERM),
    NEEDS_CAPS(STAGE_NET_ROUTE, EPERM),

    AT_IF(STAGE_NET_ROUTE, EAFNOSUPPORT, host_is_filtered,
          "a container's filter refuses netlink sockets: docker run "
          "--security-opt seccomp=unconfined, or allow socket for AF_NETLINK "
          "in its profile"),
    AT(STAGE_NET_ROUTE, ENETUNREACH,
       "nothing to do: programs in boxes reach hosts by name and by IPv4 "
       "address; for IPv6 addresses use a kernel with IPv6 and "
       "IPV6_SEG6_LWTUNNEL"),

    NEEDS_CAPS(STAGE_HOSTNAME, EPERM),
    NEEDS_CAPS(STAGE_IDENTITY, EPERM),
    NEEDS_CAPS(STAGE_DOORS, EACCES),

    NEEDS_CAPS(STAGE_PROPAGATION, EACCES),
    NEEDS_CAPS(STAGE_PROPAGATION, EPERM),

    AT_IF(STAGE_PROPAGATION, ENOSYS, host_is_filtered, FIX_FILTER),
    AT(STAGE_PROPAGATION, ENOSYS,
       "use a kernel of 5.12 or later: mount_setattr is needed"),
    AT_IF(STAGE_ROOT, ENOSYS, host_is_filtered, FIX_FILTER),
    AT(STAGE_ROOT, ENOSYS,
       "use a kernel of 5.12 or later: the new mount API is needed"),

    NEEDS_CAPS(STAGE_ROOT, EPERM),
    NEEDS_CAPS(STAGE_ROOT, EACCES),

    { STAGE_MOUNT, EPERM, CAUSE_PROC_MOUNT, host_proc_is_masked, FIX_PROC },
    AT_IF(STAGE_MOUNT, ENOSYS, host_is_filtered, FIX_FILTER),

    NEEDS_CAPS(STAGE_MOUNT, EPERM),
    NEEDS_CAPS(STAGE_MOUNT, EACCES),
    NEEDS_CAPS(STAGE_PIVOT, EPERM),
    NEEDS_CAPS(STAGE_PIVOT, EACCES),

    AT_IF(STAGE_PIVOT, ENOSYS, host_is_filtered, FIX_FILTER),
    AT(STAGE_PIVOT, EINVAL,
       "the root of this machine is its initial ramdisk, which pivot_root "
       "cannot leave: switch_root to another file system first"),

    AT_IF(STAGE_PRIVILEGES, 0, host_is_filtered,
          "a container's filter refuses prctl or capset: docker run "
          "--security-opt seccomp=unconfined, or allow both in its profile"),

    AT(STAGE_LANDLOCK, EOPNOTSUPP,
       "Landlock is compiled into the kernel but disabled: add landlock to its "
       "list of security modules (lsm=landlock,... on its command line)"),
    AT_IF(STAGE_LANDLOCK, EPERM, host_is_filtered,
          "a container's filter refuses Landlock: docker run --security-opt "
          "seccomp=unconfined, or allow landlock_create_ruleset, "
          "landlock_add_rule and landlock_restrict_self in its profile"),
    AT_IF(STAGE_LANDLOCK, ENOSYS, host_is_filtered,
          "this kernel has no Landlock (use 5.13 or later with "
          "CONFIG_SECURITY_LANDLOCK), or a container's filter hides it: docker "
          "run --security-opt seccomp=unconfined, or allow "
          "landlock_create_ruleset, landlock_add_rule, landlock_restrict_self"),
    AT(STAGE_LANDLOCK, 0,
       "use a kernel of 5.13 or later with CONFIG_SECURITY_LANDLOCK, and "
       "landlock in its list of security modules (lsm=landlock,...)"),

    AT_IF(STAGE_SECCOMP, EPERM, host_is_filtered, FIX_FILTER),
    AT(STAGE_SECCOMP, EINVAL, "use a kernel with CONFIG_SECCOMP_FILTER"),
    AT(STAGE_SECCOMP, ENOSYS, "use a kernel with CONFIG_SECCOMP_FILTER"),

    AT(STAGE_CODE, ENOSYS, FIX_MEMFD),
    AT(STAGE_IN, ENOSYS, FIX_MEMFD),

    AT(STAGE_CODE, ENOENT,
       "name an existing file in --code, or give the text on standard input: "
       "--code -"),
    AT(STAGE_CODE, EACCES, FIX_READ),
    { STAGE_CODE, 0, CAUSE_NOT_A_FILE, NULL,
      "name one regular file in --code" },
    AT(STAGE_IN, ENOENT,
       "name an existing file in --in; the text after the last colon is the "
       "file's name in the box"),
    AT(STAGE_IN, EACCES, FIX_READ),
    { STAGE_IN, 0, CAUSE_NOT_A_FILE, NULL,
      "give one --in for each file, or copy a whole directory with "
      "--workspace" },
    AT(STAGE_OUT, ENOENT,
       "create its parent directory first: --out creates only the last one"),
    AT(STAGE_OUT, EACCES,
       "name a directory in --out that this user may create"),
    AT(STAGE_OUT, ENOTDIR,
       "name a new or an empty directory in --out"),
    AT(STAGE_WORKSPACE, ENOENT,
       "name an existing directory in --workspace"),
    AT(STAGE_WORKSPACE, ENOTDIR,
       "name a directory in --workspace; for a single file use --in"),

    AT(STAGE_EXEC, ENOSYS,
       "use a kernel of 5.6 or later: openat2 is needed; in a container allow "
       "it in its seccomp profile"),
    AT(STAGE_EXEC, ENOENT,
       "name a program that is in the box: the host's /usr, /bin and /lib are "
       "in it; home directories, /opt and the caller's working directory are "
       "not"),
    AT(STAGE_EXEC, EACCES,
       "name a file that is executable and on an executable mount"),
    AT(STAGE_EXEC, ENOEXEC,
       "give the file a #! line, or name its interpreter as the command"),
    AT(STAGE_EXEC, ELOOP,
       "name the program by its own path: links in /proc are not followed"),
};

#define ADVICE_ROWS  (sizeof(advice_rows) / sizeof(advice_rows[0]))


const char *
advice(stage_t stage, int err, cause_t cause)
{
    size_t               i;
    const advice_row_t  *r;

    for (i = 0; i < ADVICE_ROWS; i++) {
        r = &advice_rows[i];

        if (r->fix
            && (r->cause == CAUSE_NONE || r->cause == cause)
            && (r->stage == STAGE_NONE || r->stage == stage)
            && (r->err == 0 || r->err == err)
            && (r->fact == NULL || r->fact()))
        {
            return r->fix;
        }
    }

    return NULL;
}


bool
advice_is_profile(const char *fix)
{
    return strcmp(fix, FIX_APPARMOR) == 0;
}
