/*
 * The result object.  Every key is there in every result, whatever happened,
 * so that a caller asks for none in vain.
 */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "box/wall.h"
#include "run/result.h"
#include "box/seccomp_table.h"


static const char *const  reason_names[REASON_COUNT] = {
    [REASON_OK] = "ok",
    [REASON_NONZERO] = "nonzero",
    [REASON_SIGNAL] = "signal",
    [REASON_TIMEOUT] = "timeout",
    [REASON_CPU_TIME] = "cpu_time",
    [REASON_OOM] = "oom",
    [REASON_PIDS] = "pids",
    [REASON_DISK] = "disk",
    [REASON_OUTPUT] = "output",
    [REASON_CANCELED] = "canceled",
    [REASON_SETUP] = "setup",
    [REASON_EXEC] = "exec",
    [REASON_BROKER] = "broker",
    [REASON_INTERNAL] = "internal",
};


static json_t *result_stream(output_t *out, json_t **cut);
static json_t *result_limits(const result_t *r);
static json_t *result_near(const result_t *r);
static json_t *result_list(json_t *list);
static json_t *result_error(const fault_t *fault);
static json_t *result_words(const char *words);
static json_t *result_signal(int sig);


const char *
result_reason_name(reason_t reason)
{
    return reason_names[reason];
}


/*
 * What the launcher did comes first: the end it saw then is its own doing.
 * Then the kernel's kills for memory, even of a process other than the main
 * one: the task's result cannot be trusted to be whole.  Then the limits
 * that make calls fail, if the program failed too.
 */

void
result_judge(result_t *r, const verdict_t *v)
{
    bool  failed;

    r->exit_code = -1;
    r->signal = 0;
    failed = !v->ended || v->status != 0;

    if (v->ended && v->cause != REASON_EXEC && v->cause != REASON_SETUP) {

        if (WIFEXITED(v->status)) {
            r->exit_code = WEXITSTATUS(v->status);

        } else if (WIFSIGNALED(v->status)) {
            r->signal = WTERMSIG(v->status);
        }
    }

    if (v->cause != REASON_OK) {
        r->reason = v->cause;

    } else if (v->oom_kills > 0) {
        r->reason = REASON_OOM;

    } else if (!v->ended) {
        r->reason = REASON_INTERNAL;
        (void) fault_set(&r->fault, STAGE_RUN, 0,
                         "the box's init was killed from outside the box");

    } else if (failed && v->pids_refused > 0) {
        r->reason = REASON_PIDS;

    } else if (failed && v->disk_full) {
        r->reason = REASON_DISK;

    } else if (r->signal) {
        r->reason = REASON_SIGNAL;

    } else {
        r->reason = failed ? REASON_NONZERO : REASON_OK;
    }

    /* the kernel or the launcher, whoever was first: by the same signal */

    if (r->reason == REASON_OOM && r->exit_code == -1) {
        r->signal = SIGKILL;
    }
}


char *
result_text(result_t *r)
{
    char    *text, *line;
    size_t   n;
    json_t  *root, *out, *err, *out_cut, *err_cut;

    out = result_stream(&r->out, &out_cut);
    err = result_stream(&r->err, &err_cut);

    root = json_pack("{s:s, s:o, s:o, s:b,"
                     " s:i, s:s, s:o, s:o, s:o,"
                     " s:{s:o, s:o}, s:{s:I, s:I},"
                     " s:o,"
                     " s:{s:I, s:I, s:I, s:I, s:I},"
                     " s:o, s:O*, s:o, s:o, s:o,"
                     " s:{s:s?, s:s?, s:s?, s:s?, s:s?, s:o, s:s?}}",

                     "task_id", r->task_id,
                     "stdout", out,
                     "exit_code", r->exit_code < 0
                                  ? json_null() : json_integer(r->exit_code),
                     "timed_out", r->reason == REASON_TIMEOUT,

                     "schema", RESULT_SCHEMA,
                     "reason", result_reason_name(r->reason),
                     "signal", result_signal(r->signal),
                     "stderr", err,
                     "error", result_error(&r->fault),

                     "truncated", "stdout", out_cut, "stderr", err_cut,
                     "bytes", "stdout", (json_int_t) r->out.bytes,
                              "stderr", (json_int_t) r->err.bytes,

                     "limits", result_limits(r),

                     "usage", "wall_ms", (json_int_t) r->wall_ms,
                              "cpu_ms", (json_int_t) r->cpu_ms,
                              "memory_peak", (json_int_t) r->memory_peak,
                              "pids_peak", (json_int_t) r->pids_peak,
                              "disk_bytes", (json_int_t) r->disk_bytes,

                     "near_limits", result_near(r),
                     "egress", r->egress ? r->egress : json_null(),
                     "artifacts", result_list(r->artifacts),
                     "artifacts_skipped", result_list(r->skipped),
                     "workspace", r->workspace ? json_incref(r->workspace)
                                               : json_null(),

                     "enforced", "isolation", r->wall ? r->wall->name : NULL,
                                 "kernel", r->wall ? r->wall->kernel : NULL,
                                 "broker", r->wall && r->broker ? "1" : NULL,
                                 "cgroup", r->wall ? r->cgroup : NULL,
                                 "seccomp", r->wall ? SECCOMP_PROFILE : NULL,
                                 "landlock", r->wall
                                             ? json_integer(r->landlock)
                                             : json_null(),
                                 "policy_hash", r->policy_hash[0]
                                                ? r->policy_hash : NULL);

    if (root == NULL) {
        return NULL;
    }

    text = json_dumps(root, JSON_COMPACT);
    json_decref(root);

    if (text == NULL) {
        return NULL;
    }

    n = strlen(text);
    line = realloc(text, n + 2);

    if (line == NULL) {
        free(text);
        return NULL;
    }

    line[n] = '\n';
    line[n + 1] = '\0';

    return line;
}


