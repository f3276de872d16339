/*
 * The slots of live tasks in shared memory: owner, lease, and what
 * ngx_agent_usage.c counts.  A slot is looked up by its task's id each time
 * and never pointed at from outside, so a worker that is killed leaves
 * nothing behind.
 */


#include "task/ngx_agent_zone.h"


#define NGX_AGENT_COUNTED_TIME  1000        /* ms from line to line */


/* These expect the zone's lock to be held. */

static ngx_agent_slot_t *ngx_agent_slot_find(const u_char *id);
static ngx_agent_slot_t *ngx_agent_slot_of_netns(uint64_t netns);
static ngx_uint_t ngx_agent_slot_live(uid_t uid, const policy_t *policy,
    ngx_uint_t *all);
static void ngx_agent_slot_take_out(ngx_agent_slot_t *slot,
    ngx_agent_slot_view_t *view);
static void ngx_agent_slot_forget(ngx_queue_t *queue);
static void ngx_agent_slot_copy(ngx_agent_slot_t *slot,
    ngx_agent_slot_view_t *view);
static uint32_t ngx_agent_slot_key(const u_char *id);


ngx_int_t
ngx_agent_slot_create(u_char *id, uid_t uid, ngx_pid_t pid,
    const policy_t *policy, ngx_msec_t life, ngx_uint_t max)
{
    ngx_uint_t         all;
    ngx_agent_slot_t  *slot;

    if (ngx_agent_slot_lock(id)) {
        ngx_agent_slot_unlock();
        return NGX_DECLINED;
    }

    if (ngx_agent_slot_live(uid, policy, &all) >= policy->bounds[BOUND_TASKS]
        && max)
    {
        ngx_agent_slot_unlock();
        return NGX_ABORT;
    }

    if (all >= max && max) {
        ngx_agent_slot_unlock();
        return NGX_AGAIN;
    }

    slot = ngx_slab_calloc_locked(ngx_agent_pool, sizeof(ngx_agent_slot_t));

    if (slot) {
        slot->share = ngx_agent_share_create(policy);

        if (slot->share == NULL) {
            ngx_slab_free_locked(ngx_agent_pool, slot);
            slot = NULL;
        }
    }

    if (slot == NULL) {
        ngx_agent_slot_unlock();
        return NGX_BUSY;
    }

    ngx_memcpy(slot->id, id, PROTOCOL_ID_LEN);
    slot->owner = ngx_pid;
    slot->uid = uid;
    slot->pid = pid;
    slot->life = life;
    slot->expires = ngx_current_msec + life;

    (void) ngx_cpystrn(slot->policy, (u_char *) policy->name,
                       sizeof(slot->policy));
    (void) ngx_cpystrn(slot->policy_hash, (u_char *) policy->hash,
                       sizeof(slot->policy_hash));

    ngx_memcpy(slot->bounds, policy->bounds, sizeof(slot->bounds));

    ngx_queue_init(&slot->refusals.queue);
    ngx_queue_init(&slot->failures.queue);

    slot->node.key = ngx_agent_slot_key(id);
    ngx_rbtree_insert(&ngx_agent_zone->rbtree, &slot->node);
    ngx_queue_insert_tail(&ngx_agent_zone->slots, &slot->queue);

    ngx_agent_slot_unlock();

    return NGX_OK;
}


ngx_int_t
ngx_agent_slot_take(const u_char *id, uid_t uid, uint64_t netns,
    ngx_uint_t *sequence)
{
    ngx_int_t          rc;
    ngx_agent_slot_t  *slot, *other;

    slot = ngx_agent_slot_lock(id);

    if (slot == NULL) {
        rc = NGX_DECLINED;
        goto done;
    }

    if (slot->uid != uid || (slot->netns != 0 && slot->netns != netns)) {
        rc = NGX_ABORT;
        goto done;
    }

    other = ngx_agent_slot_of_netns(netns);

    if (other && other != slot) {
        rc = NGX_BUSY;
        goto done;
    }

    if (slot->netns == 0) {
        slot->expires = ngx_current_msec + slot->life;
    }

    slot->netns = netns;
    slot->owner = ngx_pid;
    slot->orphaned = 0;
    slot->sequence++;
    *sequence = slot->sequence;

    rc = NGX_OK;

done:

    ngx_agent_slot_unlock();

    return rc;
}


ngx_int_t
ngx_agent_slot_join(ngx_agent_task_t *task)
{
    ngx_agent_slot_t  *slot;

    slot = ngx_agent_slot_lock(task->id);

    if (slot) {
        ngx_agent_share_join(slot->share, task);
    }

    ngx_agent_slot_unlock();

    return slot ? NGX_OK : NGX_DECLINED;
}


ngx_int_t
ngx_agent_slot_view(const u_char *id, ngx_agent_slot_view_t *view)
{
    ngx_agent_slot_t  *slot;

    slot = ngx_agent_slot_lock(id);

    if (slot) {
        ngx_agent_slot_copy(slot, view);
    }

    ngx_agent_slot_unlock();

    return slot ? NGX_OK : NGX_DECLINED;
}


