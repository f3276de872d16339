/*
 * Shared memory.  Two zones, both kept over reloads:
 *
 *   agent_broker  the policies of the newest generation, and a slot for each
 *                 live task (owner, counters, refusals);
 *   agent_vault   the credentials' values, locked into memory and left out of
 *                 core dumps.
 *
 * A new configuration's policies are put into the zone while the zones are set
 * up (there it may fail, and the reload with it), and made the current ones
 * when the configuration has started (there nothing can fail).  A worker keeps
 * no pointer into the zone but to the policies: it looks a slot up by its
 * task's id each time, and copies what it says.  Who reads which policies is
 * written beside them (ngx_agent_snapshots.c), so a worker that is killed
 * leaves nothing pinned; the master releases the locks it held.
 */


#include "task/ngx_agent_zone.h"

#include <openssl/sha.h>
#include <sys/mman.h>


#define NGX_AGENT_VAULT_ZONE  (256 * 1024)
#define NGX_AGENT_ZONE_SPARE  (256 * 1024)     /* for refusals, beside slots */


typedef struct {
    uint64_t            revision;
    u_char              digest[SHA256_DIGEST_LENGTH];
    size_t              len;
    size_t              cap;
    u_char             *data;           /* packed, see vault.h */
} ngx_agent_vault_t;


static size_t ngx_agent_zone_taken(size_t size);
static ngx_int_t ngx_agent_zone_init(ngx_shm_zone_t *shm_zone, void *data);
static void ngx_agent_zone_insert(ngx_rbtree_node_t *temp,
    ngx_rbtree_node_t *node, ngx_rbtree_node_t *sentinel);
static ngx_int_t ngx_agent_zone_vault_init(ngx_shm_zone_t *shm_zone,
    void *data);


/* Set in the master at each start of a configuration, inherited by workers. */

ngx_slab_pool_t           *ngx_agent_pool;
ngx_agent_zone_t          *ngx_agent_zone;
static ngx_slab_pool_t    *ngx_agent_vault_pool;
static ngx_agent_vault_t  *ngx_agent_vault;


ngx_int_t
ngx_agent_zone_add(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf,
    size_t share_size)
{
    size_t                  need;
    ngx_cycle_t            *old;
    ngx_agent_main_conf_t  *oamcf;

    need = ngx_agent_snapshots_size(amcf->snapshot_len)
           + amcf->tasks * (ngx_agent_zone_taken(sizeof(ngx_agent_slot_t))
                            + ngx_agent_zone_taken(share_size))
           + NGX_AGENT_ZONE_SPARE;

    /* and what the allocator writes down of each page */

    need += need / 128;

    if (amcf->zone_size < need) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"agent_zone %uz\" is too small for the policies and "
                      "%i tasks: they need \"agent_zone %uzk\", or lower "
                      "\"agent_tasks\"",
                      amcf->zone_size, amcf->tasks, (need + 1023) / 1024);
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

    amcf->zone = ngx_agent_zone_add_one(cf, "agent_broker", amcf->zone_size,
                                        ngx_agent_zone_init, amcf);
    amcf->vault_zone = ngx_agent_zone_add_one(cf, "agent_vault",
                                              NGX_AGENT_VAULT_ZONE,
                                              ngx_agent_zone_vault_init, amcf);

    return amcf->zone && amcf->vault_zone ? NGX_OK : NGX_ERROR;
}


/* What the allocator takes: a power of two, or whole pages. */

static size_t
ngx_agent_zone_taken(size_t size)
{
    size_t  taken;

    for (taken = 8; taken < size; taken *= 2) { /* void */ }

    return taken > ngx_pagesize / 2 ? ngx_align(size, ngx_pagesize) : taken;
}


ngx_shm_zone_t *
ngx_agent_zone_add_one(ngx_conf_t *cf, const char *name, size_t size,
    ngx_shm_zone_init_pt init, void *data)
{
    ngx_str_t        text;
    ngx_shm_zone_t  *zone;

    text.data = (u_char *) name;
    text.len = ngx_strlen(name);

    zone = ngx_shared_memory_add(cf, &text, size, &ngx_agent_broker_module);

    if (zone) {
        zone->init = init;
        zone->data = data;
    }

    return zone;
}


static ngx_int_t
ngx_agent_zone_init(ngx_shm_zone_t *shm_zone, void *data)
{
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
                        ngx_agent_zone_insert);
        ngx_queue_init(&zone->slots);
        ngx_queue_init(&zone->shares);

        if (ngx_agent_random((u_char *) &zone->instance,
                             sizeof(zone->instance))
            != NGX_OK)
        {
            return NGX_ERROR;
        }

        zone->current = NGX_AGENT_SNAPSHOTS;
        zone->pending = NGX_AGENT_SNAPSHOTS;

        pool->data = zone;
        pool->log_nomem = 0;
    }

    if (ngx_agent_snapshots_add(pool->data, pool, amcf->snapshot,
                                amcf->snapshot_len)
        != NGX_OK)
    {
        ngx_log_error(NGX_LOG_EMERG, shm_zone->shm.log, 0,
                      "\"agent_zone\" has no room for %uz bytes of policies: "
                      "live tasks fill it; make it larger and restart, "
                      "or reload when they have ended", amcf->snapshot_len);
        return NGX_ERROR;
    }

    return NGX_OK;
}


static void
ngx_agent_zone_insert(ngx_rbtree_node_t *temp, ngx_rbtree_node_t *node,
    ngx_rbtree_node_t *sentinel)
{
    ngx_rbtree_node_t  **p;

    for ( ;; ) {

        if (node->key != temp->key) {
            p = (node->key < temp->key) ? &temp->left : &temp->right;

        } else {
            p = (ngx_memcmp(((ngx_agent_slot_t *) node)->id,
                            ((ngx_agent_slot_t *) temp)->id,
                            PROTOCOL_ID_LEN)
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


static ngx_int_t
ngx_agent_zone_vault_init(ngx_shm_zone_t *shm_zone, void *data)
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
    u_char              digest[SHA256_DIGEST_LENGTH];
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

    ngx_agent_snapshots_publish(zone);

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


uint64_t
ngx_agent_zone_instance(void)
{
    return ngx_agent_zone->instance;
}


size_t
ngx_agent_zone_vault_copy(const char *name, u_char *dst, size_t cap,
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


ngx_uint_t
ngx_agent_zone_vault_is_in(const char *text, size_t len)
{
    ngx_uint_t  found;

    ngx_shmtx_lock(&ngx_agent_vault_pool->mutex);

    found = vault_packed_is_in(ngx_agent_vault->data, ngx_agent_vault->len,
                               text, len);

    ngx_shmtx_unlock(&ngx_agent_vault_pool->mutex);

    return found;
}


uint64_t
ngx_agent_zone_vault_revision(void)
{
    return ngx_agent_vault->revision;
}
