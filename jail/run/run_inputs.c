/*
 * What the caller gives: files, variables, and the directories that are
 * filled when the box is gone.  Read while the launcher is nothing but its
 * caller, before anything is built.
 */

#include <errno.h>
#include <string.h>

#include "base/host.h"
#include "run/run_task.h"


static uint64_t run_work_bytes(const run_t *r);


/*
 * A box cannot hold another: its filter refuses namespaces, and no cgroup
 * is in it.  Said here, since each of these would be a riddle.
 */

int
run_nested(run_t *r)
{
    if (host_is_box()) {
        return fault_set(&r->result.fault, STAGE_NESTED, 0,
                         "this is already inside a box");
    }

    return 0;
}


int
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


int
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


int
run_out(run_t *r)
{
    return r->options->out ? artifacts_prepare(&r->artifacts, r->options->out,
                                             &r->result.fault)
                           : 0;
}


int
run_lock(run_t *r)
{
    return r->options->workspace ? workspace_lock(&r->workspace,
                                                  r->options->workspace,
                                                  &r->result.fault)
                                 : 0;
}


/* It is read when it is known how much of it the box can hold. */

int
run_workspace(run_t *r)
{
    unsigned  i;
    uint64_t  max, half;

    if (r->workspace.dir == -1) {
        return 0;
    }

    max = run_work_bytes(r);
    half = r->spec.memory / 2;

    for (i = 0; i < r->spec.nfiles; i++) {
        half -= r->files[i].size;
    }

    if (max > half) {
        max = half;
    }

    r->spec.workspace = &r->workspace.before;

    return workspace_read(&r->workspace, max, &r->result.fault);
}


static uint64_t
run_work_bytes(const run_t *r)
{
    unsigned  i;

    for (i = 0; i < r->spec.nwritable; i++) {
        if (strcmp(r->spec.writable[i].path, BOX_WORK) == 0) {
            return r->spec.writable[i].bytes;
        }
    }

    return BOX_WORK_BYTES;
}
