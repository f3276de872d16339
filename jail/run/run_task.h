/*
 * One task on its way from the options to the result, for the steps of run.c.
 */

#pragma once

#include "box/box.h"
#include "broker/broker.h"
#include "cgroup/cgroup.h"
#include "files/artifacts.h"
#include "run/guard.h"
#include "run/options.h"
#include "run/result.h"
#include "run/supervise.h"
#include "env/variables.h"
#include "files/workspace.h"


typedef struct {
    options_t      *options;
    box_spec_t      spec;
    box_t           box;
    broker_t        broker;
    cgroup_t        cgroup;
    guard_t         guard;
    result_t        result;
    supervise_t     supervise;
    task_file_t     files[OPTIONS_IN_MAX + 1];
    char            hash[COPY_HASH_LEN + 1];
    variables_t     variables;
    artifacts_t     artifacts;
    workspace_t     workspace;
    stream_t        in;
    stream_t        out;
    stream_t        err;
} run_t;


/*
 * A step: 0, or -1 with the fault in the result or, in the verdict, why the
 * box was ended.  run.c has their order.
 */
typedef int run_step_t(run_t *r);

/* run_inputs.c */
run_step_t  run_nested, run_files, run_variables, run_out, run_lock,
            run_workspace;

/* run_secrets.c */
run_step_t  run_secrets, run_workspace_secrets;

/* run_policy.c */
run_step_t  run_open, run_opened, run_readable, run_trust, run_limits;

/* run_box.c */
run_step_t  run_cgroup, run_plan, run_program, run_signals, run_box;

/*
 * run_collect.c: after the end of the box, whatever that was, takes the task's
 * files, or gives the places back.
 */
void run_collect(run_t *r);
