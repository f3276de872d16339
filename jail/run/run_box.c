/*
 * The box itself: its cgroup first, so that no process of it is ever without
 * limits, then the program it is to run, then the box, watched to its end.
 */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "box/landlock.h"
#include "box/plan.h"
#include "env/env.h"
#include "run/run_task.h"


#define RUN_TICK       100000           /* us */
#define RUN_SWEEP_MAX  64               /* directories looked at in a start */


static void run_streams(run_t *r);
static void run_tick(int sig);


int
run_cgroup(run_t *r)
{
    const cgroup_ops_t  *ops;

    ops = cgroup_probe(&r->result.fault);

    if (ops == NULL || ops->claim(&r->cgroup, &r->result.fault) != 0) {
        return -1;
    }

    r->result.cgroup = ops->version;
    r->spec.into = r->cgroup.into;

    return box_identity(&r->spec, r->cgroup.slot, &r->result.fault);
}


int
run_plan(run_t *r)
{
    return plan_begin(&r->spec, &r->result.fault);
}


int
run_program(run_t *r)
{
    char  code[sizeof(r->files[0].path) + 1];

    (void) snprintf(code, sizeof(code), "/%s", r->files[0].path);

    r->spec.path = ENV_PATH;
    r->spec.envp = env_build(r->result.limits[LIMIT_CPU],
                             r->result.limits[LIMIT_MEMORY],
                             r->options->offline ? NULL : &r->spec.trust,
                             &r->variables);
    r->spec.argv = env_command(r->options->command,
                               r->options->code ? code : NULL);

    if (r->spec.envp == NULL || r->spec.argv == NULL) {
        return fault_set(&r->result.fault, STAGE_START, ENOMEM, "no memory");
    }

    r->result.landlock = landlock_abi();

    if (r->result.landlock == 0) {
        return fault_set(&r->result.fault, STAGE_LANDLOCK, errno,
                         "the kernel does not offer Landlock");
    }

    return 0;
}


/*
 * A signal that the caller ignores (nohup, a shell's background) stays
 * ignored; SIGTERM always ends the task.
 */

int
run_signals(run_t *r)
{
    size_t            i;
    sigset_t          set;
    struct sigaction  sa;

    static const int  signals[] = { SIGTERM, SIGINT, SIGHUP };

    (void) sigemptyset(&set);

    for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {

        if (signals[i] == SIGTERM
            || sigaction(signals[i], NULL, &sa) != 0
            || sa.sa_handler != SIG_IGN)
        {
            (void) sigaddset(&set, signals[i]);
        }
    }

    if (sigprocmask(SIG_SETMASK, &set, NULL) == 0) {
        r->supervise.signals = signalfd(-1, &set, SFD_CLOEXEC|SFD_NONBLOCK);
    }

    if (r->supervise.signals == -1) {
        return fault_set(&r->result.fault, STAGE_START, errno,
                         "signalfd failed");
    }

    return 0;
}


int
run_box(run_t *r)
{
    int           rc;
    fault_t       late;
    supervise_t  *s;

    s = &r->supervise;
    late = (fault_t) { 0 };

    rc = box_start(&r->box, &r->spec, &late);

    /* while the child waits for its net namespace, the slowest one */

    if (rc == 0
        && (r->cgroup.ops->limit(&r->cgroup, r->result.limits, &late) != 0
            || box_admit(&r->box, &r->spec, r->result.limits,
                         r->cgroup.attach, r->cgroup.nattach, &late) != 0))
    {
        rc = -1;
    }

    if (rc == 0) {
        rc = box_trust(&r->box, &r->spec, &late);
    }

    /* while the child is being set up, and before it has anything to run */

    if (rc == 0 && guard_is_needed(r->result.limits)) {
        rc = guard_start(&r->guard, &r->box, &r->cgroup, &late);
    }

    /* the child has its own descriptor, and the memory must be the box's */

    descriptors_close(&r->workspace.before.content, 1);

    if (r->box.pid > 0) {
        run_streams(r);

        if (rc != 0) {
            supervise_kill(s, REASON_SETUP);

        } else if (cgroup_has_neighbours(&r->cgroup)) {
            /* while the child is busy; what it finds is not of this task */
            (void) r->cgroup.ops->sweep(geteuid(), RUN_SWEEP_MAX);
        }

        supervise_run(s);

        if (s->in || s->out) {
            (void) setitimer(ITIMER_REAL, &(struct itimerval) { 0 }, NULL);
        }
    }

    /* what the child said of its end explains what we saw of it */

    if (r->result.fault.stage == STAGE_NONE) {
        r->result.fault = late;
    }

    return r->result.fault.stage == STAGE_NONE ? 0 : -1;
}


/*
 * The timer interrupts a read or a write of the caller's descriptors that
 * waits after all, because another process uses them as well.
 */

static void
run_streams(run_t *r)
{
    supervise_t       *s;
    struct sigaction   sa;
    struct itimerval   timer;

    s = &r->supervise;

    if (r->options->has_stdin) {
        s->in = &r->in;
        stream_init(s->in, STDIN_FILENO, r->box.in);
    }

    if (r->options->raw) {
        s->out = &r->out;
        s->err = &r->err;
        stream_init(s->out, r->box.out, STDOUT_FILENO);
        stream_init(s->err, r->box.err, STDERR_FILENO);
    }

    if (s->in == NULL && s->out == NULL) {
        return;
    }

    (void) memset(&sa, 0, sizeof(sa));
    sa.sa_handler = run_tick;
    (void) sigaction(SIGALRM, &sa, NULL);

    timer.it_interval = (struct timeval) { 0, RUN_TICK };
    timer.it_value = timer.it_interval;
    (void) setitimer(ITIMER_REAL, &timer, NULL);
}


static void
run_tick(int sig)
{
}
