/*
 * Shared memory.  Two zones, both kept over reloads:
 *
 *   agent_broker  the policies' text of the newest generation, and a slot for
 *                 each live task (owner, counters, refusals);
 *   agent_vault   the credentials' values, locked into memory and left out of
 *                 core dumps.
 *
 * A new configuration's text is put into the zone while the zones are set up
 * (there it may fail, and the reload with it), and made the current one when
 * the configuration has started (there nothing can fail).  Nobody keeps a
 * pointer into the zone: a worker copies the text under the lock, looks a
 * slot up by its task's id each time, and copies what it says.  So there is
 * nothing to count, and a worker that is killed leaves nothing pinned; the
 * master releases the locks it held.
 */


#include "ngx_agent_broker.h"

#include <openssl/sha.h>
#include <sys/mman.h>


#define NGX_AGENT_VAULT_ZONE  (256 * 1024)
#define NGX_AGENT_ZONE_SPARE  (256 * 1024)     /* for slots, at the least */


typedef struct {
    u_char      *text;
    size_t       len;
} ngx_agent_text_t;


typedef struct {
    ngx_rbtree_t        rbtree;
    ngx_rbtree_node_t   sentinel;
    ngx_queue_t         slots;

    ngx_agent_text_t    current;
    ngx_agent_text_t    pending;        /* of a configuration not started */
    ngx_atomic_t        generation;     /* of current; read without the lock */
} ngx_agent_zone_t;


typedef struct {
    uint64_t            revision;
    u_char              digest[SHA256_DIGEST_LENGTH];
    size_t              len;
    size_t              cap;
    u_char             *data;           /* packed, see vault.h */
} ngx_agent_vault_t;


static ngx_int_t ngx_agent_zone_init(ngx_shm_zone_t *shm_zone, void *data);
static ngx_int_t ngx_agent_vault_init(ngx_shm_zone_t *shm_zone, void *data);
static void ngx_agent_slot_insert(ngx_rbtree_node_t *temp,
    ngx_rbtree_node_t *node, ngx_rbtree_node_t *sentinel);
static ngx_agent_slot_t *ngx_agent_slot_find(const u_char *id);
static void ngx_agent_slot_destroy(ngx_agent_slot_t *slot);
static void ngx_agent_slot_copy(ngx_agent_slot_t *slot,
    ngx_agent_slot_view_t *view);
static uint32_t ngx_agent_slot_key(const u_char *id);


/* Set in the master at each start of a configuration, inherited by workers. */

static ngx_slab_pool_t    *ngx_agent_pool;
static ngx_agent_zone_t   *ngx_agent_zone;
static ngx_slab_pool_t    *ngx_agent_vault_pool;
static ngx_agent_vault_t  *ngx_agent_vault;


ngx_int_t
ngx_agent_zone_add(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf)
{
    size_t                  need;
    ngx_str_t               name;
    ngx_cycle_t            *old;
    ngx_agent_main_conf_t  *oamcf;

    /* the old text and the new one are there together during a reload */

    need = 2 * amcf->set_len + NGX_AGENT_ZONE_SPARE;

    if (amcf->zone_size < need) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"agent_zone %uz\" is too small for the policies: "
                      "they need \"agent_zone %uzk\"",
                      amcf->zone_size, (need + 1023) / 1024);
        return NGX_ERROR;
    }

    old = cf->cycle->old_cycle;

    if (old && old->conf_ctx
        && old->conf_ctx[ngx_http_module.index] != NULL)
    {
        oamcf = ngx_http_cycle_get_module_main_conf(old,
                                                    ngx_agent_broker_module);

        if (oamcf && oamcf->zone && oamcf->zone_size != amcf->zone_size) {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "the size of \"agent_zone\" cannot change on a "
                          "reload, it holds live tasks: restart instead");
            return NGX_ERROR;
        }
    }

    ngx_str_set(&name, "agent_broker");

    amcf->zone = ngx_shared_memory_add(cf, &name, amcf->zone_size,
                                       &ngx_agent_broker_module);
    if (amcf->zone == NULL) {
        return NGX_ERROR;
    }

    amcf->zone->init = ngx_agent_zone_init;
    amcf->zone->data = amcf;

    ngx_str_set(&name, "agent_vault");

    amcf->vault_zone = ngx_shared_memory_add(cf, &name, NGX_AGENT_VAULT_ZONE,
                                             &ngx_agent_broker_module);
    if (amcf->vault_zone == NULL) {
        return NGX_ERROR;
    }

    amcf->vault_zone->init = ngx_agent_vault_init;
    amcf->vault_zone->data = amcf;

    return NGX_OK;
}


