/*
 * The straight line from clone to exec, as one table: what is done, in which
 * order, and why not in another.
 *
 * Until its last steps this process is the launcher's copy with all rights
 * over its new namespaces.  It reads nothing that a task could have made, and
 * it stops at the first step that fails: there is no box with a wall less.
 */

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/ioprio.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/fd_pass.h"
#include "box/report.h"
#include "box/setup.h"
#include "box/wall.h"


#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME   0x80
#endif

#define SETUP_FDS_MAX   (8 + 80)


typedef struct {
    stage_t  stage;
    int    (*run)(setup_t *s);
} setup_step_t;


static int setup_tie(setup_t *s);
static int setup_descriptors(setup_t *s);
static int setup_net(setup_t *s);
static int setup_cgroup(setup_t *s);
static int setup_cgroup_namespace(setup_t *s);
static int setup_hostname(setup_t *s);
static int setup_time(setup_t *s);
static int setup_identity(setup_t *s);
static int setup_scheduling(setup_t *s);
static int setup_privileges(setup_t *s);
static int setup_ready(setup_t *s);


static const setup_step_t  setup_steps[] = {

    /* first, or a launcher that dies now leaves a box behind */
    { STAGE_TIE, setup_tie },

    /* then what the launcher knows and holds, before anything is built */
    { STAGE_DESCRIPTORS, setup_descriptors },

    /* all this while the launcher makes the group and writes the maps */
    { STAGE_NAMESPACES, setup_net },
    { STAGE_NET_LO, doors_loopback },
    { STAGE_NET_ROUTE, routes_local },
    { STAGE_DOORS, doors_open },
    { STAGE_HOSTNAME, setup_hostname },

    /* while /proc/self is still its own: a change of ids takes it away */
    { STAGE_HOSTNAME, setup_time },

    /* before any file is made: its owner must be an id of the box */
    { STAGE_IDENTITY, setup_identity },

    { STAGE_PROPAGATION, mounts_private },
    { STAGE_ROOT, mounts_root },
    { STAGE_MOUNT, mounts_build },

    /*
     * Before memory is used for the task and processes are made, so that
     * they count.  What has been built so far is the same for every box and
     * no larger for any; built by a member of the group it would wait behind
     * the other boxes for the processor.
     */
    { STAGE_CGROUP_ATTACH, setup_cgroup },

    /* after the attach: its root shall be the box's own group */
    { STAGE_CGROUP_NAMESPACE, setup_cgroup_namespace },

    { STAGE_WORKSPACE, mounts_workspace },
    { STAGE_FILES, mounts_files },
    { STAGE_PIVOT, mounts_pivot },

    /* from here on everything takes rights away */
    { STAGE_SCHEDULING, setup_scheduling },
    { STAGE_PRIVILEGES, setup_privileges },

    /* Landlock needs to open its paths, seccomp refuses Landlock's peers */
    { STAGE_LANDLOCK, landlock_enter },
    { STAGE_SECCOMP, seccomp_enter },

    /* and then the launcher says when */
    { STAGE_START, setup_ready },
};


noreturn void
setup_run(const box_spec_t *spec)
{
    pid_t     pid;
    size_t    i;
    setup_t   s;
    sigset_t  set;

    s = (setup_t) { .spec = spec, .root = -1, .work = -1, .children = -1 };

    for (i = 0; i < sizeof(setup_steps) / sizeof(setup_steps[0]); i++) {

        if (setup_steps[i].run(&s) != 0) {
            report_fault(&s, setup_steps[i].stage);
        }
    }

    (void) sigemptyset(&set);
    (void) sigaddset(&set, SIGCHLD);
    (void) sigprocmask(SIG_SETMASK, &set, NULL);

    s.children = signalfd(-1, &set, SFD_CLOEXEC|SFD_NONBLOCK);

    /*
     * A copy of this process would be made for nothing but an exec.  Until
     * that is done this one waits; the death signal ends such a wait, too.
     */

    /* NOLINTNEXTLINE(clang-analyzer-security.insecureAPI.vfork): see above */
    pid = s.children == -1 ? -1 : vfork();

    /* before 6.1 a child with other clocks could not share our memory */

    if (pid == -1 && errno == EINVAL) {
        pid = fork();
    }

    if (pid == 0) {
        spec->wall->run(&s);
        _exit(127);
    }

    if (pid == -1) {
        (void) report_detail(&s, "the main process cannot be made");
        report_fault(&s, STAGE_START);
    }

    /* the launcher takes the end of `sync` for exec: only main may hold it */

    (void) close(spec->sync);
    (void) close(spec->out);
    (void) close(spec->err);

    while (s.ndisks > 0) {
        (void) close(s.disks[--s.ndisks]);
    }

    if (spec->has_stdin) {
        (void) close(spec->in);
    }

    reaper_run(spec->lifeline, s.children, pid);
}


