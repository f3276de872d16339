/*
 * The plan of a box's file system, made by the launcher before the box is.
 */

#pragma once

#include "box/box.h"


/*
 * Fills spec->system, spec->unpack and spec->given from the table, the
 * policy, the workspace and the task's files.  -1 with the fault set.
 */
int plan_make(box_spec_t *spec, fault_t *fault);

/* The lists; the child has its own copy of them. */
void plan_free(box_spec_t *spec);