static ngx_int_t
ngx_agent_zone_init(ngx_shm_zone_t *shm_zone, void *data)
{
    u_char                 *text;
    ngx_slab_pool_t        *pool;
    ngx_agent_zone_t       *zone;
    ngx_agent_main_conf_t  *amcf;

    amcf = shm_zone->data;
    pool = (ngx_slab_pool_t *) shm_zone->shm.addr;

    if (data == NULL) {

        zone = ngx_slab_calloc(pool, sizeof(ngx_agent_zone_t));
        if (zone == NULL) {
            return NGX_ERROR;
        }

        ngx_rbtree_init(&zone->rbtree, &zone->sentinel,
                        ngx_agent_slot_insert);
        ngx_queue_init(&zone->slots);

        pool->data = zone;
        pool->log_nomem = 0;
    }

    zone = pool->data;

    ngx_shmtx_lock(&pool->mutex);

    if (zone->pending.text) {
        /* of a configuration that did not start */
        ngx_slab_free_locked(pool, zone->pending.text);
        zone->pending.text = NULL;
    }

    text = ngx_slab_alloc_locked(pool, amcf->set_len + 1);

    if (text) {
        ngx_memcpy(text, amcf->set_text, amcf->set_len + 1);
        zone->pending.text = text;
        zone->pending.len = amcf->set_len;
    }

    ngx_shmtx_unlock(&pool->mutex);

    if (text == NULL) {
        ngx_log_error(NGX_LOG_EMERG, shm_zone->shm.log, 0,
                      "\"agent_zone\" has no room for %uz bytes of policies: "
                      "live tasks fill it; make it larger and restart, "
                      "or reload when they have ended", amcf->set_len);
        return NGX_ERROR;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_agent_vault_init(ngx_shm_zone_t *shm_zone, void *data)
{
    size_t                  need;
    ngx_slab_pool_t        *pool;
    ngx_agent_vault_t      *vault;
    ngx_agent_main_conf_t  *amcf;

    amcf = shm_zone->data;
    pool = (ngx_slab_pool_t *) shm_zone->shm.addr;

    if (data == NULL) {

        if (mlock(shm_zone->shm.addr, shm_zone->shm.size) == -1
            || madvise(shm_zone->shm.addr, shm_zone->shm.size,
                       MADV_DONTDUMP) == -1)
        {
            ngx_log_error(NGX_LOG_EMERG, shm_zone->shm.log, ngx_errno,
                          "the vault's memory cannot be locked: "
                          "allow %uz kbytes with \"ulimit -l\"",
                          shm_zone->shm.size / 1024);
            return NGX_ERROR;
        }

        vault = ngx_slab_calloc(pool, sizeof(ngx_agent_vault_t));
        if (vault == NULL) {
            return NGX_ERROR;
        }

        vault->cap = NGX_AGENT_VAULT_ZONE * 3 / 4;
        vault->data = ngx_slab_alloc(pool, vault->cap);
        if (vault->data == NULL) {
            return NGX_ERROR;
        }

        pool->data = vault;
    }

    vault = pool->data;

    need = amcf->vault ? vault_pack(amcf->vault, NULL, 0) : 0;

    if (need > vault->cap) {
        ngx_log_error(NGX_LOG_EMERG, shm_zone->shm.log, 0,
                      "the vault \"%V\" is too large: %uz bytes of %uz",
                      &amcf->vault_file, need, vault->cap);
        return NGX_ERROR;
    }

    return NGX_OK;
}


void
ngx_agent_zone_publish(ngx_cycle_t *cycle, ngx_agent_main_conf_t *amcf)
{
    u_char             *old, digest[SHA256_DIGEST_LENGTH];
    ngx_agent_zone_t   *zone;
    ngx_agent_vault_t  *vault;

    ngx_agent_pool = (ngx_slab_pool_t *) amcf->zone->shm.addr;
    ngx_agent_zone = ngx_agent_pool->data;
    ngx_agent_vault_pool = (ngx_slab_pool_t *) amcf->vault_zone->shm.addr;
    ngx_agent_vault = ngx_agent_vault_pool->data;

    zone = ngx_agent_zone;
    vault = ngx_agent_vault;

    /*
     * Both under both locks: no request is judged by the new policies with
     * the old values.  The other way round is refused when the credential is
     * attached (the generation is compared there).
     */

    ngx_shmtx_lock(&ngx_agent_pool->mutex);
    ngx_shmtx_lock(&ngx_agent_vault_pool->mutex);

    ngx_explicit_memzero(vault->data, vault->len);

    vault->len = amcf->vault ? vault_pack(amcf->vault, vault->data, vault->cap)
                             : 0;

    SHA256(vault->data, vault->len, digest);

    if (vault->revision == 0
        || ngx_memcmp(digest, vault->digest, sizeof(digest)) != 0)
    {
        ngx_memcpy(vault->digest, digest, sizeof(digest));
        vault->revision++;
    }

    old = zone->current.text;
    zone->current = zone->pending;
    zone->pending.text = NULL;

    if (old) {
        ngx_slab_free_locked(ngx_agent_pool, old);
    }

    zone->generation++;

    ngx_shmtx_unlock(&ngx_agent_vault_pool->mutex);
    ngx_shmtx_unlock(&ngx_agent_pool->mutex);

    /* the workers read the values in the zone: the master's own copy goes */

    vault_free(amcf->vault);
    amcf->vault = NULL;

    ngx_log_error(NGX_LOG_INFO, cycle->log, 0,
                  "agent policies: generation %uA, vault revision %uL",
                  zone->generation, ngx_agent_vault->revision);
}


uint64_t
ngx_agent_zone_generation(void)
{
    return ngx_agent_zone->generation;
}


char *
ngx_agent_zone_text(size_t *len, uint64_t *generation)
{
    char  *text;

    ngx_shmtx_lock(&ngx_agent_pool->mutex);

    text = malloc(ngx_agent_zone->current.len + 1);

    if (text) {
        ngx_memcpy(text, ngx_agent_zone->current.text,
                   ngx_agent_zone->current.len + 1);
        *len = ngx_agent_zone->current.len;
        *generation = ngx_agent_zone->generation;
    }

    ngx_shmtx_unlock(&ngx_agent_pool->mutex);

    return text;
}


ngx_int_t
ngx_agent_slot_create(u_char *id, uid_t uid, ngx_pid_t pid,
    const policy_t *policy, ngx_msec_t life)
{
    ngx_agent_slot_t  *slot;

    ngx_shmtx_lock(&ngx_agent_pool->mutex);

    if (ngx_agent_slot_find(id)) {
        ngx_shmtx_unlock(&ngx_agent_pool->mutex);
        return NGX_DECLINED;
    }

    slot = ngx_slab_calloc_locked(ngx_agent_pool, sizeof(ngx_agent_slot_t));

    if (slot == NULL) {
        ngx_shmtx_unlock(&ngx_agent_pool->mutex);
        return NGX_BUSY;
    }

    ngx_memcpy(slot->id, id, NGX_AGENT_ID_LEN);
    slot->owner = ngx_pid;
    slot->uid = uid;
    slot->pid = pid;
    slot->expires = ngx_current_msec + life;

    (void) ngx_cpystrn(slot->policy, (u_char *) policy->name,
                       sizeof(slot->policy));
    (void) ngx_cpystrn(slot->policy_hash, (u_char *) policy->hash,
                       sizeof(slot->policy_hash));

    ngx_queue_init(&slot->refusals);

    slot->node.key = ngx_agent_slot_key(id);
    ngx_rbtree_insert(&ngx_agent_zone->rbtree, &slot->node);
    ngx_queue_insert_tail(&ngx_agent_zone->slots, &slot->queue);

    ngx_shmtx_unlock(&ngx_agent_pool->mutex);

    return NGX_OK;
}


ngx_int_t
ngx_agent_slot_take(const u_char *id, uid_t uid, uint64_t netns,
    ngx_uint_t *sequence)
{
    ngx_int_t          rc;
    ngx_queue_t       *q;
    ngx_agent_slot_t  *slot, *other;

    ngx_shmtx_lock(&ngx_agent_pool->mutex);

    slot = ngx_agent_slot_find(id);

    if (slot == NULL) {
        rc = NGX_DECLINED;
        goto done;
    }

    if (slot->uid != uid || (slot->netns != 0 && slot->netns != netns)) {
        rc = NGX_ABORT;
        goto done;
    }

    for (q = ngx_queue_head(&ngx_agent_zone->slots);
         q != ngx_queue_sentinel(&ngx_agent_zone->slots);
         q = ngx_queue_next(q))
    {
        other = ngx_queue_data(q, ngx_agent_slot_t, queue);

        if (other != slot && other->netns == netns) {
            rc = NGX_BUSY;
            goto done;
        }
    }

    slot->netns = netns;
    slot->owner = ngx_pid;
    slot->sequence++;
    *sequence = slot->sequence;

    rc = NGX_OK;

done:

    ngx_shmtx_unlock(&ngx_agent_pool->mutex);

    return rc;
}


ngx_int_t
ngx_agent_slot_view(const u_char *id, ngx_agent_slot_view_t *view)
{
    ngx_agent_slot_t  *slot;

    ngx_shmtx_lock(&ngx_agent_pool->mutex);

    slot = ngx_agent_slot_find(id);

    if (slot) {
        ngx_agent_slot_copy(slot, view);
    }

    ngx_shmtx_unlock(&ngx_agent_pool->mutex);

    return slot ? NGX_OK : NGX_DECLINED;
}


ngx_uint_t
ngx_agent_slot_netns_used(uint64_t netns)
{
    ngx_uint_t         used;
    ngx_queue_t       *q;
    ngx_agent_slot_t  *slot;

    used = 0;

    ngx_shmtx_lock(&ngx_agent_pool->mutex);

    for (q = ngx_queue_head(&ngx_agent_zone->slots);
         q != ngx_queue_sentinel(&ngx_agent_zone->slots);
         q = ngx_queue_next(q))
    {
        slot = ngx_queue_data(q, ngx_agent_slot_t, queue);

        if (slot->netns == netns) {
            used = 1;
            break;
        }
    }

    ngx_shmtx_unlock(&ngx_agent_pool->mutex);

    return used;
}


void
ngx_agent_slot_count(const u_char *id, ngx_uint_t allowed, ngx_uint_t denied,
    ngx_uint_t lines)
{
    ngx_agent_slot_t  *slot;

    ngx_shmtx_lock(&ngx_agent_pool->mutex);

    slot = ngx_agent_slot_find(id);

    if (slot) {
        slot->allowed += allowed;
        slot->denied += denied;
        slot->audit_lines += lines;
    }

    ngx_shmtx_unlock(&ngx_agent_pool->mutex);
}


/*
 * One refusal for `close` to report.  The same one again is counted; of
 * different ones the first 64 are kept, and the count of all.
 */

void
ngx_agent_slot_refuse(const u_char *id, ngx_agent_ctx_t *ctx,
    const char *hint)
{
    u_char               *p;
    size_t                method, host, path, tail;
    ngx_queue_t          *q;
    ngx_agent_slot_t     *slot;
    ngx_agent_refusal_t  *refusal;

    method = ngx_min(ctx->target.method_len, 32);
    host = ctx->target.authority.host_len;
    path = ngx_min(ctx->target.path_len, 128);
    tail = hint ? ngx_min(ngx_strlen(hint), 255) : 0;

    ngx_shmtx_lock(&ngx_agent_pool->mutex);

    slot = ngx_agent_slot_find(id);

    if (slot == NULL) {
        goto done;
    }

    slot->denied++;

    for (q = ngx_queue_head(&slot->refusals);
         q != ngx_queue_sentinel(&slot->refusals);
         q = ngx_queue_next(q))
    {
        refusal = ngx_queue_data(q, ngx_agent_refusal_t, queue);
        p = refusal->data;

        if (refusal->reason == ctx->reason
            && refusal->port == ctx->target.authority.port
            && refusal->method_len == method
            && refusal->host_len == host
            && refusal->path_len == path
            && ngx_memcmp(p, ctx->target.method, method) == 0
            && ngx_memcmp(p + method, ctx->target.authority.host, host) == 0
            && ngx_memcmp(p + method + host, ctx->target.path, path) == 0)
        {
            refusal->count++;
            goto done;
        }
    }

    if (slot->refusals_count == NGX_AGENT_REFUSALS_MAX) {
        goto done;
    }

    refusal = ngx_slab_alloc_locked(ngx_agent_pool,
                                    sizeof(ngx_agent_refusal_t)
                                    + method + host + path + tail);
    if (refusal == NULL) {
        goto done;
    }

    refusal->count = 1;
    refusal->port = ctx->target.authority.port;
    refusal->reason = ctx->reason;
    refusal->method_len = method;
    refusal->host_len = host;
    refusal->path_len = path;
    refusal->hint_len = tail;

    p = refusal->data;
    p = ngx_cpymem(p, ctx->target.method, method);
    p = ngx_cpymem(p, ctx->target.authority.host, host);
    p = ngx_cpymem(p, ctx->target.path, path);
    (void) ngx_cpymem(p, hint, tail);

    ngx_queue_insert_tail(&slot->refusals, &refusal->queue);
    slot->refusals_count++;

done:

    ngx_shmtx_unlock(&ngx_agent_pool->mutex);
}


json_t *
ngx_agent_slot_refusals(const u_char *id, ngx_uint_t *count)
{
    u_char               *p;
    json_t               *list, *entry;
    ngx_queue_t          *q;
    ngx_agent_slot_t     *slot;
    ngx_agent_refusal_t  *refusal;

    *count = 0;

    list = json_array();

    ngx_shmtx_lock(&ngx_agent_pool->mutex);

    slot = ngx_agent_slot_find(id);

    if (slot == NULL || list == NULL) {
        goto done;
    }

    *count = slot->denied;

    for (q = ngx_queue_head(&slot->refusals);
         q != ngx_queue_sentinel(&slot->refusals);
         q = ngx_queue_next(q))
    {
        refusal = ngx_queue_data(q, ngx_agent_refusal_t, queue);
        p = refusal->data;

        entry = json_pack("{s:s#, s:s#, s:i, s:s#, s:s, s:I}",
                    "method", p, (int) refusal->method_len,
                    "host", p + refusal->method_len,
                            (int) refusal->host_len,
                    "port", (int) refusal->port,
                    "path", p + refusal->method_len + refusal->host_len,
                            (int) refusal->path_len,
                    "reason", ngx_agent_reason(refusal->reason)->word,
                    "count", (json_int_t) refusal->count);

        if (entry == NULL) {
            continue;
        }

        p += refusal->method_len + refusal->host_len + refusal->path_len;

        (void) json_object_set_new(entry, "hint",
                            refusal->hint_len
                            ? json_stringn((char *) p, refusal->hint_len)
                            : json_null());

        (void) json_array_append_new(list, entry);
    }

done:

    ngx_shmtx_unlock(&ngx_agent_pool->mutex);

    return list;
}


ngx_int_t
ngx_agent_slot_free(const u_char *id, ngx_uint_t sequence,
    ngx_agent_slot_view_t *view)
{
    ngx_int_t          rc;
    ngx_agent_slot_t  *slot;

    rc = NGX_DECLINED;

    ngx_shmtx_lock(&ngx_agent_pool->mutex);

    slot = ngx_agent_slot_find(id);

    if (slot && slot->sequence == sequence) {
        ngx_agent_slot_copy(slot, view);
        ngx_agent_slot_destroy(slot);
        rc = NGX_OK;
    }

    ngx_shmtx_unlock(&ngx_agent_pool->mutex);

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

    for (q = ngx_queue_head(&ngx_agent_zone->slots);
         q != ngx_queue_sentinel(&ngx_agent_zone->slots);
         q = ngx_queue_next(q))
    {
        slot = ngx_queue_data(q, ngx_agent_slot_t, queue);

        if ((ngx_msec_int_t) (ngx_current_msec - slot->expires) > 0
            && kill(slot->owner, 0) == -1 && ngx_errno == ESRCH)
        {
            ngx_memcpy(id, slot->id, NGX_AGENT_ID_LEN);
            ngx_agent_slot_copy(slot, view);
            ngx_agent_slot_destroy(slot);
            rc = NGX_OK;
            break;
        }
    }

    ngx_shmtx_unlock(&ngx_agent_pool->mutex);

    return rc;
}


size_t
ngx_agent_vault_copy(const char *name, u_char *dst, size_t cap,
    uint64_t *revision)
{
    size_t                len;
    const unsigned char  *value;

    len = 0;

    ngx_shmtx_lock(&ngx_agent_vault_pool->mutex);

    *revision = ngx_agent_vault->revision;

    value = vault_packed_find(ngx_agent_vault->data, ngx_agent_vault->len,
                              name, &len);

    if (value == NULL || len > cap) {
        len = 0;

    } else {
        ngx_memcpy(dst, value, len);
    }

    ngx_shmtx_unlock(&ngx_agent_vault_pool->mutex);

    return len;
}


uint64_t
ngx_agent_vault_revision(void)
{
    return ngx_agent_vault->revision;
}


/* Everything below expects the zone's lock to be held. */

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
        rc = ngx_memcmp(id, slot->id, NGX_AGENT_ID_LEN);

        if (rc == 0) {
            return slot;
        }

        node = (rc < 0) ? node->left : node->right;
    }

    return NULL;
}


