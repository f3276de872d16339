/*
 * To die takes time of a processor, and it is charged to the box's group.  A
 * launcher that ends a box lifts the quota first; one that was killed itself
 * lifts nothing.  Its box is killed by its ties all the same (setup_tie), but
 * hundreds of processes with a twentieth of a processor then die for many
 * seconds, and nothing in the box may have the right to lift its quota.  So
 * a second process outside of it waits for the launcher's end, and does what
 * the launcher would have done.
 *
 * It has a session of its own and blocks every signal, so that what is sent
 * to the launcher's group or from its terminal does not reach it.  It holds
 * the group's directories, the pidfd of the box, and its end of `hangup`:
 * nothing that a caller or a broker takes for a living launcher.  Nobody in
 * the box can name it: it is not in its pid namespace.
 *
 * Who kills the guard together with the launcher gets what there was without
 * it: the box dies in its own time, or when the next start sweeps.
 */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdnoreturn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "run/guard.h"


/*
 * Measured, on two processors: 256 busy processes die within 0.5 s with a
 * whole processor, which is the default; with a half or a quarter of one they
 * take up to 1.6 s, with a twentieth up to 10 s.  Fewer may have much memory
 * to give back.
 */
#define GUARD_CPU     1000              /* thousandths of a processor */
#define GUARD_PIDS    256               /* of a whole one */

#define GUARD_WAIT    30000             /* ms */
#define GUARD_FDS     (2 + 1 + 2 * CGROUP_ATTACH_MAX)


static int guard_heard(int hangup);
static noreturn void guard_run(int hangup, const box_t *box, cgroup_t *cg);
static int guard_leave(int hangup, const box_t *box, cgroup_t *cg);
static int guard_poll(int fd, short events, int ms);


bool
guard_is_needed(const uint64_t limits[LIMIT_COUNT])
{
    return limits[LIMIT_CPU] < GUARD_CPU
           || limits[LIMIT_PIDS] * 1000 > limits[LIMIT_CPU] * GUARD_PIDS;
}


int
guard_start(guard_t *g, const box_t *box, cgroup_t *cg, fault_t *fault)
{
    int  err, pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM|SOCK_CLOEXEC, 0, pair) != 0) {
        return fault_set_cause(fault, STAGE_TIE, errno, CAUSE_GUARD,
                               "the socket of the box's guard cannot be made");
    }

    g->pid = fork();

    if (g->pid == 0) {
        guard_run(pair[1], box, cg);
    }

    err = errno;
    (void) close(pair[1]);

    if (g->pid == -1) {
        g->pid = 0;
        (void) close(pair[0]);
        return fault_set_cause(fault, STAGE_TIE, err, CAUSE_GUARD,
                               "the box's guard cannot be made");
    }

    g->hangup = pair[0];
    g->pidfd = (int) syscall(SYS_pidfd_open, g->pid, 0);

    err = guard_heard(g->hangup);

    if (err != 0) {
        return fault_set_cause(fault, STAGE_TIE, err, CAUSE_GUARD,
                               "the box's guard did not start to watch");
    }

    return 0;
}


/* What the guard says, once: 0, or the errno for which it does not watch. */

static int
guard_heard(int hangup)
{
    int      rc, err;
    ssize_t  n;

    rc = guard_poll(hangup, POLLIN, GUARD_WAIT);

    if (rc != 1) {
        return rc == 0 ? ETIMEDOUT : errno;
    }

    n = recv(hangup, &err, sizeof(err), MSG_DONTWAIT);

    if (n == -1) {
        return errno;
    }

    return n == (ssize_t) sizeof(err) ? err : EPIPE;
}


/* Killed, since it hears no other signal, and reaped. */

void
guard_end(guard_t *g)
{
    if (g->pid == 0) {
        return;
    }

    box_kill_child(g->pidfd, g->pid);

    while (waitpid(g->pid, NULL, 0) == -1 && errno == EINTR) { /* void */ }

    descriptors_close(&g->pidfd, 1);

    (void) close(g->hangup);
    g->pid = 0;
}


static noreturn void
guard_run(int hangup, const box_t *box, cgroup_t *cg)
{
    int  err;

    err = guard_leave(hangup, box, cg) == 0 ? 0 : errno;

    /* a launcher that is gone by now hears nothing, and is seen below */

    if (send(hangup, &err, sizeof(err), MSG_NOSIGNAL) == -1 && errno != EPIPE) {
        err = errno;
    }

    /* what cannot watch is not to take that for the launcher's end */

    if (err != 0 || guard_poll(hangup, POLLRDHUP, -1) != 1) {
        _exit(1);
    }

    /* while it is not readable, the pid is still the box's */

    if (guard_poll(box->pidfd, POLLIN, 0) == 0) {
        (void) syscall(SYS_pidfd_send_signal, box->pidfd, SIGKILL, NULL, 0);
        cg->ops->kill(cg, box->pid);
        (void) guard_poll(box->pidfd, POLLIN, GUARD_WAIT);
    }

    cg->ops->remove(cg);

    _exit(0);
}


/* It leaves the caller's session, directory and descriptors. */

static int
guard_leave(int hangup, const box_t *box, cgroup_t *cg)
{
    int       keep[GUARD_FDS];
    unsigned  i, n;
    sigset_t  set;

    n = 0;
    keep[n++] = hangup;
    keep[n++] = box->pidfd;

    if (cg->lock != -1) {
        keep[n++] = cg->lock;
    }

    for (i = 0; i < CGROUP_ATTACH_MAX; i++) {

        /* what the box joins by is not its */

        cg->attach[i] = -1;

        if (cg->parents[i] != -1) {
            keep[n++] = cg->parents[i];
        }

        if (cg->dirs[i] != -1) {
            keep[n++] = cg->dirs[i];
        }
    }

    (void) sigfillset(&set);

    if (sigprocmask(SIG_SETMASK, &set, NULL) != 0
        || setsid() == -1
        || chdir("/") != 0
        || descriptors_close_but(keep, n) != 0)
    {
        return -1;
    }

    return prctl(PR_SET_NAME, "jail-guard", 0, 0, 0);
}


static int
guard_poll(int fd, short events, int ms)
{
    int            rc;
    struct pollfd  pfd;

    pfd = (struct pollfd) { .fd = fd, .events = events };

    do {
        rc = poll(&pfd, 1, ms);
    } while (rc == -1 && errno == EINTR);

    return rc;
}