ngx_uint_t
ngx_agent_slot_netns_used(uint64_t netns)
{
    ngx_uint_t  used;

    ngx_shmtx_lock(&ngx_agent_pool->mutex);

    used = (ngx_agent_slot_of_netns(netns) != NULL);

    ngx_shmtx_unlock(&ngx_agent_pool->mutex);

    return used;
}


ngx_int_t
ngx_agent_slot_free(const u_char *id, ngx_uint_t sequence,
    ngx_agent_slot_view_t *view)
{
    ngx_int_t          rc;
    ngx_agent_slot_t  *slot;

    rc = NGX_DECLINED;

    slot = ngx_agent_slot_lock(id);

    if (slot && slot->sequence == sequence) {
        ngx_agent_slot_take_out(slot, view);
        rc = NGX_OK;
    }

    ngx_agent_slot_unlock();

    return rc;
}


ngx_int_t
ngx_agent_slot_expired(u_char *id, ngx_agent_slot_view_t *view)
{
    ngx_int_t          rc;
    ngx_queue_t       *q;
    ngx_agent_slot_t  *slot;

    rc = NGX_DECLINED;

    ngx_shmtx_lock(&ngx_agent_pool->mutex);

    ngx_agent_queue_each(q, &ngx_agent_zone->slots) {
        slot = ngx_queue_data(q, ngx_agent_slot_t, queue);

        if (kill(slot->owner, 0) == 0 || ngx_errno != ESRCH) {
            continue;
        }

        /* signed: the clock of a worker may be behind that of another */

        if (slot->orphaned == 0) {
            slot->orphaned = ngx_current_msec | 1;
        }

        if ((ngx_msec_int_t) (ngx_current_msec - slot->expires) > 0
            || (ngx_msec_int_t) (ngx_current_msec - slot->orphaned)
               > NGX_AGENT_RESUME_TIME)
        {
            ngx_memcpy(id, slot->id, PROTOCOL_ID_LEN);
            ngx_agent_slot_take_out(slot, view);
            rc = NGX_OK;
            break;
        }
    }

    ngx_shmtx_unlock(&ngx_agent_pool->mutex);

    return rc;
}


ngx_agent_reason_e
ngx_agent_slot_counted_reason(ngx_agent_counted_e kind)
{
    static const ngx_agent_reason_e  reasons[NGX_AGENT_COUNTED] = {
        [NGX_AGENT_COUNTED_RATE] = NGX_AGENT_REASON_RATE,
        [NGX_AGENT_COUNTED_CONNECTIONS] = NGX_AGENT_REASON_CONNECTIONS,
        [NGX_AGENT_COUNTED_HANDSHAKES] = NGX_AGENT_REASON_HANDSHAKES,
        [NGX_AGENT_COUNTED_NAMES] = NGX_AGENT_REASON_NAMES,
        [NGX_AGENT_COUNTED_REFUSALS] = NGX_AGENT_REASON_REFUSALS,
        [NGX_AGENT_COUNTED_BUDGET] = NGX_AGENT_REASON_BUDGET,
    };

    return reasons[kind];
}


void
ngx_agent_slot_count(const u_char *id, ngx_agent_counted_e kind,
    const void *host, size_t len)
{
    ngx_agent_slot_t     *slot;
    ngx_agent_counted_t  *counted;

    slot = ngx_agent_slot_lock(id);

    if (slot) {
        slot->denied += (kind <= NGX_AGENT_COUNTED_HANDSHAKES);

        if (kind == NGX_AGENT_COUNTED_REFUSALS
            && ngx_agent_zone_is_over(slot))
        {
            kind = NGX_AGENT_COUNTED_BUDGET;
        }

        counted = &slot->counted[kind];

        if (counted->count++ == counted->told) {
            counted->host_len = (uint8_t) ngx_min(len, 255);

            if (len) {
                ngx_memcpy(counted->host, host,
                           ngx_min(len, NGX_AGENT_COUNTED_HOST));
            }
        }
    }

    ngx_agent_slot_unlock();
}


/*
 * Only the worker that has the lease writes: it also writes the task's end,
 * which comes after all of them.
 */

ngx_int_t
ngx_agent_slot_untold(const u_char *id,
    ngx_agent_counted_t counted[NGX_AGENT_COUNTED])
{
    ngx_int_t          rc;
    ngx_uint_t         i;
    ngx_agent_slot_t  *slot;

    rc = NGX_DECLINED;

    slot = ngx_agent_slot_lock(id);

    if (slot == NULL || slot->owner != ngx_pid
        || (slot->counted_next
            && (ngx_msec_int_t) (ngx_current_msec - slot->counted_next) < 0))
    {
        goto done;
    }

    for (i = 0; i < NGX_AGENT_COUNTED; i++) {

        if (slot->counted[i].count != slot->counted[i].told) {
            rc = NGX_OK;
        }
    }

    if (rc == NGX_OK) {
        slot->counted_next = (ngx_current_msec + NGX_AGENT_COUNTED_TIME) | 1;
        ngx_memcpy(counted, slot->counted, sizeof(slot->counted));
    }

done:

    ngx_agent_slot_unlock();

    return rc;
}


