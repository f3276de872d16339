/*
 * The probes behind the rows of layer.c.  Those that take a setup_t run in a
 * throwaway child, as a step of set-up does in the box's first process.
 */

#ifndef JAIL_PROBE_H
#define JAIL_PROBE_H

#include "box/report.h"
#include "doctor/layer.h"


/*
 * Runs the step in a child that is in new namespaces, with the box's ids if
 * one of these is a user namespace, and tells how it ended.
 */
int probe_child(const doctor_t *d, layer_result_t *r,
    unsigned long namespaces, layer_step_t step);

/* -1: missing, with the detail and the error. */
int probe_missing(layer_result_t *r, int err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, with all that a call of the launcher's said. */
int probe_fault(layer_result_t *r, const fault_t *fault);


/* probe_namespace.c: what is done in new namespaces */
int probe_user(doctor_t *d, layer_result_t *r);
int probe_hostname(setup_t *s);
int probe_pid(setup_t *s);
int probe_net(setup_t *s);
int probe_cgroup_ns(setup_t *s);
int probe_time(setup_t *s);
int probe_routes(setup_t *s);
int probe_routes_v6(setup_t *s);
int probe_ports(setup_t *s);
int probe_tmpfs(setup_t *s);
int probe_read_only(setup_t *s);
int probe_proc(setup_t *s);
int probe_pts(setup_t *s);
int probe_pivot(setup_t *s);

/* probe_kernel.c: calls, and the walls that need no namespace */
int probe_kernel(doctor_t *d, layer_result_t *r);
int probe_clone3(doctor_t *d, layer_result_t *r);
int probe_pidfd(doctor_t *d, layer_result_t *r);
int probe_close_range(doctor_t *d, layer_result_t *r);
int probe_openat2(doctor_t *d, layer_result_t *r);
int probe_memfd(doctor_t *d, layer_result_t *r);
int probe_privileges(setup_t *s);
int probe_seccomp(setup_t *s);
int probe_landlock(doctor_t *d, layer_result_t *r);

/* probe_host.c: cgroups, the broker, and what the host does with a crash */
int probe_cgroup(doctor_t *d, layer_result_t *r);
int probe_controller(doctor_t *d, layer_result_t *r);
int probe_broker(doctor_t *d, layer_result_t *r);
int probe_core(doctor_t *d, layer_result_t *r);

/* probe_box.c: a box like any other, in which the forbidden is tried */
int probe_box(doctor_t *d, layer_result_t *r);


#endif /* JAIL_PROBE_H */
