/*
 * The zone as ngx_agent_zone.c, ngx_agent_slot.c and ngx_agent_usage.c share
 * it.
 */

#pragma once


#include "task/ngx_agent_task.h"


typedef struct {
    u_char      *text;
    size_t       len;
} ngx_agent_text_t;


typedef struct {
    ngx_rbtree_t        rbtree;
    ngx_rbtree_node_t   sentinel;
    ngx_queue_t         slots;
    ngx_queue_t         shares;         /* that outlive their slots */

    uint64_t            instance;       /* drawn when the broker started */

    ngx_agent_text_t    current;
    ngx_agent_text_t    pending;        /* of a configuration not started */
    ngx_atomic_t        generation;     /* of current; read without the lock */
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


/* Under the zone's lock. */

#define ngx_agent_zone_is_over(slot)                                          \
    ((slot)->used[BOUND_AUDIT_LINES] >= (slot)->bounds[BOUND_AUDIT_LINES]     \
     || (slot)->used[BOUND_AUDIT_BYTES] >= (slot)->bounds[BOUND_AUDIT_BYTES])
