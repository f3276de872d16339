/*
 * The refusals of a task.  Up to its bound each has a line and an answer of
 * its own.  A program that is refused and tries again at once would otherwise
 * cost the broker as much as one that works, so past the bound there are
 * three steps:
 *
 *   the next few are answered, 429 `refusals`, so that a model learns why;
 *   then connections and datagrams are closed or dropped unread, and the door
 *     pauses after each batch, twice as long as before;
 *   when the pause has grown to a second, the task ends.
 *
 * All of it is in the task's slot, so a reload or another worker begins where
 * the last one was.
 */


#include "task/ngx_agent_zone.h"


#define NGX_AGENT_REFUSALS_ANSWERED  64
#define NGX_AGENT_REFUSALS_PAUSE     10     /* ms, the first */
#define NGX_AGENT_REFUSALS_LAST      1000   /* ms: the task ends instead */


ngx_int_t
ngx_agent_refusals_spend(ngx_agent_task_t *task)
{
    uint64_t           used, bound;
    ngx_int_t          rc;
    ngx_agent_slot_t  *slot;

    rc = NGX_BUSY;

    slot = ngx_agent_slot_lock(task->id);

    if (slot) {
        slot->denied++;

        used = ++slot->used[BOUND_REFUSALS];
        bound = slot->bounds[BOUND_REFUSALS];

        if (used > bound + NGX_AGENT_REFUSALS_ANSWERED) {
            task->unread = 1;
            rc = NGX_ABORT;

        } else if (used <= bound && !ngx_agent_zone_is_over(slot)) {
            rc = NGX_OK;
        }
    }

    ngx_agent_slot_unlock();

    return rc;
}


ngx_msec_t
ngx_agent_refusals_unread(const u_char *id, ngx_uint_t n)
{
    ngx_msec_t         pause;
    ngx_agent_slot_t  *slot;

    pause = 0;

    slot = ngx_agent_slot_lock(id);

    if (slot) {
        slot->denied += n;
        slot->used[BOUND_REFUSALS] += n;
        slot->counted[NGX_AGENT_COUNTED_REFUSALS].count += n;

        pause = slot->pause ? 2 * slot->pause : NGX_AGENT_REFUSALS_PAUSE;

        if (pause >= NGX_AGENT_REFUSALS_LAST) {
            pause = NGX_AGENT_REFUSALS_LAST;
            slot->is_spent = 1;
        }

        slot->pause = pause;
    }

    ngx_agent_slot_unlock();

    return pause < NGX_AGENT_REFUSALS_LAST ? pause : 0;
}
