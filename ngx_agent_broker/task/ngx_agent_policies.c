/*
 * The newest policies, as a worker reads them from the zone.  A set is made
 * when a request or a launcher first needs one after a change, also by a
 * worker that is shutting down, in a time that does not depend on the number
 * of hosts: a rule is read when a request first needs it.  A set lives as long
 * as somebody holds a reference, and what was found in it as well; but only in
 * the newest one something can be looked up.
 */


#include "task/ngx_agent_zone.h"
#include "policy/policy_snapshot.h"

#include <openssl/x509.h>


#define NGX_AGENT_POLICIES_RULES  8192      /* read by one set */
#define NGX_AGENT_POLICIES_CHECK  250       /* ms */


static ngx_agent_policies_t *ngx_agent_policies_open(ngx_log_t *log);
static void ngx_agent_policies_check(ngx_event_t *ev);
static void ngx_agent_policies_data_free(void *data);
static void ngx_agent_policies_cleanup(void *data);


static ngx_agent_policies_t  *ngx_agent_set;
static ngx_queue_t            ngx_agent_sets;   /* all that can look up */
static ngx_event_t            ngx_agent_policies_event;


ngx_agent_policies_t *
ngx_agent_policies_get(ngx_log_t *log)
{
    ngx_agent_policies_t  *set;

    set = ngx_agent_set;

    if (set == NULL || set->generation != ngx_agent_zone_generation()) {
        ngx_agent_policies_leave();
        set = ngx_agent_policies_open(log);

    } else if (set->policies->loaded > NGX_AGENT_POLICIES_RULES) {

        /* a box that asks for each host would fill the worker's memory */

        ngx_agent_set = NULL;
        ngx_agent_policies_release(set);
        set = ngx_agent_policies_open(log);
    }

    if (set) {
        set->references++;
    }

    return set;
}


/* Makes it the newest one. */

static ngx_agent_policies_t *
ngx_agent_policies_open(ngx_log_t *log)
{
    char                   err[POLICY_ERROR_MAX];
    size_t                 len;
    ngx_event_t           *ev;
    const u_char          *data;
    ngx_agent_policies_t  *set;

    static ngx_connection_t  none;          /* whose number timers log */

    if (ngx_agent_sets.next == NULL) {
        ngx_queue_init(&ngx_agent_sets);
    }

    set = malloc(sizeof(ngx_agent_policies_t));
    if (set == NULL) {
        return NULL;
    }

    if (ngx_agent_snapshots_take(ngx_agent_zone, ngx_agent_pool, &data, &len,
                                 &set->generation)
        != NGX_OK)
    {
        ngx_log_error(NGX_LOG_ALERT, log, 0,
                      "more workers than %d read policies",
                      NGX_AGENT_READERS);
        free(set);
        return NULL;
    }

    set->policies = policy_snapshot_open(data, len, err);

    if (set->policies == NULL) {
        ngx_log_error(NGX_LOG_ALERT, log, 0,
                      "the published policies cannot be loaded: %s", err);
        free(set);
        return NULL;
    }

    set->policies->data_free = ngx_agent_policies_data_free;
    set->references = 1;

    ngx_queue_insert_head(&ngx_agent_sets, &set->queue);

    ngx_agent_set = set;

    ev = &ngx_agent_policies_event;

    if (!ev->timer_set) {
        none.fd = (ngx_socket_t) -1;
        ev->handler = ngx_agent_policies_check;
        ev->log = ngx_cycle->log;
        ev->data = &none;
        ev->cancelable = 1;
        ngx_add_timer(ev, NGX_AGENT_POLICIES_CHECK);
    }

    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, log, 0,
                   "agent: policies opened, generation %uL", set->generation);

    return set;
}


void
ngx_agent_policies_leave(void)
{
    ngx_queue_t           *q;
    ngx_agent_policies_t  *set;

    if (ngx_agent_sets.next == NULL || ngx_queue_empty(&ngx_agent_sets)) {
        return;
    }

    while (!ngx_queue_empty(&ngx_agent_sets)) {

        q = ngx_queue_head(&ngx_agent_sets);
        ngx_queue_remove(q);
        q->next = NULL;

        set = ngx_queue_data(q, ngx_agent_policies_t, queue);
        policy_snapshot_close(set->policies);
    }

    if (ngx_agent_set) {
        set = ngx_agent_set;
        ngx_agent_set = NULL;
        ngx_agent_policies_release(set);
    }

    ngx_agent_snapshots_leave(ngx_agent_zone, ngx_agent_pool);
}


/* For a worker without requests, which would not see the change. */

static void
ngx_agent_policies_check(ngx_event_t *ev)
{
    if (ngx_agent_set == NULL) {
        return;
    }

    if (ngx_agent_set->generation != ngx_agent_zone_generation()) {
        ngx_agent_policies_leave();
        return;
    }

    ngx_add_timer(ev, NGX_AGENT_POLICIES_CHECK);
}


void
ngx_agent_policies_release(ngx_agent_policies_t *set)
{
    if (--set->references == 0) {

        if (set->queue.next) {
            ngx_queue_remove(&set->queue);
        }

        policy_set_free(set->policies);
        free(set);
    }
}


ngx_agent_policies_t *
ngx_agent_policies_hold(ngx_pool_t *pool, ngx_log_t *log)
{
    ngx_agent_policies_t  *set;
    ngx_pool_cleanup_t    *cln;

    cln = ngx_pool_cleanup_add(pool, 0);
    if (cln == NULL) {
        return NULL;
    }

    set = ngx_agent_policies_get(log);
    if (set == NULL) {
        return NULL;
    }

    cln->handler = ngx_agent_policies_cleanup;
    cln->data = set;

    return set;
}


/* The data of certificates is the trust store made of them. */

static void
ngx_agent_policies_data_free(void *data)
{
    X509_STORE_free(data);
}


static void
ngx_agent_policies_cleanup(void *data)
{
    ngx_agent_policies_release(data);
}
