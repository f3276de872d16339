/*
 * The order matters: the caller's files first, while the launcher is nothing
 * but the caller; then the broker, whose policy says what to build; then the
 * limits, so that no process of the box is ever without them; then the box.
 * What was made is undone in the reverse order, whatever failed.
 */

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <unistd.h>

#include "env/env.h"
#include "base/host.h"
#include "box/landlock.h"
#include "box/wall.h"
#include "run/raw.h"
#include "files/readable.h"
#include "run/run.h"
#include "run/run_task.h"


#define RUN_TICK       100000           /* us */
#define RUN_SWEEP_MAX  64               /* directories looked at in a start */


static int run_nested(run_t *r);
static int run_files(run_t *r);
static int run_variables(run_t *r);
static int run_open(run_t *r);
static int run_readable(run_t *r);
static int run_unlisted(run_t *r, const char *const *list, unsigned n);
static int run_trust(run_t *r);
static int run_limits(run_t *r);
static int run_cgroup(run_t *r);
static int run_program(run_t *r);
static int run_signals(run_t *r);
static int run_box(run_t *r);
static void run_streams(run_t *r);
static void run_tick(int sig);
static void run_close(run_t *r);
static int run_print(run_t *r);


int
run(options_t *options, char *scrub, size_t scrub_len)
{
    int            status;
    size_t         seed;
    unsigned       i;
    struct rlimit  files;
    static run_t   r;

    static int  (*const steps[])(run_t *r) = {
        run_nested, run_files, run_variables, run_out, run_lock,
        run_open, run_readable, run_trust, run_limits, run_workspace,
        run_cgroup, run_program, run_signals,
        run_box
    };

    /*
     * Descriptors are handed over while the box is made, and the kernel lets
     * a user hand over none while its processes, the tasks of other boxes as
     * well, have more than this limit on their way.
     */

    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void) setrlimit(RLIMIT_NOFILE, &files);
    }

    /* or the library would open a device for its own */

    if (getrandom(&seed, sizeof(seed), 0) == (ssize_t) sizeof(seed)) {
        json_object_seed(seed);
    }

    r.options = options;
    r.spec.scrub = scrub;
    r.spec.scrub_len = scrub_len;
    r.spec.files = r.files;
    r.box = (box_t) { -1, -1, -1, -1, -1, -1, -1, NULL };
    r.spec.has_stdin = options->has_stdin;
    r.artifacts.dir = -1;
    r.workspace.dir = -1;
    r.workspace.before.content = -1;

    r.spec.wall = wall_find(WALL_DEFAULT, &r.result.fault);

    limits_default(r.result.limits);
    cgroup_clear(&r.cgroup);

    r.supervise = (supervise_t) {
        .box = &r.box, .broker = &r.broker, .cgroup = &r.cgroup,
        .result = &r.result, .signals = -1
    };

    for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {

        if (steps[i](&r) != 0) {

            if (r.supervise.verdict.cause == REASON_OK) {
                r.supervise.verdict.cause = REASON_SETUP;
            }

            break;
        }
    }

    if (r.result.fault.stage == STAGE_USAGE) {
        run_close(&r);
        (void) fprintf(stderr, "jail: %s\n", r.result.fault.message);
        status = STATUS_USAGE;

    } else {
        result_judge(&r.result, &r.supervise.verdict);
        run_close(&r);
        if (options->raw) {
            raw_tell(&r.result);
            status = raw_status(&r.result, r.supervise.canceled);

        } else {
            status = run_print(&r);
        }
    }

    result_free(&r.result);

    return status;
}


/*
 * A box cannot hold another: its filter refuses namespaces, and no cgroup
 * is in it.  Said here, since each of these would be a riddle.
 */

static int
run_nested(run_t *r)
{
    if (host_is_box()) {
        return fault_set(&r->result.fault, STAGE_NESTED, 0,
                         "this is already inside a box");
    }

    return 0;
}


