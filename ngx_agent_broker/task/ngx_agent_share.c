/*
 * A task's share of all workers: what it holds at once, and its turns.
 *
 * The share is in shared memory beside the task's slot.  A worker points at it
 * as long as it has the task, and counts what it holds in a row of its own, so
 * that a request costs an addition and no lock, and what a killed worker held
 * is dropped with its row.  A share outlives its slot until the last worker
 * has left it.
 */


#include "task/ngx_agent_zone.h"

#include "policy/rate.h"


#define NGX_AGENT_HOLDERS      8                  /* rows of a block */
#define NGX_AGENT_HOLDER_MANY  ((ngx_pid_t) -1)   /* workers share the row */


struct ngx_agent_holder_s {
    ngx_pid_t            pid;               /* 0: nobody's */
    ngx_uint_t           tasks;             /* of workers that count here */
    ngx_atomic_t         held[NGX_AGENT_HELD];
};


/* A block stays as long as the share: it is read without the lock. */

typedef struct ngx_agent_holders_s  ngx_agent_holders_t;

struct ngx_agent_holders_s {
    ngx_agent_holder_t             rows[NGX_AGENT_HOLDERS];
    ngx_agent_holders_t *volatile  next;
};


struct ngx_agent_share_s {
    ngx_queue_t          queue;             /* of those without a slot */
    ngx_uint_t           ended;             /* it has none */
    uint64_t             connections;       /* the bounds: of each held, */
    uint64_t             rate;              /* a second */
    uint64_t             burst;
    uint64_t             handshakes;        /* a second */
    ngx_atomic_t         next[NGX_AGENT_TURNS];
    volatile ngx_uint_t  used;              /* rows of all, from the first */
    ngx_agent_holders_t  first;
};


/* These expect the zone's lock to be held. */

static ngx_uint_t ngx_agent_share_sweep(ngx_agent_share_t *share);
static ngx_agent_holder_t *ngx_agent_share_holder(ngx_agent_share_t *share);
static ngx_agent_holder_t *ngx_agent_share_add(ngx_agent_share_t *share);
static void ngx_agent_share_free(ngx_agent_share_t *share);

static ngx_agent_holder_t *ngx_agent_share_next(ngx_agent_holders_t **block,
    ngx_uint_t *row);
static ngx_uint_t ngx_agent_share_held(ngx_agent_share_t *share,
    ngx_agent_held_e what);


size_t
ngx_agent_share_size(void)
{
    return sizeof(ngx_agent_share_t);
}


ngx_agent_share_t *
ngx_agent_share_create(const policy_t *policy)
{
    ngx_queue_t        *q, *next;
    ngx_agent_share_t  *share;

    /* those that only killed workers have held */

    for (q = ngx_queue_head(&ngx_agent_zone->shares);
         q != ngx_queue_sentinel(&ngx_agent_zone->shares);
         q = next)
    {
        next = ngx_queue_next(q);
        share = ngx_queue_data(q, ngx_agent_share_t, queue);

        if (ngx_agent_share_sweep(share) == 0) {
            ngx_queue_remove(q);
            ngx_agent_share_free(share);
        }
    }

    share = ngx_slab_calloc_locked(ngx_agent_pool, sizeof(ngx_agent_share_t));

    if (share) {
        share->connections = policy->bounds[BOUND_CONNECTIONS];
        share->rate = policy->bounds[BOUND_RATE];
        share->burst = policy->bounds[BOUND_BURST];
        share->handshakes = policy->bounds[BOUND_HANDSHAKES];
    }

    return share;
}


void
ngx_agent_share_end(ngx_agent_share_t *share)
{
    if (ngx_agent_share_sweep(share) == 0) {
        ngx_agent_share_free(share);
        return;
    }

    share->ended = 1;
    ngx_queue_insert_tail(&ngx_agent_zone->shares, &share->queue);
}


/* Forgets what killed workers held; how many rows are left in use. */

static ngx_uint_t
ngx_agent_share_sweep(ngx_agent_share_t *share)
{
    ngx_uint_t            i, n;
    ngx_agent_holder_t   *holder;
    ngx_agent_holders_t  *block;

    n = 0;
    i = 0;
    block = &share->first;

    while ((holder = ngx_agent_share_next(&block, &i)) != NULL) {

        if (holder->pid > 0 && holder->pid != ngx_pid
            && kill(holder->pid, 0) == -1 && ngx_errno == ESRCH)
        {
            ngx_memzero(holder, sizeof(ngx_agent_holder_t));
        }

        n += (holder->pid != 0);
    }

    return n;
}


void
ngx_agent_share_join(ngx_agent_share_t *share, ngx_agent_task_t *task)
{
    (void) ngx_agent_share_sweep(share);

    task->share = share;
    task->holder = ngx_agent_share_holder(share);
}