/*
 * The death signal covers the time until pid 1 polls the lifeline; the
 * lifeline covers a launcher that died before the signal was asked for, of
 * which getppid() tells nothing in a new pid namespace.
 */

static int
setup_tie(setup_t *s)
{
    struct pollfd  fd;

    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) {
        return report_detail(s, "the death signal cannot be asked for");
    }

    fd = (struct pollfd) { .fd = s->spec->lifeline, .events = POLLRDHUP };

    switch (poll(&fd, 1, 0)) {

    case 0:
        return 0;

    case -1:
        return report_detail(s, "the launcher cannot be watched");
    }

    _exit(1);
}


/*
 * Whatever the caller had open is closed.  The launcher's argv and environment
 * hold the caller's secrets, and every process of the box may read
 * /proc/1/cmdline: both are wiped.
 */

static int
setup_descriptors(setup_t *s)
{
    int                keep[SETUP_FDS_MAX];
    unsigned           i, n;
    const box_spec_t  *spec;

    spec = s->spec;
    n = 0;

    keep[n++] = spec->sync;
    keep[n++] = spec->lifeline;
    keep[n++] = spec->out;
    keep[n++] = spec->err;

    if (spec->has_stdin) {
        keep[n++] = spec->in;
    }

    for (i = 0; i < spec->nfiles; i++) {
        keep[n++] = spec->files[i].fd;
    }

    if (spec->workspace) {
        keep[n++] = spec->workspace->content;
    }

    if (spec->trust.java_tail && spec->trust.java.base != -1) {
        keep[n++] = spec->trust.java.base;
    }

    if (descriptors_close_but(keep, n) != 0) {
        return report_detail(s, "descriptors cannot be closed");
    }

    explicit_bzero(spec->scrub, spec->scrub_len);

    return prctl(PR_SET_NAME, "init", 0, 0, 0);
}


/* Until here the namespace is the launcher's, and nothing is done in it. */

static int
setup_net(setup_t *s)
{
    if (unshare(CLONE_NEWNET) != 0) {
        return report_detail(s, "the net namespace cannot be made");
    }

    return 0;
}


static int
setup_cgroup(setup_t *s)
{
    unsigned  i;

    if (s->nattach == 0 && !s->spec->is_born_in_group) {
        errno = EPROTO;
        return report_detail(s, "the box has no way into its cgroup");
    }

    for (i = 0; i < s->nattach; i++) {

        if (write(s->attach[i], "0", 1) != 1) {
            return report_detail(s, "the box cannot join its cgroup");
        }

        (void) close(s->attach[i]);
    }

    return 0;
}


static int
setup_cgroup_namespace(setup_t *s)
{
    if (unshare(CLONE_NEWCGROUP) != 0) {
        return report_detail(s, "the cgroup namespace cannot be made");
    }

    return 0;
}


static int
setup_hostname(setup_t *s)
{
    if (sethostname("box", 3) != 0 || setdomainname("", 0) != 0) {
        return report_detail(s, "the host name cannot be set");
    }

    return 0;
}


/*
 * The clocks of what runs in the box start with it: how long the host is up
 * tells one host from another.  No wall, since the offsets can be read; so a
 * kernel or a container without time namespaces, or without this file, gives
 * a box that has the host's clocks.  clone3 could make the namespace as well,
 * but then its offsets can no longer be set.
 */

