/*
 * One task, as run.c and run_take.c see it.
 */

#ifndef JAIL_RUN_TASK_H
#define JAIL_RUN_TASK_H

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


/* Steps on the way to the box: places for what the task leaves. */

int run_out(run_t *r);
int run_lock(run_t *r);
int run_workspace(run_t *r);

/*
 * After the end of the box, whatever that was: takes the task's files, or
 * gives the places back.
 */
void run_take(run_t *r);


#endif /* JAIL_RUN_TASK_H */
