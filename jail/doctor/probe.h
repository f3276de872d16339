/*
 * The probes behind the rows of layer.c.  Those that take a setup_t run in a
 * throwaway child, as a step of set-up does in the box's first process.
 */

#pragma once

#include "box/report.h"
#include "doctor/layer.h"


/*
 * Runs the step in a child that is in new namespaces, with the box's ids if
 * one of these is a user namespace, and returns its result.  The child makes
 * those of flags itself.
 */
int probe_child(const doctor_t *d, layer_result_t *r,
    unsigned long namespaces, int flags, layer_step_t *step);

/* -1: missing, with the detail and the error. */
int probe_missing(layer_result_t *r, int err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* -1: missing, with stage, cause, error and fix of the launcher's fault. */
int probe_fault(layer_result_t *r, const fault_t *fault);


/* probe_namespace.c: layers that need new namespaces */
layer_probe_t  probe_user;
layer_step_t   probe_hostname, probe_pid, probe_routes, probe_routes_v6,
               probe_ports, probe_tmpfs, probe_read_only, probe_proc,
               probe_pts, probe_pivot;

/* probe_kernel.c: calls, and the walls that need no namespace */
layer_probe_t  probe_kernel, probe_clone3, probe_pidfd, probe_close_range,
               probe_openat2, probe_memfd, probe_landlock;
layer_step_t   probe_privileges, probe_seccomp;

/* probe_host.c: cgroups, the broker, and what the host does with a crash */
layer_probe_t  probe_cgroup, probe_controller, probe_broker, probe_core;

/* probe_box.c: an ordinary box, in which forbidden actions are tried */
layer_probe_t  probe_box;
