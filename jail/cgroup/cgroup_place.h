/*
 * Where in the unified hierarchy this launcher may make boxes' groups.
 */

#pragma once

#include "cgroup/cgroup.h"


#define PLACE_TREE  "agent-jail"


/* How many of the controllers that a box needs the hierarchy has. */
cgroup_offer_t cgroup_place_offers(void);

/*
 * The directory below which this process makes its boxes' groups, with all
 * controllers switched on for them; made where there is none if that needs
 * nobody else.  A descriptor and its path; -1 with a fault.
 */
int cgroup_place_open(char *path, size_t cap, fault_t *fault);

/*
 * The directory of the tree that belongs to this uid, or with (uid_t) -1 the
 * tree itself; it need not exist.
 */
int cgroup_place_tree(uid_t uid, char *path, size_t cap);
