/*
 * What a task must not be able to do, tried.  Each row has a control: a
 * harmless action of the same kind, which must work, or the refusal would
 * prove nothing (a process without sockets cannot connect either).
 */

#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "doctor/layer.h"
#include "doctor/target.h"


/*
 * Inside, each in a child of its own: 0 if the action succeeded, else errno.
 * arg is the row's.
 */
typedef int attempt_call_t(const target_t *t, const char *arg);


/*
 * attempt_main.c: makes all of them, inside; the arguments are those after
 * --attempt.  Prints the results as a JSON array.
 */
int attempt_main(int argc, char **argv);

/* The title of an attempt, for people; NULL if there is no such attempt. */
const char *attempt_title(const char *name);

/*
 * attempt_run.c: from outside, in a box or in a plain child.  set is "all"
 * (in a box only) or "doors" (those that may be tried anywhere).  The results
 * as an array, or NULL with what happened in error (and in r, if not NULL, the
 * stage and errno of a box that was not made).
 */
json_t *attempt_run(const target_t *t, const char *set, bool in_box,
    layer_result_t *r, char *error, size_t cap);

/* attempt.c: helpers of several attempts */
int attempt_open(const char *path, int flags);
int attempt_connect(const char *address, unsigned port);

/* attempt_doors.c: the four doors that a plain child process leaves open */
attempt_call_t  attempt_variable, attempt_read, attempt_target_port,
                attempt_loopback, attempt_leave, attempt_fork;

/* attempt_refused.c: what a box refuses, and a host might not */
attempt_call_t  attempt_address, attempt_create, attempt_process,
                attempt_own_process, attempt_on_child, attempt_mkdir,
                attempt_tty, attempt_setuid;