void
result_free(result_t *r)
{
    output_free(&r->out);
    output_free(&r->err);
    json_decref(r->egress);
    json_decref(r->artifacts);
    json_decref(r->skipped);
    json_decref(r->workspace);
    r->egress = NULL;
    r->artifacts = NULL;
    r->skipped = NULL;
    r->workspace = NULL;
}


char *
result_limits_text(const result_t *r)
{
    char    *text;
    json_t  *object;

    object = result_limits(r);
    text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);

    return text;
}


const char *
result_use_name(unsigned use)
{
    return use == RESULT_BYTES ? "disk" : use == RESULT_INODES
           ? "inodes" : limit_table[use].directive;
}


static json_t *
result_stream(output_t *out, json_t **cut)
{
    bool     is_cut;
    char    *text;
    size_t   n;
    json_t  *value;

    is_cut = false;
    text = output_text(out, &n, &is_cut);
    value = text ? json_stringn_nocheck(text, n) : NULL;
    *cut = json_boolean(is_cut);
    free(text);

    return value;
}


static json_t *
result_limits(const result_t *r)
{
    json_t    *object;
    unsigned   i;

    object = json_object();

    for (i = 0; object && i < LIMIT_COUNT; i++) {
        (void) json_object_set_new(object, limit_table[i].key,
                                   limit_table[i].unit == UNIT_CORES
                                   ? json_real((double) r->limits[i] / 1000)
                                   : json_integer((json_int_t) r->limits[i]));
    }

    return object;
}


static json_t *
result_near(const result_t *r)
{
    json_t    *array;
    unsigned   i;

    array = json_array();

    for (i = 0; array && i < RESULT_USES; i++) {
        if (r->uses[i].near) {
            (void) json_array_append_new(array,
                         json_pack("{s:s, s:I, s:I}",
                                   "limit", result_use_name(i),
                                   "used", (json_int_t) r->uses[i].used,
                                   "max", (json_int_t) r->uses[i].max));
        }
    }

    return array;
}


static json_t *
result_list(json_t *list)
{
    return list ? json_incref(list) : json_array();
}


static json_t *
result_error(const fault_t *fault)
{
    if (fault->stage == STAGE_NONE) {
        return json_null();
    }

    return json_pack("{s:s, s:s?, s:o, s:o}",
                     "stage", fault_stage_name(fault->stage),
                     "errno", fault_errno_name(fault->err),
                     "message", result_words(fault->message),
                     "fix", fault->fix[0] ? result_words(fault->fix)
                                          : json_null());
}


/* Text with a path or a program's name in it, which may be any bytes. */

static json_t *
result_words(const char *words)
{
    size_t    n;
    json_t   *value, *cut;
    output_t  out;

    n = strlen(words);

    output_init(&out, n + 1);
    output_add(&out, words, n);
    value = result_stream(&out, &cut);
    json_decref(cut);
    output_free(&out);

    return value;
}


static json_t *
result_signal(int sig)
{
    char         name[32];
    const char  *abbrev;

    if (sig == 0) {
        return json_null();
    }

    abbrev = sigabbrev_np(sig);

    if (abbrev) {
        (void) snprintf(name, sizeof(name), "SIG%s", abbrev);

    } else {
        (void) snprintf(name, sizeof(name), "SIG%d", sig);
    }

    return json_string(name);
}
