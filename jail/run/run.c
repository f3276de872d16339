/*
 * The order matters: the caller's files first, while the launcher is nothing
 * but the caller; then the broker, whose policy says what to build; then the
 * limits, so that no process of the box is ever without them; then the box.
 * What was made is undone in the reverse order, whatever failed.
 */

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "box/wall.h"
#include "run/raw.h"
#include "run/run.h"
#include "run/run_task.h"


static void run_init(run_t *r, options_t *options);
static void run_close(run_t *r);
static void run_settle(run_t *r);
static int run_print(run_t *r);


static run_step_t *const  run_steps[] = {

    /* run_inputs.c: what the caller gives, read with the caller's rights */
    run_nested,
    run_files,
    run_variables,
    run_secrets,
    run_out,
    run_lock,

    /* run_policy.c: the task is asked for; from here on it is audited */
    run_open,

    /* run_box.c: what needs no policy, until the broker answers */
    run_cgroup,
    run_plan,

    /* run_policy.c: what the task may have */
    run_opened,
    run_readable,
    run_trust,
    run_limits,

    /* run_inputs.c: known by now is how much of it the box can hold */
    run_workspace,
    run_workspace_secrets,

    /* run_box.c: the program, and the box until it is gone */
    run_program,
    run_signals,
    run_box
};


int
run(options_t *options, char *scrub, size_t scrub_len)
{
    int           status;
    size_t        i;
    fault_t      *fault;
    verdict_t    *verdict;
    static run_t  r;

    run_init(&r, options);
    r.spec.scrub = scrub;
    r.spec.scrub_len = scrub_len;

    fault = &r.result.fault;
    verdict = &r.supervise.verdict;

    for (i = 0; i < sizeof(run_steps) / sizeof(run_steps[0]); i++) {

        if (run_steps[i](&r) != 0) {

            if (verdict->cause == REASON_OK) {
                verdict->cause = REASON_SETUP;
            }

            break;
        }
    }

    /* the steps find as well what no broker or box is needed to refuse */

    if (fault->stage == STAGE_USAGE) {
        run_close(&r);
        (void) fprintf(stderr, "jail: %s\n", fault->message);
        status = STATUS_USAGE;

    } else {
        result_judge(&r.result, verdict);
        run_close(&r);

        if (options->raw) {
            raw_print(&r.result);
            status = raw_status(&r.result, r.supervise.canceled);

        } else {
            status = run_print(&r);
        }
    }

    result_free(&r.result);

    return status;
}


static void
run_init(run_t *r, options_t *options)
{
    size_t         seed;
    struct rlimit  files;

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

    r->options = options;
    r->spec.files = r->files;
    r->spec.has_stdin = options->has_stdin;
    r->box = (box_t) { -1, -1, -1, -1, -1, -1, -1, NULL };
    r->artifacts.dir = -1;
    r->workspace.dir = -1;
    r->workspace.before.content = -1;

    r->spec.wall = wall_find(WALL_DEFAULT, &r->result.fault);

    limits_default(r->result.limits);
    cgroup_clear(&r->cgroup);

    r->supervise = (supervise_t) {
        .box = &r->box, .broker = &r->broker, .cgroup = &r->cgroup,
        .result = &r->result, .signals = -1
    };
}


static void
run_close(run_t *r)
{
    result_t        *result;
    broker_close_t   end;

    result = &r->result;

    /* a step failed before the answer was read */

    if (r->broker.state == BROKER_ASKED) {
        run_settle(r);
    }

    end = (broker_close_t) {
        .reason = result->fault.stage == STAGE_USAGE
                  ? result_reason_name(REASON_SETUP)
                  : result_reason_name(result->reason),
        .exit_code = result->exit_code,
        .wall_ms = result->wall_ms,
        .cpu_ms = result->cpu_ms,
        .memory_peak = result->memory_peak,
        .pids_peak = result->pids_peak,
        .disk_bytes = result->disk_bytes
    };

    /* the broker writes the end of the task while its rest is removed */

    broker_close(&r->broker, &end);

    box_close(&r->box);
    trust_free(&r->spec.trust);
    run_collect(r);

    while (r->supervise.ndisks > 0) {
        (void) close(r->supervise.disks[--r->supervise.ndisks]);
    }

    guard_end(&r->guard);

    if (r->cgroup.ops) {
        r->cgroup.ops->remove(&r->cgroup);
    }

    result->egress = broker_closed(&r->broker);
    broker_free(&r->broker);
}


/* The first fault is the one that is told. */

static void
run_settle(run_t *r)
{
    fault_t  first;

    first = r->result.fault;
    (void) run_opened(r);
    r->result.fault = first;
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
