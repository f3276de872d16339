/*
 * `jail doctor`: what this host can enforce, proved by doing it.
 *
 * With --json it prints one object; keys may be added, never changed:
 *
 *   {"schema":1,
 *    "ok":true,                  all required layers are there
 *    "version":"0.1.0","kernel":"6.1.0","uid":1000,"container":false,
 *    "layers":[
 *      {"name":"proc",           stable; one of the table in doctor.c
 *       "state":"ok",            ok | missing | warning | skipped
 *       "required":true,
 *       "stage":"mount",         where `jail run` would fail, or null
 *       "errno":"EPERM"|null,
 *       "detail":"...",          one sentence, may be empty
 *       "fix":"..."|null}],      what mends it
 *    "attempts":[                what was tried in a throwaway box
 *      {"name":"ptrace",
 *       "refused":true,
 *       "errno":"EPERM"|null,    with which error; null: it went through
 *       "control":true}],        its harmless neighbour worked
 *    "compare":null |            with --compare: the same probe twice
 *      {"plain":{"environment":{"open":true,"detail":"..."},
 *                "files":{...},"sockets":{...},"subprocesses":{...}},
 *       "box":{...}}}
 *
 * A layer that is not required and is not there is a warning.  A layer whose
 * foundation is missing is skipped: the foundation says what to do.
 */

#ifndef JAIL_DOCTOR_H
#define JAIL_DOCTOR_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "box/box.h"


typedef enum {
    LAYER_OK = 0,
    LAYER_MISSING,
    LAYER_WARNING,
    LAYER_SKIPPED
} layer_state_t;


/* What a probe found; `stage` is set by the caller and may be narrowed. */
typedef struct {
    layer_state_t  state;
    stage_t        stage;
    int            err;
    cause_t        cause;
    const char    *needs;       /* skipped: this foundation is missing */
    char           detail[512];
    char           fix[640];    /* empty: looked up by what is above */
} layer_result_t;


typedef struct {
    const char    *control;     /* the broker's socket, NULL: not asked */
    const char    *policy;      /* to ask it for, NULL: any */
    box_spec_t     spec;        /* the identity that a box would have */
    json_t        *attempts;    /* of the throwaway box */
} doctor_t;


/* A probe gives 0, or -1 with err and detail set. */
typedef int (*doctor_probe_t)(doctor_t *d, layer_result_t *r);


/* `jail doctor`: the words after it; gives the exit status. */
int doctor(int argc, char **argv, const char *version);

/* -1: missing, with the detail and the error. */
int doctor_missing(layer_result_t *r, int err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, with all that a call of the launcher's said. */
int doctor_fault(layer_result_t *r, const fault_t *fault);

/* doctor_probe.c: what is tried in throwaway children */
int probe_user(doctor_t *d, layer_result_t *r);
int probe_map(doctor_t *d, layer_result_t *r);
int probe_capabilities(doctor_t *d, layer_result_t *r);
int probe_mount_ns(doctor_t *d, layer_result_t *r);
int probe_pid_ns(doctor_t *d, layer_result_t *r);
int probe_net_ns(doctor_t *d, layer_result_t *r);
int probe_ipc_ns(doctor_t *d, layer_result_t *r);
int probe_uts_ns(doctor_t *d, layer_result_t *r);
int probe_cgroup_ns(doctor_t *d, layer_result_t *r);
int probe_time_ns(doctor_t *d, layer_result_t *r);
int probe_loopback(doctor_t *d, layer_result_t *r);
int probe_routes(doctor_t *d, layer_result_t *r);
int probe_routes_v6(doctor_t *d, layer_result_t *r);
int probe_ports(doctor_t *d, layer_result_t *r);
int probe_private(doctor_t *d, layer_result_t *r);
int probe_tmpfs(doctor_t *d, layer_result_t *r);
int probe_bind(doctor_t *d, layer_result_t *r);
int probe_proc(doctor_t *d, layer_result_t *r);
int probe_pts(doctor_t *d, layer_result_t *r);
int probe_pivot(doctor_t *d, layer_result_t *r);

/* doctor_kernel.c: calls and walls that need no namespace, and the host */
int probe_kernel(doctor_t *d, layer_result_t *r);
int probe_clone3(doctor_t *d, layer_result_t *r);
int probe_pidfd(doctor_t *d, layer_result_t *r);
int probe_close_range(doctor_t *d, layer_result_t *r);
int probe_openat2(doctor_t *d, layer_result_t *r);
int probe_memfd(doctor_t *d, layer_result_t *r);
int probe_privileges(doctor_t *d, layer_result_t *r);
int probe_seccomp(doctor_t *d, layer_result_t *r);
int probe_landlock(doctor_t *d, layer_result_t *r);
int probe_cgroup(doctor_t *d, layer_result_t *r);
int probe_cpu(doctor_t *d, layer_result_t *r);
int probe_memory(doctor_t *d, layer_result_t *r);
int probe_pids(doctor_t *d, layer_result_t *r);
int probe_broker(doctor_t *d, layer_result_t *r);
int probe_core(doctor_t *d, layer_result_t *r);

/*
 * doctor_child.c: runs body in a child that is in new namespaces, with the
 * box's ids, and tells how it ended.  flags 0: a plain child.  body gives 0,
 * or -1 with errno and, in detail, what it was about.
 */
int probe_child(doctor_t *d, layer_result_t *r, unsigned long flags,
    int (*body)(char *detail, size_t cap));

/* doctor_box.c: a box like any other, in which the forbidden is tried */
int probe_box(doctor_t *d, layer_result_t *r);

/* doctor_compare.c: the naive way's open doors beside the box's */
json_t *doctor_compare(char *error, size_t cap);
void doctor_compare_print(json_t *compare, FILE *out);

/*
 * doctor_attempt.c: what is tried, inside; prints a JSON object a line.
 * set is "all" (in a box only) or "doors" (what may be tried anywhere).
 */
int doctor_attempt(int argc, char **argv);

/* What an attempt is called for people; NULL when there is none so named. */
const char *attempt_title(const char *name);


/*
 * What the attempts aim at: a listening socket on the host's loopback, a
 * file that only the caller may read, a variable, and a process' name.
 */
typedef struct {
    int   listener;
    char  port[8];
    char  file[64];
    char  name[16];             /* of this process, while it is up */
    char  left[16];             /* for a process that is left behind */
} target_t;

#define TARGET_SECRET  "AGENT_DOCTOR_SECRET"

int target_make(target_t *t);
void target_free(target_t *t);

/*
 * Runs the attempts; the lines as an array, or NULL with what happened in
 * error (and in r, if not NULL, the stage and errno of a box that was not).
 */
json_t *target_try(const target_t *t, const char *set, bool in_box,
    layer_result_t *r, char *error, size_t cap);

/* A process of the host with this name: its pid, or 0. */
pid_t target_find(const char *name);


#endif /* JAIL_DOCTOR_H */