static void
ngx_agent_slot_insert(ngx_rbtree_node_t *temp, ngx_rbtree_node_t *node,
    ngx_rbtree_node_t *sentinel)
{
    ngx_rbtree_node_t  **p;

    for ( ;; ) {

        if (node->key != temp->key) {
            p = (node->key < temp->key) ? &temp->left : &temp->right;

        } else {
            p = (ngx_memcmp(((ngx_agent_slot_t *) node)->id,
                            ((ngx_agent_slot_t *) temp)->id,
                            NGX_AGENT_ID_LEN)
                 < 0) ? &temp->left : &temp->right;
        }

        if (*p == sentinel) {
            break;
        }

        temp = *p;
    }

    *p = node;
    node->parent = temp;
    node->left = sentinel;
    node->right = sentinel;
    ngx_rbt_red(node);
}


static void
ngx_agent_slot_destroy(ngx_agent_slot_t *slot)
{
    ngx_queue_t  *q;

    while (!ngx_queue_empty(&slot->refusals)) {
        q = ngx_queue_head(&slot->refusals);
        ngx_queue_remove(q);
        ngx_slab_free_locked(ngx_agent_pool,
                             ngx_queue_data(q, ngx_agent_refusal_t, queue));
    }

    ngx_queue_remove(&slot->queue);
    ngx_rbtree_delete(&ngx_agent_zone->rbtree, &slot->node);
    ngx_slab_free_locked(ngx_agent_pool, slot);
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
    view->audit_lines = slot->audit_lines;
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
