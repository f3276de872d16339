/*
 * What the task leaves in its directories, taken when the box is dead.
 */

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "files/beneath.h"
#include "run/run_task.h"


static void run_copy_back(run_t *r);


/*
 * What the task left is taken whatever its end was: what a task that ran out
 * of time has written so far is often what tells why.  The broker has been told
 * by now, and the memory that holds the files is still the box's.
 */

void
run_collect(run_t *r)
{
    const supervise_t  *s;

    s = &r->supervise;

    if (s->started && s->is_reaped && r->artifacts.dir != -1
        && s->ndisks > BOX_DISK_OUT)
    {
        (void) artifacts_take(&r->artifacts, s->disks[BOX_DISK_OUT],
                            &r->result.fault);

        r->result.artifacts = json_incref(r->artifacts.artifacts);
        r->result.skipped = json_incref(r->artifacts.skipped);

    } else {
        artifacts_drop(&r->artifacts);
    }

    artifacts_free(&r->artifacts);

    if (r->workspace.dir != -1) {
        run_copy_back(r);
    }

    workspace_free(&r->workspace);
}


/*
 * Copied back is only what a command that ended by itself has left: one that
 * was killed, or that failed for want of room, was in the middle of something.
 */

static void
run_copy_back(run_t *r)
{
    int           work;
    result_t     *result;
    supervise_t  *s;

    s = &r->supervise;
    result = &r->result;
    work = -1;

    if (s->started && s->is_reaped && s->ndisks > BOX_DISK_WORK
        && (result->reason == REASON_OK || result->reason == REASON_NONZERO))
    {
        work = beneath_open(s->disks[BOX_DISK_WORK],
                            box_has_tmp(&r->spec) ? "." : "work",
                            O_RDONLY|O_DIRECTORY);

        if (work == -1) {
            (void) fault_set(&result->fault, STAGE_WORKSPACE, errno,
                             BOX_WORK " is gone from the box");
        }
    }

    (void) workspace_take(&r->workspace, work, &result->fault);
    result->workspace = json_incref(r->workspace.result);

    descriptors_close(&work, 1);
}
