/*
 * What the broker does for one box is bounded, so that one cannot starve
 * another.  The one table of these bounds: directive, limits, default.
 */

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>


typedef enum {
    BOUND_CONNECTIONS = 0,      /* of a box, and requests in flight: each at
                                   once; more wait */
    BOUND_RATE,                 /* requests a second; more wait */
    BOUND_BURST,                /* of these at once */
    BOUND_REQUESTS,             /* allowed ones, in total */
    BOUND_HANDSHAKES,           /* a second; more are delayed */
    BOUND_MINTS,                /* leaf certificates signed, in total */
    BOUND_NAMES,                /* asked of the dns doors, in total */
    BOUND_REFUSALS,             /* answered with their reason and recorded
                                   one by one, in total */
    BOUND_BYTES_UP,             /* of requests and tunnels, in total */
    BOUND_BYTES_DOWN,
    BOUND_AUDIT_LINES,          /* of the task, in total: then it ends */
    BOUND_AUDIT_BYTES,          /* of these lines: the same */
    BOUND_LOG_BYTES,            /* of access.log and error.log, in total: then
                                   nothing more of the task is in them */
    BOUND_TASKS,                /* live ones of the policy and a user */
    BOUND_COUNT
} bound_id_t;


typedef struct {
    const char  *directive;     /* in agent_policy, and the key in JSON; the
                                   two of the audit: `audit_budget`, and
                                   the burst: `rate` */
    uint64_t     max;           /* from 1 */
    uint64_t     standard;      /* the default; 0: from the others */
    const char  *unit;          /* for messages */
    bool         bytes;         /* "100m" may be written */
} bound_t;


extern const bound_t  bound_table[BOUND_COUNT];


void bounds_default(uint64_t values[BOUND_COUNT]);

/*
 * Sets those of the audit where they are 0: room for all that the others allow,
 * 3 lines a request (an answered CONNECT, the decision, the end), 2 a refusal,
 * 1 a name, and 1 KiB a line; at most the table's max.
 */
void bounds_complete(uint64_t values[BOUND_COUNT]);

/* A count in canonical decimal, or a size, within its limits: 0, or -1. */
int bound_parse(bound_id_t id, const char *text, size_t n, uint64_t *value);

/*
 * "200r/s", and "burst=400", or NULL: twice the rate.  0, or -1 with the word
 * that is wrong in *wrong.
 */
int bound_parse_rate(const char *rate, const char *burst, uint64_t *per_second,
    uint64_t *at_once, const char **wrong);
