/*
 * The plan of a box's file system, made by the launcher before the box is.
 */

#pragma once

#include "box/box.h"


/*
 * Looks up what is the same under every policy, two thirds of the work: for
 * while the broker answers.  -1 with the fault set.
 */
int plan_begin(box_spec_t *spec, fault_t *fault);

/*
 * Fills spec->system, spec->unpack and spec->given from the table, the
 * policy, the workspace and the task's files, where plan_begin() stopped or
 * from the first.  -1 with the fault set.
 */
int plan_make(box_spec_t *spec, fault_t *fault);

/* The lists; the child has its own copy of them. */
void plan_free(box_spec_t *spec);
