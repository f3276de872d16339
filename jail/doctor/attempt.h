/*
 * What a task must not be able to do, tried.  Each row has a control: its
 * harmless neighbour, which must work, or the refusal would say nothing (a
 * connection is also refused to a process that has no sockets).
 */

#ifndef JAIL_ATTEMPT_H
#define JAIL_ATTEMPT_H

#include <jansson.h>
#include <stdbool.h>

#include "doctor/layer.h"
#include "doctor/target.h"


/*
 * Inside, each in a child of its own: 0 when it went through, else errno.
 * arg is the row's.
 */
typedef int (*attempt_call_t)(const target_t *t, const char *arg);


/*
 * attempt_main.c: all of them, inside; what follows --attempt.  Prints the
 * results as a JSON array.
 */
int attempt_main(int argc, char **argv);

/* What an attempt is called for people; NULL when there is none so named. */
const char *attempt_title(const char *name);

/*
 * attempt_run.c: from outside, in a box or in a plain child.  set is "all"
 * (in a box only) or "doors" (what may be tried anywhere).  The results as an
 * array, or NULL with what happened in error (and in r, if not NULL, the stage
 * and errno of a box that was not made).
 */
json_t *attempt_run(const target_t *t, const char *set, bool in_box,
    layer_result_t *r, char *error, size_t cap);

/* attempt.c: what several of them do */
int attempt_open(const char *path, int flags);
int attempt_connect(const char *address, unsigned port);

/* attempt_doors.c: the four doors that the naive way leaves open */
int attempt_variable(const target_t *t, const char *name);
int attempt_read(const target_t *t, const char *path);
int attempt_target_file(const target_t *t, const char *arg);
int attempt_target_port(const target_t *t, const char *arg);
int attempt_loopback(const target_t *t, const char *arg);
int attempt_leave(const target_t *t, const char *arg);
int attempt_fork(const target_t *t, const char *arg);

/* attempt_refused.c: what a box refuses, and a host might not */
int attempt_address(const target_t *t, const char *address);
int attempt_create(const target_t *t, const char *path);
int attempt_raw_socket(const target_t *t, const char *arg);
int attempt_socket(const target_t *t, const char *arg);
int attempt_process(const target_t *t, const char *arg);
int attempt_own_process(const target_t *t, const char *arg);
int attempt_ptrace(const target_t *t, const char *arg);
int attempt_signal(const target_t *t, const char *arg);
int attempt_mount(const target_t *t, const char *path);
int attempt_mkdir(const target_t *t, const char *path);
int attempt_unshare(const target_t *t, const char *arg);
int attempt_keyctl(const target_t *t, const char *arg);
int attempt_getpid(const target_t *t, const char *arg);
int attempt_tiocsti(const target_t *t, const char *arg);
int attempt_winsize(const target_t *t, const char *arg);
int attempt_device(const target_t *t, const char *path);
int attempt_fifo(const target_t *t, const char *path);
int attempt_bpf(const target_t *t, const char *arg);
int attempt_io_uring(const target_t *t, const char *arg);
int attempt_epoll(const target_t *t, const char *arg);
int attempt_setuid(const target_t *t, const char *arg);
int attempt_setuid_own(const target_t *t, const char *arg);


#endif /* JAIL_ATTEMPT_H */
