/*
 * Snapshots of policies in the zone.  Each worker reads one at most, and says
 * in the zone which.  The memory of one that is neither the newest nor read by
 * a living worker is used for the next: so reloads do not break the zone's
 * memory into pieces, and no worker that has ended holds any.
 */


#include "task/ngx_agent_zone.h"

#include <signal.h>


#define NGX_AGENT_SNAPSHOTS_SMALL  (512 * 1024)     /* bytes of all */
#define NGX_AGENT_SNAPSHOTS_TRIES  200
#define NGX_AGENT_SNAPSHOTS_WAIT   10       /* ms, of a try */


static ngx_uint_t ngx_agent_snapshots_room(ngx_agent_zone_t *zone,
    ngx_slab_pool_t *pool, size_t len);
static ngx_uint_t ngx_agent_snapshots_is_used(ngx_agent_zone_t *zone,
    ngx_uint_t n);
static size_t ngx_agent_snapshots_round(size_t len);


size_t
ngx_agent_snapshots_size(size_t len)
{
    /* the old and the new one are there together during a reload */

    return 2 * ngx_agent_snapshots_round(len);
}


/* With some room to grow, in whole pages, as the zone's memory is given. */

static size_t
ngx_agent_snapshots_round(size_t len)
{
    return ngx_align(len + len / 8, 4096);
}


ngx_int_t
ngx_agent_snapshots_add(ngx_agent_zone_t *zone, ngx_slab_pool_t *pool,
    const u_char *data, size_t len)
{
    ngx_uint_t  n, i;

    for (i = 0; i < NGX_AGENT_SNAPSHOTS_TRIES; i++) {

        ngx_shmtx_lock(&pool->mutex);

        /* one of a configuration that did not start is nobody's */

        zone->pending = NGX_AGENT_SNAPSHOTS;

        n = ngx_agent_snapshots_room(zone, pool, len);

        if (n != NGX_AGENT_SNAPSHOTS) {
            zone->pending = n;
            zone->snapshots[n].len = len;
        }

        ngx_shmtx_unlock(&pool->mutex);

        if (n != NGX_AGENT_SNAPSHOTS) {

            /* no worker looks at it yet: without the lock, since it is long */

            ngx_memcpy(zone->snapshots[n].data, data, len);
            return NGX_OK;
        }

        /* a worker leaves an old one within half a second */

        for (n = 0; n < NGX_AGENT_SNAPSHOTS; n++) {
            if (n != zone->current && zone->snapshots[n].data) {
                break;
            }
        }

        if (n == NGX_AGENT_SNAPSHOTS) {
            break;                          /* there is none to wait for */
        }

        ngx_msleep(NGX_AGENT_SNAPSHOTS_WAIT);
    }

    return NGX_ERROR;
}


/* One with room for len bytes that nobody reads; or NGX_AGENT_SNAPSHOTS. */

static ngx_uint_t
ngx_agent_snapshots_room(ngx_agent_zone_t *zone, ngx_slab_pool_t *pool,
    size_t len)
{
    size_t                 older;
    ngx_uint_t             n, i;
    ngx_agent_snapshot_t  *s;

    n = NGX_AGENT_SNAPSHOTS;
    older = 0;

    for (i = 0; i < NGX_AGENT_SNAPSHOTS; i++) {

        s = &zone->snapshots[i];

        if (s->data && ngx_agent_snapshots_is_used(zone, i)) {
            older += (i == zone->current) ? 0 : s->size;
            continue;
        }

        if (s->data && s->size >= len) {
            return i;
        }

        n = i;
    }

    if (n == NGX_AGENT_SNAPSHOTS) {
        return n;
    }

    /* those that are too small make room for it */

    for (i = 0; i < NGX_AGENT_SNAPSHOTS; i++) {

        s = &zone->snapshots[i];

        if (s->data && !ngx_agent_snapshots_is_used(zone, i)) {
            ngx_slab_free_locked(pool, s->data);
            s->data = NULL;
        }
    }

    /* tasks need the rest of the zone */

    s = &zone->snapshots[n];

    if (older && older + len > NGX_AGENT_SNAPSHOTS_SMALL) {
        return NGX_AGENT_SNAPSHOTS;
    }

    s->size = ngx_agent_snapshots_round(len);
    s->data = ngx_slab_alloc_locked(pool, s->size);

    if (s->data == NULL) {
        s->size = ngx_align(len, 4096);
        s->data = ngx_slab_alloc_locked(pool, s->size);
    }

    return s->data ? n : NGX_AGENT_SNAPSHOTS;
}


/* Readers that have ended are forgotten. */

static ngx_uint_t
ngx_agent_snapshots_is_used(ngx_agent_zone_t *zone, ngx_uint_t n)
{
    ngx_uint_t           i;
    ngx_agent_reader_t  *reader;

    if (n == zone->current) {
        return 1;
    }

    for (i = 0; i < NGX_AGENT_READERS; i++) {

        reader = &zone->readers[i];

        if (reader->pid == 0 || reader->snapshot != n) {
            continue;
        }

        if (kill(reader->pid, 0) == 0 || ngx_errno != NGX_ESRCH) {
            return 1;
        }

        reader->pid = 0;
    }

    return 0;
}


void
ngx_agent_snapshots_publish(ngx_agent_zone_t *zone)
{
    zone->current = zone->pending;
    zone->pending = NGX_AGENT_SNAPSHOTS;
    zone->generation++;
}


ngx_int_t
ngx_agent_snapshots_take(ngx_agent_zone_t *zone, ngx_slab_pool_t *pool,
    const u_char **data, size_t *len, uint64_t *generation)
{
    ngx_uint_t             i, k;
    ngx_agent_reader_t    *readers;
    ngx_agent_snapshot_t  *s;

    readers = zone->readers;

    ngx_shmtx_lock(&pool->mutex);

    for (i = 0, k = NGX_AGENT_READERS; i < NGX_AGENT_READERS; i++) {

        if (readers[i].pid == ngx_pid) {
            k = i;
            break;
        }

        if (k == NGX_AGENT_READERS
            && (readers[i].pid == 0
                || (kill(readers[i].pid, 0) == -1
                    && ngx_errno == NGX_ESRCH)))
        {
            k = i;
        }
    }

    if (k < NGX_AGENT_READERS) {

        readers[k].pid = ngx_pid;
        readers[k].snapshot = zone->current;

        s = &zone->snapshots[zone->current];

        *data = s->data;
        *len = s->len;
        *generation = zone->generation;
    }

    ngx_shmtx_unlock(&pool->mutex);

    return k < NGX_AGENT_READERS ? NGX_OK : NGX_ERROR;
}


void
ngx_agent_snapshots_leave(ngx_agent_zone_t *zone, ngx_slab_pool_t *pool)
{
    ngx_uint_t  i;

    ngx_shmtx_lock(&pool->mutex);

    for (i = 0; i < NGX_AGENT_READERS; i++) {
        if (zone->readers[i].pid == ngx_pid) {
            zone->readers[i].pid = 0;
        }
    }

    ngx_shmtx_unlock(&pool->mutex);
}
