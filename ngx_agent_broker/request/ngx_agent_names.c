/*
 * A name is one question, however many requests wait for its answer, and its
 * addresses live as long as the answer says: at least a second, at most five
 * minutes, for else one false answer would be believed until the next reload.
 * What has failed is not kept.
 */


#include "request/ngx_agent_names.h"


#define NGX_AGENT_NAMES_MAX      1024       /* kept */
#define NGX_AGENT_NAMES_TTL_MIN  1          /* s */
#define NGX_AGENT_NAMES_TTL_MAX  300


struct ngx_agent_name_s {
    ngx_str_node_t     node;                /* first; key: and resolver */
    ngx_queue_t        queue;               /* of kept ones, by last use */
    ngx_agent_ask_t   *ask;                 /* NULL: it is known */
    ngx_queue_t        waits;               /* ngx_agent_ctx_t */

    ngx_msec_t         expires;
    ngx_uint_t         used;
    size_t             count;
    address_t         *addresses;
};


static ngx_agent_name_t *ngx_agent_names_lookup(ngx_agent_ctx_t *ctx);
static ngx_agent_name_t *ngx_agent_names_add(ngx_agent_ctx_t *ctx);
static void ngx_agent_names_answer(ngx_agent_answer_t *answer, void *data);
static ngx_int_t ngx_agent_names_copy(ngx_agent_ctx_t *ctx,
    const address_t *addresses, size_t n, ngx_uint_t first);
static void ngx_agent_names_remove(ngx_agent_name_t *name);
static uint32_t ngx_agent_names_hash(ngx_agent_ctx_t *ctx);


static ngx_rbtree_t       ngx_agent_names_tree;
static ngx_rbtree_node_t  ngx_agent_names_sentinel;
static ngx_queue_t        ngx_agent_names_kept;
static ngx_uint_t         ngx_agent_names_count;


ngx_int_t
ngx_agent_names_find(ngx_agent_ctx_t *ctx)
{
    ngx_agent_name_t  *known;

    known = ngx_agent_names_lookup(ctx);

    if (known == NULL) {
        return NGX_DECLINED;
    }

    if (known->ask) {
        return NGX_AGAIN;
    }

    if ((ngx_msec_int_t) (known->expires - ngx_current_msec) <= 0) {
        ngx_agent_names_remove(known);
        return NGX_DECLINED;
    }

    ngx_queue_remove(&known->queue);
    ngx_queue_insert_tail(&ngx_agent_names_kept, &known->queue);

    return ngx_agent_names_copy(ctx, known->addresses, known->count,
                                known->used++);
}


ngx_int_t
ngx_agent_names_ask(ngx_agent_ctx_t *ctx)
{
    ngx_agent_name_t  *asked;

    asked = ngx_agent_names_lookup(ctx);

    if (asked == NULL) {

        asked = ngx_agent_names_add(ctx);

        if (asked == NULL) {
            ctx->why = "out of memory";
            return NGX_DECLINED;
        }

        asked->ask = ngx_agent_ask(ctx->resolver, &asked->node.str,
                                   ctx->resolve_time, ngx_agent_names_answer,
                                   asked);

        if (asked->ask == NULL) {
            ngx_agent_names_remove(asked);
            ctx->why = "no name server can be asked for it";
            return NGX_DECLINED;
        }
    }

    ngx_queue_insert_tail(&asked->waits, &ctx->name_queue);
    ctx->name = asked;

    return NGX_AGAIN;
}


void
ngx_agent_names_leave(ngx_agent_ctx_t *ctx)
{
    ngx_agent_name_t  *name;

    if (ctx->name_queue.next == NULL) {
        return;
    }

    ngx_queue_remove(&ctx->name_queue);
    ctx->name_queue.next = NULL;

    name = ctx->name;

    /* NULL: its answer is there, and others are being told */

    if (name && ngx_queue_empty(&name->waits)) {
        ngx_agent_ask_cancel(name->ask);
        name->ask = NULL;
        ngx_agent_names_remove(name);
    }
}


static ngx_agent_name_t *
ngx_agent_names_lookup(ngx_agent_ctx_t *ctx)
{
    ngx_str_t  name;

    if (ngx_agent_names_tree.root == NULL) {
        ngx_rbtree_init(&ngx_agent_names_tree, &ngx_agent_names_sentinel,
                        ngx_str_rbtree_insert_value);
        ngx_queue_init(&ngx_agent_names_kept);
    }

    name.data = (u_char *) ctx->target.authority.host;
    name.len = ctx->target.authority.host_len;

    return (ngx_agent_name_t *)
           ngx_str_rbtree_lookup(&ngx_agent_names_tree, &name,
                                 ngx_agent_names_hash(ctx));
}


/*
 * Those that are asked for need no bound of their own: a request in flight
 * waits for each, and how many of these a task has is bounded.
 */

