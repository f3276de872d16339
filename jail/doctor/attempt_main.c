/*
 * This runs in a box as its task.  The rows of the set "doors" are harmless
 * anywhere and are tried in a plain child as well; the others are tried in a
 * box only, since a host might allow them.
 *
 * Each attempt has a child of its own, so that one that succeeds changes
 * nothing for the next.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/host.h"
#include "doctor/attempt.h"
#include "run/run.h"


typedef struct {
    attempt_call_t  *call;
    const char      *arg;
} attempt_step_t;


typedef struct {
    const char     *name;
    const char     *title;
    bool            anywhere;   /* of the set "doors" */
    attempt_step_t  forbidden;
    attempt_step_t  control;
} attempt_t;


static int attempt_in_child(const attempt_step_t *step, const target_t *t);


static const attempt_t  attempts[] = {

    { "environment", "a caller's variable", true,
      { attempt_variable, TARGET_SECRET }, { attempt_variable, "PATH" } },
    { "files", "a caller's file", true,
      { attempt_target_file, NULL }, { attempt_read, "/etc/passwd" } },
    { "sockets", "a connection to the host", true,
      { attempt_target_port, NULL }, { attempt_loopback, NULL } },
    { "subprocesses", "a process left behind", true,
      { attempt_leave, NULL }, { attempt_fork, NULL } },

    { "connect_out", "reaching another machine", false,
      { attempt_address, "192.0.2.1" /* RFC 5737: unused */ },
      { attempt_loopback, NULL } },
    { "raw_socket", "a raw socket", false,
      { attempt_raw_socket, NULL }, { attempt_socket, NULL } },
    { "write_root", "writing into /", false,
      { attempt_create, "/attempt" }, { attempt_create, "attempt" } },
    { "write_usr", "writing into /usr", false,
      { attempt_create, "/usr/attempt" }, { attempt_create, "attempt" } },
    { "read_shadow", "reading /etc/shadow", false,
      { attempt_read, "/etc/shadow" }, { attempt_read, "/etc/passwd" } },
    { "host_processes", "seeing the host's processes", false,
      { attempt_process, NULL }, { attempt_own_process, NULL } },
    { "ptrace", "tracing a process", false,
      { attempt_ptrace, NULL }, { attempt_signal, NULL } },
    { "mount", "mounting", false,
      { attempt_mount, "directory" }, { attempt_mkdir, "directory" } },
    { "unshare", "a user namespace", false,
      { attempt_unshare, NULL }, { attempt_fork, NULL } },
    { "keyctl", "the kernel's keyrings", false,
      { attempt_keyctl, NULL }, { attempt_getpid, NULL } },
    { "tiocsti", "typing into a terminal", false,
      { attempt_tiocsti, NULL }, { attempt_winsize, NULL } },
    { "mknod", "a device node", false,
      { attempt_device, "device" }, { attempt_fifo, "fifo" } },
    { "bpf", "a program for the kernel", false,
      { attempt_bpf, NULL }, { attempt_getpid, NULL } },
    { "io_uring", "io_uring", false,
      { attempt_io_uring, NULL }, { attempt_epoll, NULL } },
    { "setuid", "becoming root", false,
      { attempt_setuid, NULL }, { attempt_setuid_own, NULL } },

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
    int    status;
    pid_t  pid;

    pid = fork();

    if (pid == 0) {
        _exit(step->call(t, step->arg) & 255);
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