static ngx_agent_holder_t *
ngx_agent_share_holder(ngx_agent_share_t *share)
{
    ngx_uint_t            i, n;
    ngx_agent_holder_t   *holder, *none;
    ngx_agent_holders_t  *block;

    none = NULL;
    n = 0;
    i = 0;
    block = &share->first;

    while ((holder = ngx_agent_share_next(&block, &i)) != NULL) {

        if (holder->pid == ngx_pid) {
            holder->tasks++;
            return holder;
        }

        n += (none == NULL);

        if (holder->pid == 0 && none == NULL) {
            none = holder;
        }
    }

    if (none == NULL) {
        none = ngx_agent_share_add(share);
        n++;
    }

    if (none == NULL) {

        /* the zone is full: those of this row cannot be told apart */

        none = &share->first.rows[NGX_AGENT_HOLDERS - 1];
        none->pid = NGX_AGENT_HOLDER_MANY;
        none->tasks++;

        return none;
    }

    none->pid = ngx_pid;
    none->tasks = 1;

    ngx_memory_barrier();

    share->used = ngx_max(share->used, n);

    return none;
}


/* The first row of a new block; or NULL. */

static ngx_agent_holder_t *
ngx_agent_share_add(ngx_agent_share_t *share)
{
    ngx_agent_holders_t  *block, *last;

    block = ngx_slab_calloc_locked(ngx_agent_pool,
                                   sizeof(ngx_agent_holders_t));
    if (block == NULL) {
        return NULL;
    }

    for (last = &share->first; last->next; last = last->next) { /* void */ }

    ngx_memory_barrier();

    last->next = block;

    return &block->rows[0];
}


static void
ngx_agent_share_free(ngx_agent_share_t *share)
{
    ngx_agent_holders_t  *block, *next;

    for (block = share->first.next; block; block = next) {
        next = block->next;
        ngx_slab_free_locked(ngx_agent_pool, block);
    }

    ngx_slab_free_locked(ngx_agent_pool, share);
}


/* The next row, from row 0 of the first block on; NULL after the last one. */

static ngx_agent_holder_t *
ngx_agent_share_next(ngx_agent_holders_t **block, ngx_uint_t *row)
{
    if (*row == NGX_AGENT_HOLDERS) {
        *block = (*block)->next;
        *row = 0;
    }

    return *block ? &(*block)->rows[(*row)++] : NULL;
}


void
ngx_agent_share_leave(ngx_agent_task_t *task)
{
    ngx_agent_share_t   *share;
    ngx_agent_holder_t  *holder;

    share = task->share;
    holder = task->holder;

    ngx_shmtx_lock(&ngx_agent_pool->mutex);

    if (--holder->tasks == 0) {
        ngx_memzero(holder, sizeof(ngx_agent_holder_t));
    }

    if (share->ended && ngx_agent_share_sweep(share) == 0) {
        ngx_queue_remove(&share->queue);
        ngx_agent_share_free(share);
    }

    ngx_shmtx_unlock(&ngx_agent_pool->mutex);

    task->share = NULL;
}


void
ngx_agent_share_lost(ngx_agent_task_t *task)
{
    if (task->share->used == 1) {
        return;                             /* no other worker has it */
    }

    ngx_shmtx_lock(&ngx_agent_pool->mutex);

    (void) ngx_agent_share_sweep(task->share);

    ngx_shmtx_unlock(&ngx_agent_pool->mutex);
}


ngx_uint_t
ngx_agent_share_room(ngx_agent_task_t *task, ngx_agent_held_e what)
{
    ngx_uint_t  held, max;

    max = task->share->connections;
    held = ngx_agent_share_held(task->share, what);

    return held < max ? max - held : 0;
}


/*
 * Added first and looked at then: of two workers that take the last one at
 * the same time none may get it, but never both.
 */

ngx_uint_t
ngx_agent_share_take(ngx_agent_task_t *task, ngx_agent_held_e what,
    ngx_uint_t beside)
{
    ngx_atomic_t  *held;

    held = &task->holder->held[what];

    (void) ngx_atomic_fetch_add(held, 1);

    if (ngx_agent_share_held(task->share, what) + beside
        <= task->share->connections)
    {
        return 1;
    }

    (void) ngx_atomic_fetch_add(held, -1);

    return 0;
}


void
ngx_agent_share_give(ngx_agent_task_t *task, ngx_agent_held_e what)
{
    (void) ngx_atomic_fetch_add(&task->holder->held[what], -1);
}


static ngx_uint_t
ngx_agent_share_held(ngx_agent_share_t *share, ngx_agent_held_e what)
{
    ngx_uint_t            i, n, left;
    ngx_agent_holders_t  *block;

    n = 0;
    i = 0;
    block = &share->first;

    for (left = share->used; left; left--) {
        n += ngx_agent_share_next(&block, &i)->held[what];
    }

    return n;
}


ngx_msec_int_t
ngx_agent_share_turn(ngx_agent_task_t *task, ngx_agent_turn_e what,
    ngx_msec_t most)
{
    uint64_t             now, wait, rate, burst;
    ngx_atomic_t        *next;
    ngx_atomic_uint_t    old, new;
    ngx_agent_share_t   *share;

    share = task->share;
    next = &share->next[what];

    /* of handshakes a second's worth may come at once */

    rate = share->handshakes;
    burst = share->handshakes;

    if (what == NGX_AGENT_TURN_REQUEST) {
        rate = share->rate;
        burst = share->burst;
    }

    now = (uint64_t) ngx_current_msec * 1000000;

    do {
        old = *next;
        new = rate_turn(old, now, rate, burst, &wait);
        wait = (wait + 999999) / 1000000;

        if (wait > most) {
            return -1;
        }

    } while (!ngx_atomic_cmp_set(next, old, new));

    return (ngx_msec_int_t) wait;
}