static ngx_agent_name_t *
ngx_agent_names_add(ngx_agent_ctx_t *ctx)
{
    authority_t       *a;
    ngx_agent_name_t  *added;

    a = &ctx->target.authority;

    added = ngx_calloc(sizeof(ngx_agent_name_t) + a->host_len, ngx_cycle->log);
    if (added == NULL) {
        return NULL;
    }

    added->node.str.data = (u_char *) (added + 1);
    added->node.str.len = a->host_len;
    ngx_memcpy(added->node.str.data, a->host, a->host_len);

    added->node.node.key = ngx_agent_names_hash(ctx);

    ngx_queue_init(&added->waits);

    ngx_rbtree_insert(&ngx_agent_names_tree, &added->node.node);

    return added;
}


/*
 * Whoever is told may end, and others with it, or ask for names again: the name
 * and who waits for it are not found any more, or are in order, before that.
 */

static void
ngx_agent_names_answer(ngx_agent_answer_t *answer, void *data)
{
    size_t             size;
    ngx_uint_t         n;
    ngx_msec_t         ttl;
    ngx_queue_t        waits, *q;
    ngx_agent_ctx_t   *ctx;
    ngx_agent_name_t  *name;

    name = data;
    name->ask = NULL;

    ngx_queue_init(&waits);
    ngx_queue_add(&waits, &name->waits);
    ngx_queue_init(&name->waits);

    ngx_agent_queue_each(q, &waits) {
        ctx = ngx_queue_data(q, ngx_agent_ctx_t, name_queue);
        ctx->name = NULL;
    }

    ttl = ngx_max(answer->ttl, NGX_AGENT_NAMES_TTL_MIN);
    ttl = ngx_min(ttl, NGX_AGENT_NAMES_TTL_MAX);

    ngx_log_debug4(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                   "agent: \"%V\" has %ui addresses for %M s, %s",
                   &name->node.str, answer->count, ttl,
                   answer->why ? answer->why : "found");

    size = answer->count * sizeof(address_t);

    if (size) {
        name->addresses = ngx_alloc(size, ngx_cycle->log);
    }

    if (name->addresses) {

        ngx_memcpy(name->addresses, answer->addresses, size);
        name->count = answer->count;
        name->expires = ngx_current_msec + ttl * 1000;

        /* in the place of the one that was not used for the longest time */

        if (ngx_agent_names_count == NGX_AGENT_NAMES_MAX) {
            q = ngx_queue_head(&ngx_agent_names_kept);
            ngx_agent_names_remove(ngx_queue_data(q, ngx_agent_name_t, queue));
        }

        ngx_queue_insert_tail(&ngx_agent_names_kept, &name->queue);
        ngx_agent_names_count++;

    } else {
        ngx_agent_names_remove(name);
    }

    for (n = 0; !ngx_queue_empty(&waits); n++) {

        q = ngx_queue_head(&waits);
        ctx = ngx_queue_data(q, ngx_agent_ctx_t, name_queue);

        ngx_queue_remove(q);
        q->next = NULL;

        ctx->why = answer->why;

        if (answer->count
            && ngx_agent_names_copy(ctx, answer->addresses, answer->count, n)
               != NGX_OK)
        {
            ctx->why = "out of memory";
        }

        ctx->waiting = 0;
        ctx->resolved(ctx);
    }
}


/*
 * IPv4 addresses stay before the others; of each kind another one is the first
 * each time, so that one upstream does not get all.
 */

static ngx_int_t
ngx_agent_names_copy(ngx_agent_ctx_t *ctx, const address_t *addresses,
    size_t n, ngx_uint_t first)
{
    size_t  i, ipv4;

    ctx->addresses = ngx_palloc(ctx->pool, n * sizeof(address_t));
    if (ctx->addresses == NULL) {
        return NGX_ERROR;
    }

    for (ipv4 = 0; ipv4 < n && !addresses[ipv4].v6; ipv4++) { /* void */ }

    for (i = 0; i < ipv4; i++) {
        ctx->addresses[i] = addresses[(i + first) % ipv4];
    }

    for ( /* void */ ; i < n; i++) {
        ctx->addresses[i] = addresses[ipv4 + (i + first) % (n - ipv4)];
    }

    ctx->addresses_count = n;

    return NGX_OK;
}


static void
ngx_agent_names_remove(ngx_agent_name_t *name)
{
    if (name->addresses) {
        ngx_queue_remove(&name->queue);
        ngx_agent_names_count--;
        ngx_free(name->addresses);
    }

    ngx_rbtree_delete(&ngx_agent_names_tree, &name->node.node);

    ngx_free(name);
}


/* Two resolvers may know different names. */

static uint32_t
ngx_agent_names_hash(ngx_agent_ctx_t *ctx)
{
    uint32_t  hash;

    ngx_crc32_init(hash);
    ngx_crc32_update(&hash, (u_char *) &ctx->resolver,
                     sizeof(ngx_resolver_t *));
    ngx_crc32_update(&hash, (u_char *) ctx->target.authority.host,
                     ctx->target.authority.host_len);
    ngx_crc32_final(hash);

    return hash;
}
