/*
 * The attempts from outside: this program, started once more inside a box or
 * as a plain child, and what it printed.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor/attempt.h"


#define ATTEMPT_OUTPUT_MAX  65536


/*
 * In a box this program is the file of --code, which is not executable and
 * whose path is the last word; an executable copy goes into the working
 * directory.
 */

static const char  attempt_script[] =
    "cp \"$6\" doctor && chmod 0700 doctor && exec ./doctor doctor "
    "--attempt \"$1\" \"$2\" \"$3\" \"$4\" \"$5\"";


static json_t *attempt_result(const char *text, layer_result_t *r,
    char *error, size_t cap);
static json_t *attempt_report(const char *text, char *error, size_t cap);
static void attempt_fault(const json_t *fault, layer_result_t *r);


json_t *
attempt_run(const target_t *t, const char *set, bool in_box,
    layer_result_t *r, char *error, size_t cap)
{
    int          out[2];
    char         text[ATTEMPT_OUTPUT_MAX];
    FILE        *f;
    pid_t        pid;
    size_t       len;

    const char *const  box[] = {
        "jail", "run", "--offline", "--code", "/proc/self/exe", "--",
        "/bin/sh", "-c", attempt_script, "sh",
        set, t->port, t->file, t->name, t->left, NULL
    };
    const char *const  plain[] = {
        "jail", "doctor", "--attempt",
        set, t->port, t->file, t->name, t->left, NULL
    };

    if (pipe2(out, O_CLOEXEC) != 0) {
        (void) snprintf(error, cap, "pipe: %s", strerror(errno));
        return NULL;
    }

    pid = fork();

    if (pid == 0) {
        (void) dup2(out[1], STDOUT_FILENO);
        (void) execv("/proc/self/exe", (char **) (in_box ? box : plain));
        _exit(127);
    }

    if (pid == -1) {
        (void) snprintf(error, cap, "fork: %s", strerror(errno));
    }

    (void) close(out[1]);
    f = fdopen(out[0], "r");
    len = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
    text[len] = '\0';

    if (f) {
        (void) fclose(f);
    }

    if (pid == -1) {
        return NULL;
    }

    while (waitpid(pid, NULL, 0) == -1 && errno == EINTR) { /* void */ }

    return in_box ? attempt_result(text, r, error, cap)
                  : attempt_report(text, error, cap);
}


/* The result of `jail run`, whose "stdout" is the report. */

static json_t *
attempt_result(const char *text, layer_result_t *r, char *error, size_t cap)
{
    json_t      *result, *report, *fault;
    const char  *reason, *out, *err;

    result = json_loads(text, 0, NULL);

    if (result == NULL) {
        (void) snprintf(error, cap, "jail run printed no result");
        return NULL;
    }

    report = NULL;
    fault = NULL;
    reason = NULL;
    out = NULL;
    err = NULL;
    (void) json_unpack(result, "{s?o, s?s, s?s, s?s}", "error", &fault,
                       "reason", &reason, "stdout", &out, "stderr", &err);

    if (json_is_object(fault)) {
        out = json_string_value(json_object_get(fault, "message"));
        (void) snprintf(error, cap, "%s", out ? out : "the box failed");

        if (r) {
            attempt_fault(fault, r);
        }

    } else if (reason == NULL || strcmp(reason, "ok") != 0 || out == NULL) {
        (void) snprintf(error, cap, "the box ended with \"%s\"; stderr: %.200s",
                        reason ? reason : "unknown", err ? err : "");

    } else {
        report = attempt_report(out, error, cap);
    }

    json_decref(result);

    return report;
}


static json_t *
attempt_report(const char *text, char *error, size_t cap)
{
    json_t  *report;

    report = json_loads(text, 0, NULL);

    if (json_array_size(report) == 0) {
        (void) snprintf(error, cap, "the attempts printed no report");
        json_decref(report);
        return NULL;
    }

    return report;
}


/* The fault of another launcher, from the names of stage and errno. */

static void
attempt_fault(const json_t *fault, layer_result_t *r)
{
    int          err;
    stage_t      stage;
    const char  *name, *fix;

    name = json_string_value(json_object_get(fault, "stage"));

    for (stage = STAGE_NONE; name && stage < STAGE_COUNT; stage++) {
        if (strcmp(fault_stage_name(stage), name) == 0) {
            r->stage = stage;
        }
    }

    name = json_string_value(json_object_get(fault, "errno"));

    for (err = 1; name && err < 256; err++) {
        if (fault_errno_name(err) && strcmp(fault_errno_name(err), name) == 0) {
            r->err = err;
            break;
        }
    }

    fix = json_string_value(json_object_get(fault, "fix"));
    (void) snprintf(r->fix, sizeof(r->fix), "%s", fix ? fix : "");
}
