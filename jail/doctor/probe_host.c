/*
 * What a box needs of the host and its operator: a cgroup with limits, a
 * broker that answers, and no program that the host starts for a crash.
 */

#include <errno.h>
#include <libcgroup.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/question.h"
#include "cgroup/cgroup.h"
#include "doctor/probe.h"
#include "run/options.h"


#define PROBE_DAY        (24 * 60 * 60)
#define PROBE_CA_WARNED  (30 * PROBE_DAY)   /* as the broker's log */


static int probe_health(doctor_t *d, layer_result_t *r);


/* A cgroup with every limit of a box, made, verified and removed. */

int
probe_cgroup(doctor_t *d, layer_result_t *r)
{
    bool                 is_made;
    cgroup_t             cg;
    uint64_t             limits[LIMIT_COUNT];
    const cgroup_ops_t  *ops;

    cgroup_clear(&cg);
    limits_default(limits);

    ops = cgroup_probe(&d->cgroup);
    is_made = (ops && ops->claim(&cg, &d->cgroup) == 0
               && ops->limit(&cg, limits, &d->cgroup) == 0);

    if (cg.ops) {
        cg.ops->remove(&cg);
    }

    if (!is_made) {
        return probe_fault(r, &d->cgroup);
    }

    (void) snprintf(r->detail, sizeof(r->detail), "version %s",
                    ops->version + (ops->version[0] == 'v'));

    return 0;
}


/*
 * If the cgroup could be made, all controllers work; else the fault names one.
 * The place where libcgroup finds the controller explains, but proves nothing.
 */

int
probe_controller(doctor_t *d, layer_result_t *r)
{
    char     *mount;
    cause_t   cause;

    static const char *const  controllers[CAUSE_COUNT] = {
        [CAUSE_CONTROLLER_CPU] = "cpu",
        [CAUSE_CONTROLLER_MEMORY] = "memory",
        [CAUSE_CONTROLLER_PIDS] = "pids"
    };

    mount = NULL;
    cause = r->cause;

    if (cgroup_init() == 0
        && cgroup_get_subsys_mount_point(controllers[cause], &mount) == 0
        && mount)
    {
        (void) snprintf(r->detail, sizeof(r->detail), "at %.200s", mount);
    }

    free(mount);

    if (d->cgroup.stage == STAGE_NONE) {
        return 0;
    }

    if (r->detail[0] == '\0') {
        (void) probe_fault(r, &d->cgroup);
        return probe_missing(r, d->cgroup.err,
                             "the controller is not mounted");
    }

    if (d->cgroup.cause != cause) {
        r->state = LAYER_SKIPPED;
        return 0;
    }

    return probe_fault(r, &d->cgroup);
}


/* It answers: can it also serve?  One of version 1 does not say. */

static int
probe_health(doctor_t *d, layer_result_t *r)
{
    int          rc;
    json_t      *health;
    fault_t      fault;
    json_int_t   left;

    fault = (fault_t) { 0 };
    health = question_health(d->control, &fault);

    if (health == NULL) {
        return 0;
    }

    rc = 0;
    left = json_integer_value(json_object_get(health, "ca_left"));

    if (!json_is_true(json_object_get(health, "audit"))) {
        (void) snprintf(r->detail, sizeof(r->detail), "the broker at %.200s "
                        "cannot write its audit: no request is sent",
                        d->control);
        (void) snprintf(r->fix, sizeof(r->fix), "make room on the disk of "
                        "\"agent_audit\"; the broker's error log has the "
                        "cause");
        r->err = EIO;
        rc = -1;

    } else if (left <= 0) {
        (void) snprintf(r->detail, sizeof(r->detail), "the boxes' authority "
                        "of the broker at %.200s has expired: no task starts",
                        d->control);
        r->cause = CAUSE_BROKER_CA;
        r->err = EKEYEXPIRED;
        rc = -1;

    } else if (left <= PROBE_CA_WARNED) {
        (void) snprintf(r->detail, sizeof(r->detail), "the boxes' authority "
                        "of the broker at %.200s ends in %lld days: no task "
                        "starts after that", d->control,
                        (long long) left / PROBE_DAY);
        r->cause = CAUSE_BROKER_CA;
        r->state = LAYER_WARNING;
        rc = -1;
    }

    json_decref(health);

    return rc;
}


int
probe_broker(doctor_t *d, layer_result_t *r)
{
    json_t   *policy;
    fault_t   fault;

    if (d->control == NULL) {
        (void) snprintf(r->detail, sizeof(r->detail), "no socket at "
                        PROTOCOL_CONTROL);
        (void) snprintf(r->fix, sizeof(r->fix), "start the broker (nginx with "
                        "\"agent_control unix:" PROTOCOL_CONTROL
                        ";\"), or name "
                        "its socket: jail doctor --control SOCKET");
        r->state = LAYER_SKIPPED;
        return 0;
    }

    fault = (fault_t) { 0 };
    policy = question_policy(d->control,
                             d->policy ? d->policy : OPTIONS_POLICY, &fault);
    json_decref(policy);
    (void) snprintf(r->detail, sizeof(r->detail), "%.200s", d->control);

    if (policy) {
        return probe_health(d, r);
    }

    /* a broker that does not know the policy has answered, too */

    if (d->policy == NULL && fault.cause == CAUSE_POLICY_UNKNOWN) {

        if (probe_health(d, r) != 0) {
            return -1;
        }

        (void) snprintf(r->detail, sizeof(r->detail), "it answers at %.200s, "
                        "but has no policy \"" OPTIONS_POLICY "\"",
                        d->control);
        (void) snprintf(r->fix, sizeof(r->fix), "name the policy with "
                        "--policy, or add \"agent_policy " OPTIONS_POLICY
                        " { }\" to the broker's configuration and reload it");
        r->state = LAYER_WARNING;
        return 0;
    }

    return probe_fault(r, &fault);
}


/*
 * The kernel gives the memory of a process that crashes to this program, which
 * runs outside and as root.  A box's limit of one byte on core files prevents
 * that, but a task may lower its limit to zero, which does not.
 */

int
probe_core(doctor_t *d, layer_result_t *r)
{
    FILE        *f;
    char         pattern[160];
    const char  *line;

    f = fopen("/proc/sys/kernel/core_pattern", "re");
    line = f ? fgets(pattern, sizeof(pattern), f) : NULL;

    if (f) {
        (void) fclose(f);
    }

    if (line == NULL) {
        (void) snprintf(r->detail, sizeof(r->detail), "the file cannot be "
                        "read");
        r->state = LAYER_SKIPPED;
        return 0;
    }

    if (pattern[0] != '|') {
        return 0;
    }

    pattern[strcspn(pattern, "\n")] = '\0';

    (void) snprintf(r->fix, sizeof(r->fix), "sysctl -w "
                    "kernel.core_pattern=core (and a line in "
                    "/etc/sysctl.d), unless a program of the host needs it");

    return probe_missing(r, 0, "a task that crashes can start \"%.120s\" on "
                          "the host, as root", pattern + 1);
}