static int
setup_time(setup_t *s)
{
    int              fd;
    char             text[128];
    struct timespec  mono, boot;

    if (unshare(CLONE_NEWTIME) != 0) {
        return 0;
    }

    fd = open("/proc/self/timens_offsets", O_WRONLY|O_CLOEXEC);

    if (fd == -1) {
        return 0;
    }

    (void) clock_gettime(CLOCK_MONOTONIC, &mono);
    (void) clock_gettime(CLOCK_BOOTTIME, &boot);

    (void) snprintf(text, sizeof(text), "monotonic %lld 0\nboottime %lld 0\n",
                    -(long long) mono.tv_sec, -(long long) boot.tv_sec);
    (void) !write(fd, text, strlen(text));

    return close(fd);
}


/*
 * Root's groups must go, and its launcher maps ids with the right to set
 * them.  An ordinary user may only map its own id once setgroups is denied;
 * its groups stay, unnamed and without use for a file of the box.
 */

static int
setup_identity(setup_t *s)
{
    uid_t  ruid, euid, suid;
    gid_t  rgid, egid, sgid;

    if (report_wait(s, SYNC_MAPPED) != 0) {
        return report_detail(s, "the launcher did not map the ids");
    }

    if ((s->spec->is_root && setgroups(0, NULL) != 0)
        || setresgid(BOX_UID, BOX_UID, BOX_UID) != 0
        || setresuid(BOX_UID, BOX_UID, BOX_UID) != 0)
    {
        return report_detail(s, "the box's ids cannot be taken");
    }

    if (getresuid(&ruid, &euid, &suid) != 0
        || getresgid(&rgid, &egid, &sgid) != 0
        || ruid != BOX_UID || euid != BOX_UID || suid != BOX_UID
        || rgid != BOX_UID || egid != BOX_UID || sgid != BOX_UID)
    {
        errno = EPERM;
        return report_detail(s, "the box's ids were not taken");
    }

    /* a change of ids forgets the death signal */

    return setup_tie(s);
}


/* A launcher's urgency is not the task's; its modesty is. */

static int
setup_scheduling(setup_t *s)
{
    long                prio;
    struct sched_param  param;

    param = (struct sched_param) { 0 };

    if (sched_getscheduler(0) != SCHED_BATCH
        && sched_getscheduler(0) != SCHED_IDLE
        && sched_setscheduler(0, SCHED_OTHER, &param) != 0)
    {
        return report_detail(s, "the scheduling policy cannot be reset");
    }

    errno = 0;

    if (getpriority(PRIO_PROCESS, 0) < 0
        && setpriority(PRIO_PROCESS, 0, 0) != 0)
    {
        return report_detail(s, "the priority cannot be reset");
    }

    /* before everybody else at the disks, as root may be */

    prio = syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0);

    if (prio != -1 && IOPRIO_PRIO_CLASS(prio) == IOPRIO_CLASS_RT
        && syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, 0) != 0)
    {
        return report_detail(s, "the priority at disks cannot be reset");
    }

    return 0;
}


/*
 * The bounding set first, while CAP_SETPCAP is there; then all the others.
 * Undumpable, so that the task, which has the same id, can neither trace
 * pid 1 nor open what /proc shows of it; execve makes the main process
 * dumpable again.
 */

static int
setup_privileges(setup_t *s)
{
    int                             cap;
    struct __user_cap_data_struct   none[2];
    struct __user_cap_header_struct header;

    for (cap = 0; prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0; cap++) {
        /* void */
    }

    /* the end is the first that the kernel does not know */

    if (errno != EINVAL || cap == 0) {
        return report_detail(s, "capability %d cannot be dropped", cap);
    }

    header = (struct __user_cap_header_struct) {
        .version = _LINUX_CAPABILITY_VERSION_3
    };

    (void) memset(none, 0, sizeof(none));

    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0
        || syscall(SYS_capset, &header, none) != 0)
    {
        return report_detail(s, "the capabilities cannot be dropped");
    }

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
        || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
    {
        return report_detail(s, "no_new_privs cannot be set");
    }

    /* a caller without randomized addresses (setarch -R) is not a reason */

    if (personality(PER_LINUX) == -1) {
        return report_detail(s, "the personality cannot be reset");
    }

    return 0;
}


static int
setup_ready(setup_t *s)
{
    if (report_wait(s, SYNC_GO) != 0) {
        return report_detail(s, "the launcher did not start the task");
    }

    return 0;
}
