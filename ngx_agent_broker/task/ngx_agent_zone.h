/*
 * The zone as ngx_agent_zone.c, ngx_agent_slot.c and ngx_agent_usage.c share
 * it.
 */

#pragma once


#include "task/ngx_agent_task.h"


/* of the same few policies: more than are read while reloads follow closely */

#define NGX_AGENT_SNAPSHOTS   16
#define NGX_AGENT_READERS     512           /* workers at once */


/* The memory of a snapshot (policy_snapshot.h), which is used again. */

typedef struct {
    u_char      *data;
    size_t       len;
    size_t       size;
} ngx_agent_snapshot_t;


/* A worker that reads a snapshot. */

typedef struct {
    ngx_pid_t    pid;                       /* 0: none */
    ngx_uint_t   snapshot;
} ngx_agent_reader_t;


/* A debt in thousandths, as it was; and when it is paid, ms. */

typedef struct {
    uint64_t     owed;
    ngx_msec_t   at;
    ngx_msec_t   paid;
} ngx_agent_debt_t;


#define NGX_AGENT_PEERS  256

typedef struct {
    ngx_uint_t        is_used;
    uid_t             uid;
    ngx_pid_t         worker;           /* whose connections; 0: the rates */
    ngx_uint_t        count;
    ngx_agent_debt_t  opens;
    ngx_agent_debt_t  asks;
    ngx_agent_debt_t  lines;
} ngx_agent_peer_t;


typedef struct {
    ngx_rbtree_t        rbtree;
    ngx_rbtree_node_t   sentinel;
    ngx_queue_t         slots;
    ngx_queue_t         shares;         /* that outlive their slots */

    uint64_t            instance;       /* drawn when the broker started */

    ngx_agent_snapshot_t  snapshots[NGX_AGENT_SNAPSHOTS];
    ngx_uint_t          current;        /* which of them; or _SNAPSHOTS */
    ngx_uint_t          pending;        /* of a configuration not started */
    ngx_atomic_t        generation;     /* of current; read without the lock */
    ngx_agent_reader_t  readers[NGX_AGENT_READERS];

    ngx_agent_peer_t    peers[NGX_AGENT_PEERS];
} ngx_agent_zone_t;


/* Of the newest configuration; the lock is the pool's mutex. */

extern ngx_slab_pool_t   *ngx_agent_pool;
extern ngx_agent_zone_t  *ngx_agent_zone;


/*
 * Takes the zone's lock, which is held as long as the slot is looked at, also
 * where there is none: NULL.
 */
ngx_agent_slot_t *ngx_agent_slot_lock(const u_char *id);
void ngx_agent_slot_unlock(void);


/* ngx_agent_snapshots.c */

/* What two snapshots of len bytes take in the zone. */
size_t ngx_agent_snapshots_size(size_t len);

/*
 * In the master: puts a snapshot into the zone, not yet for workers.  Waits
 * for workers that have to leave an older one.
 */
ngx_int_t ngx_agent_snapshots_add(ngx_agent_zone_t *zone,
    ngx_slab_pool_t *pool, const u_char *data, size_t len);

/* Under the zone's lock: what was added is the newest one now. */
void ngx_agent_snapshots_publish(ngx_agent_zone_t *zone);

/*
 * In a worker: the newest snapshot, which stays until this worker takes the
 * next one or none.  NGX_ERROR: there are too many workers.
 */
ngx_int_t ngx_agent_snapshots_take(ngx_agent_zone_t *zone,
    ngx_slab_pool_t *pool, const u_char **data, size_t *len,
    uint64_t *generation);
void ngx_agent_snapshots_leave(ngx_agent_zone_t *zone, ngx_slab_pool_t *pool);


/* Under the zone's lock. */

#define ngx_agent_zone_is_over(slot)                                          \
    ((slot)->used[BOUND_AUDIT_LINES] >= (slot)->bounds[BOUND_AUDIT_LINES]     \
     || (slot)->used[BOUND_AUDIT_BYTES] >= (slot)->bounds[BOUND_AUDIT_BYTES])
