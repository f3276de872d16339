/*
 * What a user may make the broker do by its control connections, counted over
 * all workers and reloads: connections, opens, questions, and lines about
 * refusals.
 *
 * A user has a row of rates, and one for each worker that has connections of
 * it: those of a worker that was killed are not counted any more.  Only users
 * that a policy names get rows, and one for all others together.
 */


#include "task/ngx_agent_zone.h"


#define NGX_AGENT_PEER_LINES     1000       /* of a user that is named */
#define NGX_AGENT_PEER_STRANGER_LINES  100  /* of all others together */
#define NGX_AGENT_PEER_LINE_RATE  10        /* more a second */


static ngx_int_t ngx_agent_peer_pay(uid_t uid, size_t debt, ngx_uint_t rate,
    ngx_uint_t burst);
static ngx_agent_peer_t *ngx_agent_peer_row(uid_t uid, ngx_pid_t worker);
static ngx_uint_t ngx_agent_peer_is_free(ngx_agent_peer_t *peer);
static ngx_uint_t ngx_agent_peer_is_dead(ngx_agent_peer_t *peer);
static ngx_int_t ngx_agent_peer_owe(ngx_agent_debt_t *debt, ngx_uint_t rate,
    ngx_uint_t burst);


ngx_int_t
ngx_agent_peer_connect(uid_t uid, ngx_uint_t max)
{
    ngx_int_t          rc;
    ngx_uint_t         i, n, round;
    ngx_agent_peer_t  *peer;

    rc = NGX_BUSY;

    ngx_shmtx_lock(&ngx_agent_pool->mutex);

    for (round = 0; round < 2; round++) {

        n = 0;

        for (i = 0; i < NGX_AGENT_PEERS; i++) {
            peer = &ngx_agent_zone->peers[i];

            if (peer->worker == 0 || peer->uid != uid) {
                continue;
            }

            /* each worker is asked for only where it matters */

            if (round && ngx_agent_peer_is_dead(peer)) {
                peer->count = 0;
            }

            n += peer->count;
        }

        if (n < max) {
            break;
        }
    }

    peer = (n < max) ? ngx_agent_peer_row(uid, ngx_pid) : NULL;

    if (peer) {
        peer->count++;
        rc = NGX_OK;
    }

    ngx_shmtx_unlock(&ngx_agent_pool->mutex);

    return rc;
}


void
ngx_agent_peer_disconnect(uid_t uid)
{
    ngx_agent_peer_t  *peer;

    ngx_shmtx_lock(&ngx_agent_pool->mutex);

    peer = ngx_agent_peer_row(uid, ngx_pid);

    if (peer && peer->count) {
        peer->count--;
    }

    ngx_shmtx_unlock(&ngx_agent_pool->mutex);
}


ngx_int_t
ngx_agent_peer_open(uid_t uid, ngx_uint_t rate, ngx_uint_t burst)
{
    return ngx_agent_peer_pay(uid, offsetof(ngx_agent_peer_t, opens), rate,
                              burst);
}


ngx_int_t
ngx_agent_peer_ask(uid_t uid, ngx_uint_t rate, ngx_uint_t burst)
{
    return ngx_agent_peer_pay(uid, offsetof(ngx_agent_peer_t, asks), rate,
                              burst);
}


ngx_int_t
ngx_agent_peer_line(uid_t uid)
{
    return ngx_agent_peer_pay(uid, offsetof(ngx_agent_peer_t, lines),
                              NGX_AGENT_PEER_LINE_RATE,
                              uid == NGX_AGENT_PEER_STRANGER
                              ? NGX_AGENT_PEER_STRANGER_LINES
                              : NGX_AGENT_PEER_LINES);
}


/* One more of the user's debt at this offset: NGX_OK, or NGX_BUSY. */

static ngx_int_t
ngx_agent_peer_pay(uid_t uid, size_t debt, ngx_uint_t rate, ngx_uint_t burst)
{
    ngx_int_t          rc;
    ngx_agent_peer_t  *peer;

    rc = NGX_BUSY;

    ngx_shmtx_lock(&ngx_agent_pool->mutex);

    peer = ngx_agent_peer_row(uid, 0);

    if (peer) {
        rc = ngx_agent_peer_owe((ngx_agent_debt_t *) ((u_char *) peer + debt),
                                rate, burst);
    }

    ngx_shmtx_unlock(&ngx_agent_pool->mutex);

    return rc;
}


/* NULL: all rows are in use. */

static ngx_agent_peer_t *
ngx_agent_peer_row(uid_t uid, ngx_pid_t worker)
{
    ngx_uint_t         i;
    ngx_agent_peer_t  *peer, *found;

    found = NULL;

    for (i = 0; i < NGX_AGENT_PEERS; i++) {
        peer = &ngx_agent_zone->peers[i];

        if (peer->is_used && peer->uid == uid && peer->worker == worker) {
            return peer;
        }

        if (found == NULL && !peer->is_used) {
            found = peer;
        }
    }

    for (i = 0; found == NULL && i < NGX_AGENT_PEERS; i++) {

        if (ngx_agent_peer_is_free(&ngx_agent_zone->peers[i])) {
            found = &ngx_agent_zone->peers[i];
        }
    }

    if (found) {
        ngx_memzero(found, sizeof(ngx_agent_peer_t));
        found->is_used = 1;
        found->uid = uid;
        found->worker = worker;
    }

    return found;
}


/* What it says is what a new one would say. */

static ngx_uint_t
ngx_agent_peer_is_free(ngx_agent_peer_t *peer)
{
    if (peer->worker) {
        return peer->count == 0 || ngx_agent_peer_is_dead(peer);
    }

    return (ngx_msec_int_t) (ngx_current_msec - peer->opens.paid) >= 0
           && (ngx_msec_int_t) (ngx_current_msec - peer->asks.paid) >= 0
           && (ngx_msec_int_t) (ngx_current_msec - peer->lines.paid) >= 0;
}


static ngx_uint_t
ngx_agent_peer_is_dead(ngx_agent_peer_t *peer)
{
    return kill(peer->worker, 0) == -1 && ngx_errno == ESRCH;
}


/*
 * One more of `burst`, of which `rate` a second are forgotten: NGX_OK, or
 * NGX_BUSY.  The clock of a worker may be behind that of another.
 */

static ngx_int_t
ngx_agent_peer_owe(ngx_agent_debt_t *debt, ngx_uint_t rate, ngx_uint_t burst)
{
    uint64_t        less;
    ngx_msec_int_t  passed;

    passed = (ngx_msec_int_t) (ngx_current_msec - debt->at);

    if (passed > 0) {
        less = (uint64_t) passed * rate;
        debt->owed = (less < debt->owed) ? debt->owed - less : 0;
        debt->at = ngx_current_msec;
    }

    if (debt->owed + 1000 > (uint64_t) burst * 1000) {
        return NGX_BUSY;
    }

    debt->owed += 1000;
    debt->paid = debt->at + debt->owed / rate + 1;

    return NGX_OK;
}
