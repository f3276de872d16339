/*
 * Where in the unified hierarchy this launcher may make boxes' groups.
 */

#ifndef JAIL_CGROUP_PLACE_H
#define JAIL_CGROUP_PLACE_H

#include "cgroup/cgroup.h"


#define PLACE_TREE      "agent-jail"
#define PLACE_PATH_MAX  4096

/* the group of launchers in what is delegated to a user */
#define PLACE_LEAF      "launcher"

/* the way into a place, where a user's systemd can make one */
#define PLACE_SCOPE     "systemd-run --user --scope -p Delegate=yes -- jail " \
                        "run ... (for a service: Delegate=cpu memory pids "   \
                        "in its unit)"


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

/* Whether the last name of the path is that of a unit of systemd's. */
bool cgroup_place_is_unit(const char *path);

/*
 * cgroup_give.c: switches the controllers on for the children of this group,
 * where they are not; moves what runs in it into a leaf if it may.
 */
int cgroup_give(const char *path, bool may_move, fault_t *fault);

/* Whether a needed controller is not in the list; the names of those. */
bool cgroup_give_lacks(const char *list, char *names, size_t cap);


#endif /* JAIL_CGROUP_PLACE_H */
