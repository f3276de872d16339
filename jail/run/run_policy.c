/*
 * What the task may have: the broker's policy, or what --offline gives; and
 * whether this host and the caller's wishes fit it.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "files/readable.h"
#include "run/run_task.h"


static int run_unlisted(run_t *r, const char *const *list, unsigned n);


int
run_open(run_t *r)
{
    size_t            i;
    options_t        *o;
    unsigned char     id[PROTOCOL_ID_LEN / 2];
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

        return 0;
    }

    request = (broker_request_t) {
        .policy = o->policy,
        .external_id = o->external_id,
        .label = o->label,
        .code_sha256 = o->code ? r->hash : NULL,
        .variables = &r->variables
    };

    r->result.broker = true;

    return broker_open(&r->broker, o->control, &request, &r->result.fault);
}


/* Whatever happens meanwhile, a task that the broker has made gets its end. */

int
run_opened(run_t *r)
{
    unsigned     i;
    const char  *list[BOX_ENV_MAX];

    if (r->options->offline) {
        return run_unlisted(r, NULL, 0);
    }

    if (broker_opened(&r->broker, r->result.limits, &r->spec,
                      &r->result.fault)
        != 0)
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


/*
 * The broker refuses such a name as well; that by itself is not enough to
 * build a box.
 */

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
                     "--env %.*s: %s", (int) len, name,
                     r->options->offline
                     ? "no variable may be set with --offline"
                     : "the policy's \"env\" does not list this variable: ask "
                       "its operator to add it, or leave it out");
}


int
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


int
run_trust(run_t *r)
{
    return trust_prepare(&r->spec.trust, r->spec.readable, r->spec.nreadable,
                         &r->result.fault);
}


/* A flag may tighten what the policy gives, never loosen it. */

int
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
