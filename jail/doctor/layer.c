/*
 * The layers of a box as a table, each with the probe that proves it and the
 * stage at which `jail run` would fail without it: the advice comes from the
 * table that `jail run` uses (advice.c), so both say the same.
 *
 * A foundation comes before the layers that need it: a layer whose foundation
 * is missing is not tried, since its failure would say nothing new.
 */

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/advice.h"
#include "base/host.h"
#include "doctor/layer.h"
#include "doctor/probe.h"


#define USER  CLONE_NEWUSER


static void layer_advise(layer_result_t *r);


const layer_t  layer_table[] = {

    { "kernel", "the kernel", NULL, true, STAGE_NONE, .probe = probe_kernel },

    { "user_namespace", "a user namespace", NULL, true, STAGE_NAMESPACES,
      .probe = probe_user },
    { "id_map", "its map of ids", "user_namespace", true, STAGE_IDMAP,
      .namespaces = USER },
    { "capabilities", "capabilities in it, by use", "id_map", true,
      STAGE_HOSTNAME, .namespaces = USER|CLONE_NEWUTS, .step = probe_hostname },

    { "mount_namespace", "a mount namespace", "id_map", true,
      STAGE_NAMESPACES, .namespaces = USER|CLONE_NEWNS },
    { "pid_namespace", "a pid namespace", "id_map", true, STAGE_NAMESPACES,
      .namespaces = USER|CLONE_NEWPID, .step = probe_pid },
    { "net_namespace", "a net namespace", "id_map", true, STAGE_NAMESPACES,
      .namespaces = USER, .unshare = CLONE_NEWNET },
    { "ipc_namespace", "an ipc namespace", "id_map", true, STAGE_NAMESPACES,
      .namespaces = USER|CLONE_NEWIPC },
    { "uts_namespace", "a uts namespace", "id_map", true, STAGE_NAMESPACES,
      .namespaces = USER|CLONE_NEWUTS },
    { "cgroup_namespace", "a cgroup namespace", "id_map", true,
      STAGE_CGROUP_NAMESPACE, .namespaces = USER, .unshare = CLONE_NEWCGROUP },
    { "time_namespace", "a time namespace", "id_map", false,
      STAGE_NAMESPACES, .namespaces = USER,
      .unshare = 0x80 /* CLONE_NEWTIME */ },

    { "loopback", "its loopback interface", "net_namespace", true,
      STAGE_NET_LO, .namespaces = USER|CLONE_NEWNET, .step = doors_loopback },
    { "routes", "routes for IPv4 addresses", "loopback", true,
      STAGE_NET_ROUTE, .namespaces = USER|CLONE_NEWNET, .step = probe_routes },
    { "routes_ipv6", "routes for IPv6 addresses", "routes", false,
      STAGE_NET_ROUTE, .namespaces = USER|CLONE_NEWNET,
      .step = probe_routes_v6 },
    { "low_ports", "listening on ports 53, 80, 443", "net_namespace", true,
      STAGE_DOORS, .namespaces = USER|CLONE_NEWNET, .step = probe_ports },

    { "mount_private", "mounts apart from the host's", "mount_namespace",
      true, STAGE_PROPAGATION, .namespaces = USER|CLONE_NEWNS,
      .step = mounts_private },
    { "tmpfs", "a tmpfs with bounds", "mount_namespace", true, STAGE_ROOT,
      .namespaces = USER|CLONE_NEWNS, .step = probe_tmpfs },
    { "read_only", "the host's /usr, read-only", "mount_namespace", true,
      STAGE_MOUNT, .namespaces = USER|CLONE_NEWNS, .step = probe_read_only },
    { "proc", "its own /proc", "mount_namespace", true, STAGE_MOUNT,
      .namespaces = USER|CLONE_NEWNS|CLONE_NEWPID, .step = probe_proc,
      .cause = CAUSE_PROC_MOUNT, .known = host_proc_is_masked },
    { "pts", "its own /dev/pts", "mount_namespace", true, STAGE_MOUNT,
      .namespaces = USER|CLONE_NEWNS, .step = probe_pts },
    { "pivot_root", "leaving the host's root", "mount_namespace", true,
      STAGE_PIVOT, .namespaces = USER|CLONE_NEWNS, .step = probe_pivot },

    { "clone3", "clone3", NULL, false, STAGE_NAMESPACES,
      .probe = probe_clone3 },
    { "pidfd", "descriptors of processes", NULL, true, STAGE_NAMESPACES,
      .probe = probe_pidfd },
    { "close_range", "close_range", NULL, true, STAGE_DESCRIPTORS,
      .probe = probe_close_range },
    { "openat2", "openat2", NULL, true, STAGE_EXEC, .probe = probe_openat2 },
    { "memfd", "sealed memory files", NULL, true, STAGE_CODE,
      .probe = probe_memfd },
    { "no_new_privs", "no_new_privs", NULL, true, STAGE_PRIVILEGES,
      .step = probe_privileges },
    { "seccomp", "the filter of system calls", "no_new_privs", true,
      STAGE_SECCOMP, .step = probe_seccomp },
    { "landlock", "Landlock", "no_new_privs", true, STAGE_LANDLOCK,
      .probe = probe_landlock },

    { "cgroup", "a cgroup with limits", NULL, true, STAGE_CGROUP,
      .probe = probe_cgroup },
    { "cgroup_cpu", "the controller cpu", NULL, true, STAGE_CGROUP,
      .probe = probe_controller, .cause = CAUSE_CONTROLLER_CPU },
    { "cgroup_memory", "the controller memory", NULL, true, STAGE_CGROUP,
      .probe = probe_controller, .cause = CAUSE_CONTROLLER_MEMORY },
    { "cgroup_pids", "the controller pids", NULL, true, STAGE_CGROUP,
      .probe = probe_controller, .cause = CAUSE_CONTROLLER_PIDS },

    { "broker", "the broker", NULL, true, STAGE_BROKER,
      .probe = probe_broker },
    { "core_pattern", "crashes start no program", NULL, false, STAGE_NONE,
      .probe = probe_core },

    /* and all of it together */

    { "box", "a box", NULL, true, STAGE_NONE, .probe = probe_box },

    { .name = NULL }
};

