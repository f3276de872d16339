/*
 * Names of stages, and the one fault that is kept.  What to do about it is
 * looked up when it is set (advice.c).
 */

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/advice.h"
#include "base/fault.h"
#include "shared/utf8.h"


static const char *const  stage_names[STAGE_COUNT] = {
    [STAGE_NONE] = "none",
    [STAGE_USAGE] = "usage",
    [STAGE_NESTED] = "nested",
    [STAGE_CODE] = "code",
    [STAGE_IN] = "in",
    [STAGE_WORKSPACE] = "workspace",
    [STAGE_OUT] = "out",
    [STAGE_BROKER] = "broker",
    [STAGE_POLICY] = "policy",
    [STAGE_CGROUP] = "cgroup",
    [STAGE_NAMESPACES] = "namespaces",
    [STAGE_IDMAP] = "idmap",
    [STAGE_RLIMITS] = "rlimits",
    [STAGE_TIE] = "tie",
    [STAGE_DESCRIPTORS] = "descriptors",
    [STAGE_CGROUP_ATTACH] = "cgroup_attach",
    [STAGE_CGROUP_NAMESPACE] = "cgroup_namespace",
    [STAGE_NET_LO] = "net_lo",
    [STAGE_NET_ROUTE] = "net_route",
    [STAGE_DOORS] = "doors",
    [STAGE_HOSTNAME] = "hostname",
    [STAGE_IDENTITY] = "identity",
    [STAGE_PROPAGATION] = "propagation",
    [STAGE_ROOT] = "root",
    [STAGE_MOUNT] = "mount",
    [STAGE_FILES] = "files",
    [STAGE_PIVOT] = "pivot",
    [STAGE_SCHEDULING] = "scheduling",
    [STAGE_PRIVILEGES] = "privileges",
    [STAGE_LANDLOCK] = "landlock",
    [STAGE_SECCOMP] = "seccomp",
    [STAGE_START] = "start",
    [STAGE_EXEC] = "exec",
    [STAGE_RUN] = "run",
};


const char *
fault_stage_name(stage_t stage)
{
    return stage < STAGE_COUNT ? stage_names[stage] : "unknown";
}


int
fault_set_cause(fault_t *fault, stage_t stage, int err, cause_t cause,
    const char *fmt, ...)
{
    size_t       n;
    va_list      args;
    const char  *fix;

    if (fault->stage != STAGE_NONE) {
        return -1;
    }

    fault->stage = stage;
    fault->err = err;
    fault->cause = cause;
    fault->fix[0] = '\0';

    va_start(args, fmt);
    (void) vsnprintf(fault->message, sizeof(fault->message), fmt, args);
    va_end(args);

    if (err != 0) {
        n = strlen(fault->message);
        (void) snprintf(fault->message + n, sizeof(fault->message) - n,
                        ": %s", strerrordesc_np(err) ? strerrordesc_np(err)
                                                     : "unknown error");
    }

    fix = advice(stage, err, cause);

    if (fix) {
        (void) snprintf(fault->fix, sizeof(fault->fix), "%s", fix);
    }

    return -1;
}


void
fault_fix(fault_t *fault, const char *fmt, ...)
{
    va_list  args;

    va_start(args, fmt);
    (void) vsnprintf(fault->fix, sizeof(fault->fix), fmt, args);
    va_end(args);
}


void
fault_print(const fault_t *fault)
{
    char  message[4 * sizeof(fault->message)], fix[4 * sizeof(fault->fix)];

    utf8_escape(fault->message, message, sizeof(message));
    utf8_escape(fault->fix, fix, sizeof(fix));

    (void) fprintf(stderr, "jail: %s: %s%s%s\n", fault_stage_name(fault->stage),
                   message, fix[0] ? "; " : "", fix);
}


const char *
fault_errno_name(int err)
{
    return err == 0 ? NULL : strerrorname_np(err);
}
