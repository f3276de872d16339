/*
 * A worker's compiled copy of the newest policies.  It is made when a request
 * or a launcher first needs it after a change, also by a worker that is
 * shutting down, and lives as long as somebody holds a reference.
 */


#include "task/ngx_agent_task.h"

#include <openssl/x509.h>


static void ngx_agent_policies_data_free(void *data);
static void ngx_agent_policies_cleanup(void *data);


static ngx_agent_policies_t  *ngx_agent_set;


ngx_agent_policies_t *
ngx_agent_policies_get(ngx_log_t *log)
{
    char                  *text, err[POLICY_ERROR_MAX];
    size_t                 len;
    uint64_t               generation;
    policy_set_t          *policies;
    ngx_agent_policies_t  *set;

    set = ngx_agent_set;

    if (set && set->generation == ngx_agent_zone_generation()) {
        set->references++;
        return set;
    }

    text = ngx_agent_zone_text(&len, &generation);
    if (text == NULL) {
        return NULL;
    }

    policies = policy_set_load(text, len, err);

    free(text);

    if (policies == NULL) {
        ngx_log_error(NGX_LOG_ALERT, log, 0,
                      "the published policies cannot be loaded: %s", err);
        return NULL;
    }

    policies->data_free = ngx_agent_policies_data_free;

    set = malloc(sizeof(ngx_agent_policies_t));
    if (set == NULL) {
        policy_set_free(policies);
        return NULL;
    }

    set->policies = policies;
    set->generation = generation;
    set->references = 2;                /* the worker's and the caller's */

    if (ngx_agent_set) {
        ngx_agent_policies_release(ngx_agent_set);
    }

    ngx_agent_set = set;

    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, log, 0,
                   "agent: policies loaded, generation %uL", generation);

    return set;
}


void
ngx_agent_policies_release(ngx_agent_policies_t *set)
{
    if (--set->references == 0) {
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


/* A rule's data is the trust store made of its trusted certificates. */

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
