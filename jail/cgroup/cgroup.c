/*
 * Which version of cgroups this host enforces limits with.  A controller is
 * bound to one hierarchy: a hybrid host has some of them in each, and only a
 * version that has all of them will do.
 */

#include <errno.h>
#include <stddef.h>
#include <sys/stat.h>

#include "cgroup/cgroup_dir.h"


const cgroup_ops_t *
cgroup_probe(fault_t *fault)
{
    int             i;
    cgroup_offer_t  least;

    static const cgroup_ops_t *const  versions[] = {
        &cgroup_v2, &cgroup_v1, NULL
    };

    /* one that has not all of them says itself what is missing */

    for (least = CGROUP_OFFERS_ALL; least > CGROUP_OFFERS_NONE; least--) {
        for (i = 0; versions[i]; i++) {
            if (versions[i]->offers() >= least) {
                return versions[i];
            }
        }
    }

    (void) fault_set_cause(fault, STAGE_CGROUP, ENODEV,
                           CAUSE_CGROUP_NOT_MOUNTED, "no cgroups are mounted");

    return NULL;
}


void
cgroup_usage(const cgroup_t *cg, bool is_gone, cgroup_usage_t *usage)
{
    cgroup_usage_read(cg->dirs, cg->ops->counters, cg->ops->ncounters,
                      is_gone, usage);
}


/* A directory has two links, and one more for each that is in it. */

bool
cgroup_has_neighbours(const cgroup_t *cg)
{
    struct stat  st;

    return fstat(cg->parents[0], &st) != 0 || st.st_nlink > 3;
}


void
cgroup_clear(cgroup_t *cg)
{
    unsigned  i;

    *cg = (cgroup_t) { .lock = -1, .into = -1 };

    for (i = 0; i < CGROUP_ATTACH_MAX; i++) {
        cg->parents[i] = -1;
        cg->dirs[i] = -1;
        cg->attach[i] = -1;
    }
}