static int
run_files(run_t *r)
{
    unsigned      i;
    fault_t      *fault;
    options_t    *o;

    o = r->options;
    fault = &r->result.fault;

    if (o->code) {
        if (files_read_code(&r->files[0], o->code, r->hash, fault) != 0) {
            return -1;
        }

        r->spec.nfiles = 1;
    }

    for (i = 0; i < o->nin; i++) {
        if (files_read_in(&r->files[r->spec.nfiles], o->in[i].path,
                          o->in[i].name, limit_table[LIMIT_MEMORY].max, fault)
            != 0)
        {
            return -1;
        }

        r->spec.nfiles++;
    }

    return 0;
}


static int
run_variables(run_t *r)
{
    unsigned             i;
    fault_t             *fault;
    const option_env_t  *env;

    fault = &r->result.fault;

    for (i = 0; i < r->options->nenv; i++) {
        env = &r->options->env[i];

        if ((env->is_file ? variables_read(&r->variables, env->text, fault)
                          : variables_add(&r->variables, env->text, fault))
            != 0)
        {
            return -1;
        }
    }

    return 0;
}


static int
run_open(run_t *r)
{
    unsigned          i;
    options_t        *o;
    const char       *list[BOX_ENV_MAX];
    unsigned char     id[BROKER_TASK_ID_LEN / 2];
    broker_request_t  request;

    o = r->options;

    if (o->offline) {

        if (getrandom(id, sizeof(id), 0) != (ssize_t) sizeof(id)) {
            return fault_set(&r->result.fault, STAGE_START, errno,
                             "getrandom failed");
        }

        for (i = 0; i < sizeof(id); i++) {
            (void) sprintf(r->result.task_id + 2 * i, "%02x", id[i]);
        }

        return run_unlisted(r, NULL, 0);
    }

    request = (broker_request_t) {
        .policy = o->policy,
        .external_id = o->external_id,
        .label = o->label,
        .code_sha256 = o->code ? r->hash : NULL,
        .variables = &r->variables
    };

    r->result.broker = true;

    if (broker_open(&r->broker, o->control, &request, r->result.limits,
                    &r->spec, &r->result.fault) != 0)
    {
        return -1;
    }

    (void) strcpy(r->result.task_id, r->broker.task_id);
    (void) strcpy(r->result.policy_hash, r->broker.policy_hash);

    for (i = 0; i < r->spec.nenv; i++) {
        list[i] = r->spec.env[i];
    }

    return run_unlisted(r, list, i);
}


/* The broker refuses such a name as well; a box is not built on that alone. */

static int
run_unlisted(run_t *r, const char *const *list, unsigned n)
{
    size_t       len;
    const char  *name;

    len = 0;
    name = variables_unlisted(&r->variables, list, n, &len);

    if (name == NULL) {
        return 0;
    }

    return fault_set(&r->result.fault, STAGE_USAGE, 0,
                     "the variable %.*s is not %s", (int) len, name,
                     r->options->offline
                     ? "one that may be set: --offline allows none"
                     : "in \"env\" of the policy: ask its operator to add it "
                       "there, or leave it out");
}


static int
run_readable(run_t *r)
{
    unsigned  i;

    for (i = 0; i < r->spec.nreadable; i++) {
        if (readable_judge(r->spec.readable[i], &r->result.fault) != 0) {
            return -1;
        }
    }

    return 0;
}


static int
run_trust(run_t *r)
{
    return trust_prepare(&r->spec.trust, r->spec.readable, r->spec.nreadable,
                         &r->result.fault);
}


/* A flag may tighten what the policy gives, never loosen it. */

