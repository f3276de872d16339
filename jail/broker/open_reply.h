/*
 * The broker's answer to `open`, read into what the launcher builds from.
 */

#pragma once

#include <jansson.h>

#include "box/box.h"


/*
 * Everything is checked: a limit out of the table's bounds, a path that is
 * not plain, a kind of box this launcher cannot build are faults, since a
 * box other than the one the policy describes is none.  Strings in spec
 * point into the answer.
 */
int open_reply_read(json_t *answer, char *task_id, char *policy_hash,
    uint64_t limits[LIMIT_COUNT], box_spec_t *spec, fault_t *fault);
