/*
 * What live tasks have used of their bounds: in their slots, under the zone's
 * lock, so that a bound is one bound whichever worker counts.
 */


#include "task/ngx_agent_zone.h"


#define NGX_AGENT_USAGE_SHARE  256          /* of a bound's rest: one of it */


/* Expects the zone's lock to be held. */

static ngx_int_t ngx_agent_usage_count(ngx_agent_slot_t *slot,
    bound_id_t bound);


ngx_int_t
ngx_agent_usage_spend(const u_char *id, bound_id_t bound)
{
    ngx_int_t          rc;
    ngx_agent_slot_t  *slot;

    slot = ngx_agent_slot_lock(id);

    rc = slot ? ngx_agent_usage_count(slot, bound) : NGX_BUSY;

    ngx_agent_slot_unlock();

    return rc;
}


static ngx_int_t
ngx_agent_usage_count(ngx_agent_slot_t *slot, bound_id_t bound)
{
    slot->used[bound]++;
    slot->denied += (bound == BOUND_REFUSALS);

    if (ngx_agent_zone_is_over(slot)) {
        return NGX_BUSY;
    }

    if (slot->used[bound] <= slot->bounds[bound]) {
        return NGX_OK;
    }

    return slot->used[bound] == slot->bounds[bound] + 1 ? NGX_ABORT : NGX_BUSY;
}


ngx_int_t
ngx_agent_usage_mint(const u_char *id, uint64_t name)
{
    ngx_int_t          rc;
    ngx_uint_t         i, n;
    ngx_agent_slot_t  *slot;

    rc = NGX_BUSY;

    slot = ngx_agent_slot_lock(id);

    if (slot) {

        n = ngx_min(slot->minted_count, NGX_AGENT_MINTED);

        for (i = 0; i < n && slot->minted[i] != name; i++) { /* void */ }

        rc = (i < n) ? NGX_OK : ngx_agent_usage_count(slot, BOUND_MINTS);

        if (i == n && rc == NGX_OK) {
            slot->minted[slot->minted_count++ % NGX_AGENT_MINTED] = name;
        }
    }

    ngx_agent_slot_unlock();

    return rc;
}


bound_id_t
ngx_agent_usage_admit(const u_char *id)
{
    ngx_uint_t         i;
    bound_id_t         bound;
    ngx_agent_slot_t  *slot;

    static const bound_id_t  bounds[] = {
        BOUND_AUDIT_LINES, BOUND_AUDIT_BYTES, BOUND_REQUESTS, BOUND_BYTES_UP,
        BOUND_BYTES_DOWN, BOUND_COUNT
    };

    bound = BOUND_REQUESTS;

    slot = ngx_agent_slot_lock(id);

    if (slot) {

        for (i = 0; (bound = bounds[i]) != BOUND_COUNT; i++) {
            if (slot->used[bound] >= slot->bounds[bound]) {
                break;
            }
        }

        slot->used[BOUND_REQUESTS] += (bound == BOUND_COUNT);
    }

    ngx_agent_slot_unlock();

    return bound;
}


uint64_t
ngx_agent_usage_reserve(const u_char *id, bound_id_t bound, uint64_t least,
    uint64_t most, ngx_uint_t rest)
{
    uint64_t           n, left;
    ngx_agent_slot_t  *slot;

    n = 0;

    slot = ngx_agent_slot_lock(id);

    if (slot && slot->used[bound] < slot->bounds[bound]) {

        left = slot->bounds[bound] - slot->used[bound];

        /* what is taken early must not keep others from the bound's rest */

        n = ngx_min(most, left / NGX_AGENT_USAGE_SHARE);
        n = ngx_max(n, least);

        if (n > left) {
            n = rest ? left : 0;
        }

        slot->used[bound] += n;
    }

    ngx_agent_slot_unlock();

    return n;
}


void
ngx_agent_usage_settle(const u_char *id, int64_t up, int64_t down)
{
    ngx_agent_slot_t  *slot;

    slot = ngx_agent_slot_lock(id);

    if (slot) {
        slot->used[BOUND_BYTES_UP] += up;
        slot->used[BOUND_BYTES_DOWN] += down;
    }

    ngx_agent_slot_unlock();
}


ngx_int_t
ngx_agent_usage_recorded(const u_char *id, ngx_uint_t allowed,
    ngx_uint_t lines, size_t bytes)
{
    ngx_int_t          rc;
    ngx_uint_t         over;
    ngx_agent_slot_t  *slot;

    rc = NGX_OK;

    slot = ngx_agent_slot_lock(id);

    if (slot) {
        over = ngx_agent_zone_is_over(slot);

        slot->allowed += allowed;
        slot->used[BOUND_AUDIT_LINES] += lines;
        slot->used[BOUND_AUDIT_BYTES] += bytes;

        if (!over && ngx_agent_zone_is_over(slot)) {
            rc = NGX_ABORT;
        }
    }

    ngx_agent_slot_unlock();

    return rc;
}


ngx_uint_t
ngx_agent_usage_is_over(const u_char *id)
{
    ngx_agent_slot_view_t  view;

    return ngx_agent_slot_view(id, &view) == NGX_OK && view.is_over;
}
