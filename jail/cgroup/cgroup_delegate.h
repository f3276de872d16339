/*
 * Switching controllers on for the children of a group.
 */

#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/fault.h"


/* the group of launchers in what is delegated to a user */
#define DELEGATE_LEAF   "launcher"

/* the way into such a group, where a user's systemd can make one */
#define DELEGATE_SCOPE  "systemd-run --user --scope -p Delegate=yes -- jail " \
                        "run ... (for a service: Delegate=cpu memory pids "   \
                        "in its unit)"


/*
 * Switches the controllers on for the children of this group, where they are
 * not; moves what runs in it into a leaf if it may.
 */
int cgroup_delegate(const char *path, bool may_move, fault_t *fault);

/* Whether a needed controller is not in the list; the names of those. */
bool cgroup_delegate_lacks(const char *list, char *names, size_t cap);