static int
run_limits(run_t *r)
{
    char       mine[32], theirs[32];
    uint64_t   bytes;
    unsigned   i;

    for (i = 0; i < LIMIT_COUNT; i++) {

        if (!r->options->limit_set[i]) {
            continue;
        }

        if (r->options->limits[i] > r->result.limits[i]) {
            return fault_set(&r->result.fault, STAGE_USAGE, 0,
                             "--%s %s is more than the %s that %s: %s "
                             "\"%s %s;\" in its agent_policy, or leave the "
                             "flag out",
                             limit_table[i].flag,
                             limit_text(i, r->options->limits[i], mine,
                                        sizeof(mine)),
                             limit_text(i, r->result.limits[i], theirs,
                                        sizeof(theirs)),
                             r->options->offline ? "--offline gives"
                                                 : "the policy allows",
                             r->options->offline
                             ? "run under a broker's policy that has"
                             : "ask its operator for",
                             limit_table[i].directive, mine);
        }

        r->result.limits[i] = r->options->limits[i];
    }

    r->spec.memory = r->result.limits[LIMIT_MEMORY];
    r->spec.open_files = r->result.limits[LIMIT_OPEN_FILES];
    bytes = 0;

    for (i = 0; i < r->spec.nfiles; i++) {
        bytes += r->files[i].size;
    }

    /* they are kept in the box's memory, and it needs some for itself */

    if (bytes > r->spec.memory / 2) {
        return fault_set_cause(&r->result.fault, STAGE_IN, 0,
                               CAUSE_FILES_SIZE,
                               "the task's files have more bytes than half "
                               "of its memory limit");
    }

    r->spec.limits = result_limits_text(&r->result);

    if (r->spec.limits == NULL) {
        return fault_set(&r->result.fault, STAGE_START, ENOMEM, "no memory");
    }

    output_init(&r->result.out, r->result.limits[LIMIT_OUTPUT]);
    output_init(&r->result.err, r->result.limits[LIMIT_OUTPUT]);
    output_keep(&r->result.out, r->options->keep);
    output_keep(&r->result.err, r->options->keep);

    return 0;
}


static int
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


static int
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

static int
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


static int
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

    /* while the child is being set up, and before it has anything to run */

    if (rc == 0 && guard_is_needed(r->result.limits)) {
        rc = guard_start(&r->guard, &r->box, &r->cgroup, &late);
    }

    /* the child has its own descriptor, and the memory is to be the box's */

    if (r->workspace.before.content != -1) {
        (void) close(r->workspace.before.content);
        r->workspace.before.content = -1;
    }

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
    (void) sig;
}


static void
run_close(run_t *r)
{
    result_t        *result;
    broker_close_t   end;

    result = &r->result;

    if (r->broker.state != BROKER_NONE) {

        end = (broker_close_t) {
            .reason = result->fault.stage == STAGE_USAGE
                      ? reason_name(REASON_SETUP)
                      : reason_name(result->reason),
            .exit_code = result->exit_code,
            .wall_ms = result->wall_ms,
            .cpu_ms = result->cpu_ms,
            .memory_peak = result->memory_peak,
            .pids_peak = result->pids_peak,
            .disk_bytes = result->disk_bytes
        };

        result->egress = broker_close(&r->broker, &end);
        broker_free(&r->broker);
    }

    box_close(&r->box);
    trust_free(&r->spec.trust);
    run_take(r);

    while (r->supervise.ndisks > 0) {
        (void) close(r->supervise.disks[--r->supervise.ndisks]);
    }

    guard_end(&r->guard);

    if (r->cgroup.ops) {
        r->cgroup.ops->remove(&r->cgroup);
    }
}


static int
run_print(run_t *r)
{
    char     *text;
    size_t    len, done;
    ssize_t   n;

    text = result_text(&r->result);

    if (text == NULL) {
        (void) fputs("jail: no memory for the result\n", stderr);
        return STATUS_SETUP;
    }

    len = strlen(text);

    for (done = 0; done < len; done += (size_t) n) {
        n = write(STDOUT_FILENO, text + done, len - done);

        if (n == -1 && errno == EINTR) {
            n = 0;

        } else if (n == -1) {
            (void) fprintf(stderr, "jail: the result cannot be written: %s\n",
                           strerror(errno));
            free(text);
            return STATUS_SETUP;
        }
    }

    free(text);

    return r->result.reason == REASON_SETUP ? STATUS_SETUP : STATUS_DELIVERED;
}
