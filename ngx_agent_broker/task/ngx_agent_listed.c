/*
 * What a task's result lists of its requests: those that were refused or had no
 * answer, and those that were allowed and have failed.  Of either the same one
 * again is counted; of different ones the first 64 are kept in the task's slot,
 * and the count of all.
 */


#include "task/ngx_agent_zone.h"


#define NGX_AGENT_LISTED_ROOM  4            /* of the zone: a fourth */
#define NGX_AGENT_LISTED_REST  1024         /* of the line they are in */


/* Expects the zone's lock to be held. */

static void ngx_agent_listed_add(ngx_agent_list_t *list,
    const target_t *target, ngx_agent_reason_e reason, ngx_uint_t is_dns,
    const char *hint);

static void ngx_agent_listed_denied(ngx_agent_slot_t *slot, json_t *list,
    size_t *left);
static void ngx_agent_listed_entries(ngx_agent_list_t *from, json_t *list,
    size_t most, size_t *left);
static json_t *ngx_agent_listed_entry(ngx_agent_refusal_t *refusal);
static json_t *ngx_agent_listed_counted(ngx_agent_slot_t *slot,
    ngx_agent_counted_e kind);
static ngx_int_t ngx_agent_listed_append(json_t *list, json_t *entry,
    size_t most, size_t *left);


void
ngx_agent_listed_refused(const u_char *id, const target_t *target,
    ngx_agent_reason_e reason, ngx_uint_t is_dns, const char *hint)
{
    ngx_agent_slot_t  *slot;

    slot = ngx_agent_slot_lock(id);

    if (slot) {
        ngx_agent_listed_add(&slot->refusals, target, reason, is_dns, hint);
    }

    ngx_agent_slot_unlock();
}


void
ngx_agent_listed_failed(const u_char *id, const target_t *target,
    ngx_agent_reason_e reason, const char *hint)
{
    ngx_agent_slot_t  *slot;

    slot = ngx_agent_slot_lock(id);

    if (slot) {
        slot->failed++;
        ngx_agent_listed_add(&slot->failures, target, reason, 0, hint);
    }

    ngx_agent_slot_unlock();
}


void
ngx_agent_listed_unfinished(const u_char *id)
{
    ngx_agent_slot_t  *slot;

    slot = ngx_agent_slot_lock(id);

    if (slot) {
        slot->unfinished++;
    }

    ngx_agent_slot_unlock();
}


static void
ngx_agent_listed_add(ngx_agent_list_t *list, const target_t *target,
    ngx_agent_reason_e reason, ngx_uint_t is_dns, const char *hint)
{
    u_char               *p;
    size_t                method, host, path, tail, pages;
    const char           *verb, *where, *said;
    ngx_queue_t          *q;
    ngx_agent_refusal_t  *refusal;

    method = ngx_min(target->method_len, 32);
    host = target->authority.host_len;
    path = ngx_min(target->path_len, 128);
    tail = hint ? ngx_min(ngx_strlen(hint), NGX_AGENT_HINT_MAX) : 0;

    /* a malformed request has none of them, and memcpy() takes no NULL */

    verb = method ? (const char *) target->method : "";
    where = path ? (const char *) target->path : "";
    said = tail ? hint : "";

    ngx_agent_queue_each(q, &list->queue) {
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
            return;
        }
    }

    /* what is only told leaves room for new tasks and new policies */

    pages = ngx_agent_pool->last - ngx_agent_pool->pages;

    if (list->count == PROTOCOL_LISTED_MAX
        || ngx_agent_pool->pfree < pages / NGX_AGENT_LISTED_ROOM)
    {
        return;
    }

    refusal = ngx_slab_alloc_locked(ngx_agent_pool,
                                    sizeof(ngx_agent_refusal_t)
                                    + method + host + path + tail);
    if (refusal == NULL) {
        return;
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

    ngx_queue_insert_tail(&list->queue, &refusal->queue);
    list->count++;
}


json_t *
ngx_agent_listed(const u_char *id)
{
    size_t             left, half;
    json_t            *denied, *failed;
    ngx_uint_t         denied_count, failed_count;
    ngx_agent_slot_t  *slot;

    denied_count = 0;
    failed_count = 0;

    denied = json_array();
    failed = json_array();

    slot = ngx_agent_slot_lock(id);

    if (slot && denied && failed) {

        denied_count = slot->denied + slot->unfinished;
        failed_count = slot->failed;

        /*
         * Escapes make them longer, and a launcher reads no longer a line: half
         * of it for failures, and for refusals what these leave.
         */

        left = PROTOCOL_LINE_MAX - NGX_AGENT_LISTED_REST;
        half = left / 2;
        left -= half;

        ngx_agent_listed_entries(&slot->failures, failed, PROTOCOL_LISTED_MAX,
                                 &half);
        left += half;

        ngx_agent_listed_denied(slot, denied, &left);
    }

    ngx_agent_slot_unlock();

    return json_pack("{s:o, s:I, s:o, s:I}",
                     "denied", denied,
                     "denied_count", (json_int_t) denied_count,
                     "failed", failed,
                     "failed_count", (json_int_t) failed_count);
}


static void
ngx_agent_listed_denied(ngx_agent_slot_t *slot, json_t *list, size_t *left)
{
    json_t      *counted;
    ngx_uint_t   i;

    counted = json_array();

    /* these are few and stand for many: there is always room for them */

    for (i = 0; i < NGX_AGENT_COUNTED; i++) {
        if (slot->counted[i].count) {
            (void) ngx_agent_listed_append(counted,
                                           ngx_agent_listed_counted(slot, i),
                                           PROTOCOL_LISTED_MAX, left);
        }
    }

    ngx_agent_listed_entries(&slot->refusals, list,
                             PROTOCOL_LISTED_MAX - json_array_size(counted),
                             left);

    (void) json_array_extend(list, counted);

    json_decref(counted);
}


static void
ngx_agent_listed_entries(ngx_agent_list_t *from, json_t *list, size_t most,
    size_t *left)
{
    json_t               *entry;
    ngx_queue_t          *q;
    ngx_agent_refusal_t  *refusal;

    ngx_agent_queue_each(q, &from->queue) {
        refusal = ngx_queue_data(q, ngx_agent_refusal_t, queue);
        entry = ngx_agent_listed_entry(refusal);

        if (ngx_agent_listed_append(list, entry, most, left) != NGX_OK) {
            break;
        }
    }
}


static json_t *
ngx_agent_listed_entry(ngx_agent_refusal_t *refusal)
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
ngx_agent_listed_counted(ngx_agent_slot_t *slot, ngx_agent_counted_e kind)
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
ngx_agent_listed_append(json_t *list, json_t *entry, size_t most, size_t *left)
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
