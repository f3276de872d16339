/*
 * Which version of cgroups this host enforces limits with.
 */

#include <errno.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include "cgroup.h"


const cgroup_ops_t *
cgroup_probe(fault_t *fault)
{
    struct statfs  sfs;

    if (statfs("/sys/fs/cgroup", &sfs) == 0
        && (unsigned long) sfs.f_type == CGROUP2_SUPER_MAGIC)
    {
        (void) fault_set(fault, STAGE_CGROUP, ENOTSUP,
                         "/sys/fs/cgroup is a unified (v2) hierarchy, and "
                         "limits are set through v1 controllers");
        fault_fix(fault, "boot with systemd.unified_cgroup_hierarchy=0");
        return NULL;
    }

    return &cgroup_v1;
}


void
cgroup_clear(cgroup_t *cg)
{
    unsigned  i;

    *cg = (cgroup_t) { .lock = -1 };

    for (i = 0; i < CGROUP_ATTACH_MAX; i++) {
        cg->parents[i] = -1;
        cg->dirs[i] = -1;
        cg->attach[i] = -1;
    }
}
