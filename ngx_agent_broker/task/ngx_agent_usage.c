/*
 * What live tasks have used of their bounds, and what they were refused: in
 * their slots, under the zone's lock, so that a bound is one bound whichever
 * worker counts.
 */


#include "task/ngx_agent_zone.h"


#define NGX_AGENT_USAGE_SHARE    256        /* of a bound's rest: one of it */
#define NGX_AGENT_REFUSALS_ROOM  4          /* of the zone: a fourth */
#define NGX_AGENT_REFUSALS_REST  1024       /* of the line they are in */


/* Expects the zone's lock to be held. */

static ngx_int_t ngx_agent_usage_count(ngx_agent_slot_t *slot,
    bound_id_t bound);
static json_t *ngx_agent_usage_refusal(ngx_agent_refusal_t *refusal);
static json_t *ngx_agent_usage_counted(ngx_agent_slot_t *slot,
    ngx_agent_counted_e kind);
static ngx_int_t ngx_agent_usage_append(json_t *list, json_t *entry,
    size_t most, size_t *left);


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


void
ngx_agent_usage_unfinished(const u_char *id)
{
    ngx_agent_slot_t  *slot;

    slot = ngx_agent_slot_lock(id);

    if (slot) {
        slot->unfinished++;
    }

    ngx_agent_slot_unlock();
}


/*
 * One refusal for `close` to report.  The same one again is counted; of
 * different ones the first 64 are kept, and the count of all.
 */

void
ngx_agent_usage_refuse(const u_char *id, const target_t *target,
    ngx_agent_reason_e reason, ngx_uint_t is_dns, const char *hint)
{
    u_char               *p;
    size_t                method, host, path, tail, pages;
    const char           *verb, *where, *said;
    ngx_queue_t          *q;
    ngx_agent_slot_t     *slot;
    ngx_agent_refusal_t  *refusal;

    method = ngx_min(target->method_len, 32);
    host = target->authority.host_len;
    path = ngx_min(target->path_len, 128);
    tail = hint ? ngx_min(ngx_strlen(hint), NGX_AGENT_HINT_MAX) : 0;

    /* a malformed request has none of them, and memcpy() takes no NULL */

    verb = method ? (const char *) target->method : "";
    where = path ? (const char *) target->path : "";
    said = tail ? hint : "";

    slot = ngx_agent_slot_lock(id);

    if (slot == NULL) {
        goto done;
    }

    ngx_agent_queue_each(q, &slot->refusals) {
        refusal = ngx_queue_data(q, ngx_agent_refusal_t, queue);
        p = refusal->data;

        if (refusal->reason == reason
            && refusal->dns == is_dns
            && refusal->port == target->authority.port
            && refusal->method_len == method
            && refusal->host_len == host
            && refusal->path_len == path
            && ngx_memcmp(p, verb, method) == 0
            && ngx_memcmp(p + method, target->authority.host, host) == 0
            && ngx_memcmp(p + method + host, where, path) == 0)
        {
            refusal->count++;
            goto done;
        }
    }

    /* what is only told leaves room for new tasks and new policies */

    pages = ngx_agent_pool->last - ngx_agent_pool->pages;

    if (slot->refusals_count == PROTOCOL_LISTED_MAX
        || ngx_agent_pool->pfree < pages / NGX_AGENT_REFUSALS_ROOM)
    {
        goto done;
    }

    refusal = ngx_slab_alloc_locked(ngx_agent_pool,
                                    sizeof(ngx_agent_refusal_t)
                                    + method + host + path + tail);
    if (refusal == NULL) {
        goto done;
    }

    refusal->count = 1;
    refusal->port = target->authority.port;
    refusal->reason = (uint8_t) reason;
    refusal->dns = (uint8_t) is_dns;
    refusal->method_len = (uint8_t) method;
    refusal->host_len = (uint8_t) host;
    refusal->path_len = (uint8_t) path;
    refusal->hint_len = (uint16_t) tail;

    p = refusal->data;
    p = ngx_cpymem(p, verb, method);
    p = ngx_cpymem(p, target->authority.host, host);
    p = ngx_cpymem(p, where, path);
    (void) ngx_cpymem(p, said, tail);

    ngx_queue_insert_tail(&slot->refusals, &refusal->queue);
    slot->refusals_count++;

done:

    ngx_agent_slot_unlock();
}


