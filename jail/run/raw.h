/*
 * The end of a task whose streams were passed through: an exit status as a
 * shell would have it, and no object.
 */

#pragma once

#include "run/result.h"


/* canceled: the signal that told the launcher to end the task, or 0. */
int raw_status(const result_t *result, int canceled);

/* Says on the standard error what no exit status tells. */
void raw_print(const result_t *result);
