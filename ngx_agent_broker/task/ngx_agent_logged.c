/*
 * What a task adds to access.log and error.log, over all workers.  A worker
 * takes a part of the task's `log_bytes` at a time, and the zone's lock only
 * then.
 */


#include "task/ngx_agent_zone.h"


#define NGX_AGENT_LOGGED_PARTS  64          /* of the bound */


ngx_uint_t
ngx_agent_logged(ngx_agent_task_t *task, size_t n)
{
    uint64_t           part, left;
    ngx_uint_t         is_first, is_past;
    ngx_agent_slot_t  *slot;

    if (n <= task->logged) {
        task->logged -= n;
        return 1;
    }

    is_first = 0;
    is_past = 0;

    slot = ngx_agent_slot_lock(task->id);

    if (slot) {
        left = slot->bounds[BOUND_LOG_BYTES] - slot->used[BOUND_LOG_BYTES];

        if (n <= task->logged + left) {
            part = slot->bounds[BOUND_LOG_BYTES] / NGX_AGENT_LOGGED_PARTS;
            part = ngx_max(part, n - task->logged);
            part = ngx_min(part, left);

            slot->used[BOUND_LOG_BYTES] += part;
            task->logged += part - n;

        } else {
            is_past = 1;
            is_first = (slot->unlogged++ == 0);
        }
    }

    ngx_agent_slot_unlock();

    if (is_first) {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "task %*s of policy \"%s\" has used up its "
                      "\"log_bytes\": access.log and error.log have no more "
                      "of it, the audit has all",
                      (size_t) PROTOCOL_ID_LEN, task->id, task->policy);
    }

    return !is_past;
}