json_t *
ngx_agent_usage_refusals(const u_char *id, ngx_uint_t *count)
{
    size_t             left;
    json_t            *list, *counted;
    ngx_uint_t         i;
    ngx_queue_t       *q;
    ngx_agent_slot_t  *slot;

    *count = 0;

    /* escapes make them longer, and a launcher reads no longer a line */

    left = PROTOCOL_LINE_MAX - NGX_AGENT_REFUSALS_REST;

    list = json_array();
    counted = json_array();

    slot = ngx_agent_slot_lock(id);

    if (slot == NULL || list == NULL || counted == NULL) {
        goto done;
    }

    *count = slot->denied + slot->unfinished;

    /* these are few and stand for many: there is always room for them */

    for (i = 0; i < NGX_AGENT_COUNTED; i++) {
        if (slot->counted[i].count) {
            (void) ngx_agent_usage_append(counted,
                                          ngx_agent_usage_counted(slot, i),
                                          PROTOCOL_LISTED_MAX, &left);
        }
    }

    ngx_agent_queue_each(q, &slot->refusals) {
        if (ngx_agent_usage_append(list,
                ngx_agent_usage_refusal(ngx_queue_data(q, ngx_agent_refusal_t,
                                                       queue)),
                PROTOCOL_LISTED_MAX - json_array_size(counted), &left)
            != NGX_OK)
        {
            break;
        }
    }

    (void) json_array_extend(list, counted);

done:

    ngx_agent_slot_unlock();

    json_decref(counted);

    return list;
}


static json_t *
ngx_agent_usage_refusal(ngx_agent_refusal_t *refusal)
{
    u_char  *p;
    json_t  *entry;

    p = refusal->data;

    if (refusal->dns) {
        entry = json_pack("{s:n, s:s#, s:n, s:n, s:s, s:I, s:s}",
                    "method", "host", p, (int) refusal->host_len,
                    "port", "path",
                    "reason", ngx_agent_reason(refusal->reason)->word,
                    "count", (json_int_t) refusal->count,
                    "door", "dns");

    } else if (refusal->method_len == 0 && refusal->host_len == 0) {
        entry = json_pack("{s:n, s:n, s:n, s:n, s:s, s:I}",
                    "method", "host", "port", "path",
                    "reason", ngx_agent_reason(refusal->reason)->word,
                    "count", (json_int_t) refusal->count);

    } else {
        entry = json_pack("{s:s#, s:s#, s:i, s:s#, s:s, s:I}",
                    "method", p, (int) refusal->method_len,
                    "host", p + refusal->method_len, (int) refusal->host_len,
                    "port", (int) refusal->port,
                    "path", p + refusal->method_len + refusal->host_len,
                            (int) refusal->path_len,
                    "reason", ngx_agent_reason(refusal->reason)->word,
                    "count", (json_int_t) refusal->count);
    }

    p += refusal->method_len + refusal->host_len + refusal->path_len;

    if (entry) {
        (void) json_object_set_new(entry, "hint",
                            refusal->hint_len
                            ? json_stringn((char *) p, refusal->hint_len)
                            : json_null());
    }

    return entry;
}


/* What a bound refused, of whatever host: see ngx_agent_counted_e. */

static json_t *
ngx_agent_usage_counted(ngx_agent_slot_t *slot, ngx_agent_counted_e kind)
{
    const ngx_agent_reason_t  *reason;

    reason = ngx_agent_reason(ngx_agent_slot_counted_reason(kind));

    return json_pack("{s:n, s:n, s:n, s:n, s:s, s:I, s:s?}",
                     "method", "host", "port", "path",
                     "reason", reason->word,
                     "count", (json_int_t) slot->counted[kind].count,
                     "hint", reason->hint);
}


/* NGX_DECLINED: the list is full. */

static ngx_int_t
ngx_agent_usage_append(json_t *list, json_t *entry, size_t most, size_t *left)
{
    size_t  len;

    if (entry == NULL) {
        return NGX_OK;
    }

    len = json_dumpb(entry, NULL, 0, JSON_COMPACT|JSON_ENSURE_ASCII) + 1;

    if (len > *left || json_array_size(list) == most) {
        json_decref(entry);
        return NGX_DECLINED;
    }

    *left -= len;

    (void) json_array_append_new(list, entry);

    return NGX_OK;
}