_Static_assert(sizeof(layer_table) / sizeof(layer_table[0]) <= LAYER_MAX,
               "LAYER_MAX is the room for results");


void
layer_try(doctor_t *d, size_t i, layer_result_t *results)
{
    int              rc;
    size_t           j;
    const layer_t   *l;
    layer_result_t  *r;

    l = &layer_table[i];
    r = &results[i];
    *r = (layer_result_t) {
        .state = LAYER_OK, .stage = l->stage, .cause = l->cause
    };

    for (j = 0; l->needs && j < i; j++) {
        if (strcmp(layer_table[j].name, l->needs) == 0
            && results[j].state != LAYER_OK)
        {
            r->state = LAYER_SKIPPED;
            r->needs = l->needs;
            (void) snprintf(r->detail, sizeof(r->detail), "needs %s",
                            l->needs);

            if (l->known && l->known()) {
                r->state = LAYER_MISSING;
                r->err = EPERM;
                (void) snprintf(r->detail, sizeof(r->detail), "not tried, "
                                "but it would fail: /proc is masked");
                layer_advise(r);
            }

            return;
        }
    }

    rc = l->probe ? l->probe(d, r)
                  : probe_child(d, r, l->namespaces, l->unshare, l->step);

    if (rc == 0) {
        return;
    }

    if (r->state == LAYER_OK) {
        r->state = l->required ? LAYER_MISSING : LAYER_WARNING;
    }

    /* for the box: another layer may have found why that stage fails */

    for (j = 0; l->stage == STAGE_NONE && r->stage != STAGE_NONE && j < i;
         j++)
    {
        if (results[j].state == LAYER_MISSING && results[j].stage == r->stage)
        {
            (void) strcpy(r->fix, results[j].fix);
            break;
        }
    }

    layer_advise(r);
}


static void
layer_advise(layer_result_t *r)
{
    const char  *fix;

    if (r->fix[0] == '\0') {
        fix = advice(r->stage, r->err, r->cause);
        (void) snprintf(r->fix, sizeof(r->fix), "%s", fix ? fix : "");
    }
}
