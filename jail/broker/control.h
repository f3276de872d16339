/*
 * The wire to the broker: lines as shared/protocol.h describes them.
 */

#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "shared/protocol.h"


typedef struct {
    int     fd;
    size_t  len;
    char    buf[PROTOCOL_LINE_MAX];
} control_t;


typedef enum {
    CONTROL_AGAIN = 0,          /* no whole line yet */
    CONTROL_MESSAGE,            /* *message is an object, the caller's */
    CONTROL_CLOSED,             /* by the broker */
    CONTROL_GARBAGE             /* not the protocol */
} control_state_t;


/*
 * A new connection, or NULL with the fault set; errno as of connect(2).  Where
 * others fill the broker's queue it waits for so many ms.
 */
control_t *control_connect(const char *path, int64_t wait, fault_t *fault);

/* NULL is allowed. */
void control_free(control_t *control);

/*
 * Sends one message and drops the reference to it; NULL is one for which
 * there was no memory.  Waits no longer than until deadline, in ms of
 * clock_ms().
 */
int control_send(control_t *control, json_t *message, const int *fds,
    unsigned nfds, int64_t deadline, fault_t *fault);

/* The next message, without waiting. */
control_state_t control_read(control_t *control, json_t **message);

/* The next answer (what has "ok"), waiting; events before it are dropped. */
json_t *control_answer(control_t *control, int64_t deadline,
    fault_t *fault);

/* Fills the fault from {"ok":false,"error":…,"message":…}. */
int control_refused(json_t *answer, fault_t *fault);
