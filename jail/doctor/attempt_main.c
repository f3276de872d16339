/*
 * This runs in a box as its task.  The rows of the set "doors" are harmless
 * anywhere and are tried in a plain child as well; the others are tried in a
 * box only, since a host might allow them.
 *
 * Each attempt has a child of its own, so that one that succeeds changes
 * nothing for the next.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/host.h"
#include "doctor/attempt.h"
#include "run/run.h"


/* A function, or one system call, which succeeds unless it is refused. */
typedef struct {
    attempt_call_t  *call;
    const char      *arg;
    long             number;    /* call is NULL */
    long             args[5];
} attempt_step_t;

#define RUN(function, argument)  { .call = (function), .arg = (argument) }
#define CALL(nr, ...)            { .number = (nr), .args = { __VA_ARGS__ } }


typedef struct {
    const char     *name;
    const char     *title;
    bool            anywhere;   /* of the set "doors" */
    attempt_step_t  forbidden;
    attempt_step_t  control;
} attempt_t;


static int attempt_in_child(const attempt_step_t *step, const target_t *t);


/* arguments of the calls below */

static const union bpf_attr  attempt_map = {
    .map_type = BPF_MAP_TYPE_ARRAY,
    .key_size = 4, .value_size = 4, .max_entries = 1
};

static struct io_uring_params  attempt_ring;


static const attempt_t  attempts[] = {

    { "environment", "a caller's variable", true,
      RUN(attempt_variable, TARGET_SECRET), RUN(attempt_variable, "PATH") },
    { "files", "a caller's file", true,
      RUN(attempt_read, NULL), RUN(attempt_read, "/etc/passwd") },
    { "sockets", "a connection to the host", true,
      RUN(attempt_target_port, NULL), RUN(attempt_loopback, NULL) },
    { "subprocesses", "a process left behind", true,
      RUN(attempt_leave, NULL), RUN(attempt_fork, NULL) },

    { "connect_out", "reaching another machine", false,
      RUN(attempt_address, "192.0.2.1" /* RFC 5737: unused */),
      RUN(attempt_loopback, NULL) },
    { "raw_socket", "a raw socket", false,
      CALL(SYS_socket, AF_INET, SOCK_RAW, 1),
      CALL(SYS_socket, AF_INET, SOCK_DGRAM) },
    { "write_root", "writing into /", false,
      RUN(attempt_create, "/attempt"), RUN(attempt_create, "attempt") },
    { "write_usr", "writing into /usr", false,
      RUN(attempt_create, "/usr/attempt"), RUN(attempt_create, "attempt") },
    { "read_shadow", "reading /etc/shadow", false,
      RUN(attempt_read, "/etc/shadow"), RUN(attempt_read, "/etc/passwd") },
    { "host_processes", "seeing the host's processes", false,
      RUN(attempt_process, NULL), RUN(attempt_own_process, NULL) },
    { "ptrace", "tracing a process", false,
      RUN(attempt_on_child, "trace"), RUN(attempt_on_child, NULL) },
    { "mount", "mounting", false,
      CALL(SYS_mount, (long) "none", (long) "directory", (long) "tmpfs"),
      RUN(attempt_mkdir, "directory") },
    { "unshare", "a user namespace", false,
      CALL(SYS_unshare, CLONE_NEWUSER), RUN(attempt_fork, NULL) },
    { "keyctl", "the kernel's keyrings", false,
      /* KEYCTL_GET_KEYRING_ID of KEY_SPEC_USER_KEYRING */
      CALL(SYS_keyctl, 0, -4), CALL(SYS_getpid, 0) },
    { "tiocsti", "typing into a terminal", false,
      RUN(attempt_tty, "x"), RUN(attempt_tty, NULL) },
    { "mknod", "a device node", false,
      /* the number of sda, 8:0 */
      CALL(SYS_mknodat, AT_FDCWD, (long) "device", S_IFBLK|0600, 0x800),
      CALL(SYS_mknodat, AT_FDCWD, (long) "fifo", S_IFIFO|0600) },
    { "bpf", "a program for the kernel", false,
      CALL(SYS_bpf, BPF_MAP_CREATE, (long) &attempt_map,
           sizeof(attempt_map)), CALL(SYS_getpid, 0) },
    { "io_uring", "io_uring", false,
      CALL(SYS_io_uring_setup, 1, (long) &attempt_ring),
      CALL(SYS_epoll_create1, 0) },
    { "setuid", "becoming root", false,
      RUN(attempt_setuid, "0"), RUN(attempt_setuid, NULL) },

    { .name = NULL }
};


int
attempt_main(int argc, char **argv)
{
    int               err;
    bool              all, works;
    json_t           *report;
    target_t          t;
    const char       *name;
    const attempt_t  *a;

    if (argc != 5) {
        (void) fputs("jail: --attempt SET PORT FILE NAME LEFT\n", stderr);
        return STATUS_USAGE;
    }

    all = (strcmp(argv[0], "all") == 0);

    if (all && !host_is_box()) {
        (void) fputs("jail: \"--attempt all\" runs in a box only\n", stderr);
        return STATUS_USAGE;
    }

    t = (target_t) { .listener = -1 };
    (void) snprintf(t.port, sizeof(t.port), "%s", argv[1]);
    (void) snprintf(t.file, sizeof(t.file), "%s", argv[2]);
    (void) snprintf(t.name, sizeof(t.name), "%s", argv[3]);
    (void) snprintf(t.left, sizeof(t.left), "%s", argv[4]);

    report = json_array();

    for (a = attempts; a->name; a++) {

        if (!all && !a->anywhere) {
            continue;
        }

        works = attempt_in_child(&a->control, &t) == 0;
        err = attempt_in_child(&a->forbidden, &t);
        name = fault_errno_name(err);

        (void) json_array_append_new(report,
                     json_pack("{s:s, s:b, s:s?, s:b}",
                               "name", a->name,
                               "refused", err != 0,
                               "errno", err && !name ? "unknown" : name,
                               "control", works));
    }

    (void) json_dumpf(report, stdout, JSON_COMPACT);
    (void) fflush(stdout);

    /* not exit(): a sanitizer's search for leaks wants to trace */

    _exit(0);
}


static int
attempt_in_child(const attempt_step_t *step, const target_t *t)
{
    int          status;
    pid_t        pid;
    const long  *a;

    pid = fork();

    if (pid == 0) {

        if (step->call) {
            _exit(step->call(t, step->arg) & 255);
        }

        a = step->args;
        _exit(syscall(step->number, a[0], a[1], a[2], a[3], a[4]) == -1
              ? errno & 255 : 0);
    }

    if (pid == -1) {
        return errno;
    }

    while (waitpid(pid, &status, 0) == -1 && errno == EINTR) { /* void */ }

    return WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
}


const char *
attempt_title(const char *name)
{
    const attempt_t  *a;

    for (a = attempts; a->name; a++) {
        if (strcmp(a->name, name) == 0) {
            return a->title;
        }
    }

    return NULL;
}