void
ngx_agent_slot_told(const u_char *id, ngx_agent_counted_e kind, uint64_t n)
{
    ngx_agent_slot_t  *slot;

    slot = ngx_agent_slot_lock(id);

    if (slot) {
        slot->counted[kind].told += n;
    }

    ngx_agent_slot_unlock();
}


ngx_agent_slot_t *
ngx_agent_slot_lock(const u_char *id)
{
    ngx_shmtx_lock(&ngx_agent_pool->mutex);

    return ngx_agent_slot_find(id);
}


void
ngx_agent_slot_unlock(void)
{
    ngx_shmtx_unlock(&ngx_agent_pool->mutex);
}


static ngx_agent_slot_t *
ngx_agent_slot_find(const u_char *id)
{
    uint32_t            key;
    ngx_int_t           rc;
    ngx_agent_slot_t   *slot;
    ngx_rbtree_node_t  *node, *sentinel;

    key = ngx_agent_slot_key(id);

    node = ngx_agent_zone->rbtree.root;
    sentinel = ngx_agent_zone->rbtree.sentinel;

    while (node != sentinel) {

        if (key != node->key) {
            node = (key < node->key) ? node->left : node->right;
            continue;
        }

        slot = (ngx_agent_slot_t *) node;
        rc = ngx_memcmp(id, slot->id, PROTOCOL_ID_LEN);

        if (rc == 0) {
            return slot;
        }

        node = (rc < 0) ? node->left : node->right;
    }

    return NULL;
}


static ngx_agent_slot_t *
ngx_agent_slot_of_netns(uint64_t netns)
{
    ngx_queue_t       *q;
    ngx_agent_slot_t  *slot;

    ngx_agent_queue_each(q, &ngx_agent_zone->slots) {
        slot = ngx_queue_data(q, ngx_agent_slot_t, queue);

        if (slot->netns == netns) {
            return slot;
        }
    }

    return NULL;
}


/* The live tasks of this policy and user, and all of them. */

static ngx_uint_t
ngx_agent_slot_live(uid_t uid, const policy_t *policy, ngx_uint_t *all)
{
    ngx_uint_t         n;
    ngx_queue_t       *q;
    ngx_agent_slot_t  *slot;

    n = 0;
    *all = 0;

    ngx_agent_queue_each(q, &ngx_agent_zone->slots) {
        slot = ngx_queue_data(q, ngx_agent_slot_t, queue);

        n += (slot->uid == uid
              && ngx_strcmp(slot->policy, policy->name) == 0);
        (*all)++;
    }

    return n;
}


static void
ngx_agent_slot_take_out(ngx_agent_slot_t *slot, ngx_agent_slot_view_t *view)
{
    ngx_agent_slot_copy(slot, view);
    ngx_memcpy(view->counted, slot->counted, sizeof(view->counted));

    ngx_agent_slot_forget(&slot->refusals.queue);
    ngx_agent_slot_forget(&slot->failures.queue);

    ngx_agent_share_end(slot->share);

    ngx_queue_remove(&slot->queue);
    ngx_rbtree_delete(&ngx_agent_zone->rbtree, &slot->node);
    ngx_slab_free_locked(ngx_agent_pool, slot);
}


static void
ngx_agent_slot_forget(ngx_queue_t *queue)
{
    ngx_queue_t  *q;

    while (!ngx_queue_empty(queue)) {
        q = ngx_queue_head(queue);
        ngx_queue_remove(q);
        ngx_slab_free_locked(ngx_agent_pool,
                             ngx_queue_data(q, ngx_agent_refusal_t, queue));
    }
}


static void
ngx_agent_slot_copy(ngx_agent_slot_t *slot, ngx_agent_slot_view_t *view)
{
    view->uid = slot->uid;
    view->pid = slot->pid;
    view->sequence = slot->sequence;
    view->netns = slot->netns;
    view->allowed = slot->allowed;
    view->denied = slot->denied;
    view->failed = slot->failed;
    view->unfinished = slot->unfinished;
    view->audit_lines = slot->used[BOUND_AUDIT_LINES];
    view->is_over = ngx_agent_zone_is_over(slot);
    view->is_spent = slot->is_spent;
    view->unlogged = slot->unlogged;
    view->left = slot->expires - ngx_current_msec;
    view->is_overdue = ((ngx_msec_int_t) view->left < 0);
    ngx_memcpy(view->policy, slot->policy, sizeof(view->policy));
    ngx_memcpy(view->policy_hash, slot->policy_hash,
               sizeof(view->policy_hash));
}


static uint32_t
ngx_agent_slot_key(const u_char *id)
{
    uint32_t  key;

    ngx_memcpy(&key, id, sizeof(uint32_t));

    return key;
}
