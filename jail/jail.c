/*
 * jail: runs a program in a fresh box and says what happened.
 *
 * Theory of operation
 *
 *   launcher (the caller's identity)          broker (nginx)
 *     |
 *     |  run_files, run_variables, run_secrets, run_out, run_lock
 *     |     what the caller gives, read with the caller's rights
 *     |  run_open: broker_open
 *     |  ---- open ----------------------------> |
 *     |  run_cgroup: claims a cgroup, and with it an id for the box
 *     |  run_plan: plan_begin: what the box has whatever the policy says
 *     |  run_opened: broker_opened
 *     |  <--- limits, paths, doors, wall ------- |
 *     |  run_readable, run_trust, run_limits, run_workspace,
 *     |  run_workspace_secrets
 *     |     what of it this host can give, and the workspace's copy
 *     |  run_program, run_signals
 *     |  run_box: box_start
 *     |     plan_make: the list of what the box's file system is made of
 *     |     clone3: all namespaces but those for net, cgroup and time
 *     |     |
 *     |     +-- pid 1 of the box: setup_run, the table setup_steps
 *     |     |     setup_tie, setup_descriptors: it dies with the launcher,
 *     |     |        and holds nothing of the caller's
 *     |     |     setup_net, doors_loopback, routes_local, doors_open,
 *     |     |     setup_hostname, setup_time
 *     |  <------------- the doors' sockets ----
 *     |  the cgroup's limits; box_admit: ids, resource limits
 *     |  -------------- 'M' on `sync` -------->
 *     |  box_trust: the tail of the store for Java, if the host has one
 *     |  -------------- 'J' on `sync` -------->
 *     |  guard_start, if the box needs one
 *     |     |     setup_identity
 *     |  supervise_run: one poll over everything that can happen
 *     |  broker_serve
 *     |  ---- serve, with the sockets ---------> |
 *     |     |     mounts_private, mounts_root, mounts_build: the new root
 *     |     |     setup_cgroup, setup_cgroup_namespace: joins its group
 *     |     |     mounts_workspace, mounts_files: what the task works on
 *     |     |     mounts_pivot: leaves the old root
 *     |     |     setup_scheduling, setup_privileges, landlock_enter,
 *     |     |     seccomp_enter: drops everything it could do
 *     |     |     setup_ready
 *     |  <--- lease ---------------------------- |
 *     |  box_go ------- 'G' on `sync` -------->
 *     |     |     forks:
 *     |     |        +-- the main process: exec_main, by the wall's row
 *     |     |              <- the writable mounts on `sync`
 *     |     |              execve of COMMAND
 *     |     +-- stays as the reaper: reaper_run
 *     |
 *     |  until the pidfd of pid 1 says that the box is gone
 *     |  result_judge
 *     |  run_close: broker_close
 *     |  ---- close, with what was used -------> |
 *     |     run_collect: files the task left; the cgroup's removal
 *     |  broker_closed
 *     |  <--- what was sent and refused --------- |
 *     |  run_print, or with --raw the status
 *
 * Descriptors between launcher and box:
 *
 *   sync      SOCK_SEQPACKET.  The child's reports, and faults with their
 *             stage; its end closes at exec, which starts the wall clock.
 *   lifeline  A stream.  The reaper ends the box when it hangs up, whatever
 *             ended the launcher; and sends how the main process ended.
 *   in        A pipe, with --stdin.
 *   out, err  Pipes; with `in` the only ones that the task gets.
 *
 * A box with a small share of the processors has a guard beside it, a second
 * child of the launcher's that ends the box for a launcher that was killed
 * (guard.c).  Between them is a socket that hangs up with the launcher.
 *
 * Who waits for whom: the launcher for the pidfd of pid 1, which says that
 * the whole pid namespace is gone; pid 1 for all processes of the box.
 * Nobody waits for a task longer than a deadline.
 *
 * No file of the host's is created, but one cgroup directory (with v1 one for
 * each controller), locked by its launcher; the next start sweeps those whose
 * launchers were killed.
 *
 * Files: a folder uses only those below it in this list, and no files call
 * each other in a circle (t/structure.t).
 *
 *   doctor/   jail doctor: what this host can enforce
 *     doctor.c doctor.h                     the command
 *     doctor_compare.c doctor_compare.h     a plain child beside a box
 *     doctor_report.c doctor_report.h       what is printed
 *     layer.c layer.h                       the layers, a table
 *     probe.c probe.h                       a child that tries one layer
 *     probe_box.c                           layers that are a whole box
 *     probe_host.c                          of the host and its operator
 *     probe_kernel.c                        layers without namespaces
 *     probe_namespace.c                     layers in namespaces
 *     attempt.c attempt.h                   what must be refused, as rows
 *     attempt_doors.c                       four doors left open otherwise
 *     attempt_main.c                        run in the place of a task
 *     attempt_refused.c                     calls that a box refuses
 *     attempt_run.c                         starting it, reading what it found
 *     target.c target.h                     what attempts aim at
 *   run/      one task, from options to result
 *     run.c run.h                           the steps, in their order
 *     run_task.h                            one task, for the steps
 *     run_inputs.c                          what the caller gives
 *     run_secrets.c                         secrets that are in it
 *     run_policy.c                          what the task may have
 *     run_box.c                             cgroup, program, the box itself
 *     run_collect.c                         what the task left
 *     supervise.c supervise.h               the loop while the box lives
 *     supervise_limits.c                    usage, ten times a second
 *     supervise_streams.c                   the task's streams in it
 *     guard.c guard.h                       ends a box for a dead launcher
 *     options.c options.h                   the command line, a table
 *     output.c output.h                     a captured stream, cut
 *     stream.c stream.h                     a stream passed through
 *     terminal.c terminal.h                 without what a terminal obeys
 *     raw.c raw.h                           the status with --raw
 *     result.c result.h                     the result object
 *   broker/   the lease
 *     broker.c broker.h                     open, serve, resume, close
 *     control.c control.h                   lines to and from the broker
 *     open_reply.c open_reply.h             the reply of open, read
 *     question.c question.h                 jail policy
 *   box/      the box, from its plan to exec
 *     box.c box.h                           the description; clone, admit, go
 *     spec.c                                what follows from the description
 *     plan.c plan.h                         its file system, decided before
 *     plan_trust.c plan_trust.h             certificates in it
 *     mount_list.c mount_list.h             the list that the plan is
 *     mount_table.h                         what every box has, the table
 *     setup.c setup.h                       from clone to exec, the table
 *     report.c report.h                     what its steps tell the launcher
 *     mounts.c                              the list, carried out
 *     mount_ops.c mount_ops.h               what that is put together from
 *     sys_mount.h                           the system calls
 *     doors.c                               sockets that lead to the broker
 *     routes.c                              every address leads to them
 *     landlock.c landlock.h                 files, said a second time
 *     seccomp.c                             loads the filter
 *     seccomp_table.h                       the calls a task may make
 *     seccomp_gen.c                         compiles it when jail is built
 *     wall.c wall.h                         what isolates, a table
 *     exec.c                                the main process until its exec
 *     reaper.c                              pid 1 until the end
 *   cgroup/   limits
 *     cgroup.c cgroup.h                     which version this host has
 *     cgroup_v1.c
 *     cgroup_v2.c
 *     cgroup_dir.c cgroup_dir.h             the directory and files of a box
 *     cgroup_place.c cgroup_place.h         where boxes' groups are (v2)
 *     cgroup_delegate.c cgroup_delegate.h   controllers for children (v2)
 *     cgroup_text.c cgroup_text.h           the kernel's words, parsed
 *   files/    what goes in and comes out
 *     files.c files.h                       the task's files, read
 *     copy.c copy.h                         copying and hashing content
 *     walk.c walk.h                         over what is below a directory
 *     tree.c tree.h                         a directory's content, a list
 *     directory.c directory.h               the names in one
 *     beneath.c beneath.h                   opening what a task has left
 *     artifacts.c artifacts.h               what it left, taken out
 *     media_type.c media_type.h             what a file is
 *     readable.c readable.h                 a path of the policy, judged
 *     workspace.c workspace.h               the way into the box
 *     workspace_back.c                      the way back
 *     workspace_git.c                       config of repositories
 *     workspace_rule.c                      changes that are refused
 *   env/      variables and trust
 *     env.c env.h                           the task's environment
 *     variables.c variables.h               those the caller sets
 *     trust.c trust.h                       whom a box trusts
 *     certificate.c certificate.h           the little that must be known
 *     jks.c jks.h                           Java's store
 *   base/     faults, descriptors, the host
 *     fault.c fault.h                       the error contract
 *     advice.c advice.h                     what to do about each
 *     host.c host.h                         facts that explain a refusal
 *     descriptors.c descriptors.h           closing all but a few
 *     fd_pass.c fd_pass.h                   sent beside bytes
 *     clock.h                               milliseconds
 *   shared/   what both programs must agree on
 *     box_paths.h                           paths in a box
 *     limits.c limits.h                     the one table of limits
 *     protocol.h                            the control protocol
 *     secret.c secret.h                     what looks like a credential
 *     secret_scan.c                         in a long text
 *     secret_names.c                        by the name of what holds it
 *     utf8.c utf8.h                         UTF-8, decoded
 *     version.h                             the release
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "broker/question.h"
#include "cgroup/cgroup.h"
#include "doctor/doctor.h"
#include "run/run.h"
#include "shared/version.h"


#define JAIL_VERSION      AGENT_BROKER_VERSION
#define JAIL_DENIED       1             /* of jail policy --ask */
#define JAIL_TIMER_SLACK  50000         /* nanoseconds: the kernel's default */
#define JAIL_MEMORY_MERGE 67            /* PR_SET_MEMORY_MERGE, since 6.4 */


typedef struct {
    const char  *name;
    int        (*run)(int argc, char **argv);
} command_t;


static int jail_run(int argc, char **argv);
static int jail_policy(int argc, char **argv);
static int jail_sweep(int argc, char **argv);
static int jail_doctor(int argc, char **argv);
static int jail_version(int argc, char **argv);
static int jail_help(int argc, char **argv);

static int jail_descriptors(void);
static void jail_inherited(void);
static int jail_usage(const fault_t *fault);
static int jail_failed(const fault_t *fault);


static const command_t  commands[] = {
    { "run", jail_run },
    { "policy", jail_policy },
    { "sweep", jail_sweep },
    { "doctor", jail_doctor },
    { "--version", jail_version },
    { "--help", jail_help },
    { NULL, NULL }
};


/* What the kernel shows as this process's command line and environment. */

static char    *jail_scrub;
static size_t   jail_scrub_len;


int
main(int argc, char **argv, char **envp)
{
    char             **p, *end;
    fault_t            fault;
    const command_t   *c;

    if (jail_descriptors() != 0) {
        (void) fprintf(stderr, "jail: /dev/null cannot be opened: %s\n",
                       strerror(errno));
        return STATUS_SETUP;
    }

    jail_inherited();

    if (argc < 1) {
        return STATUS_USAGE;
    }

    /* the strings of argv and envp stand one after the other */

    end = argv[0];

    for (p = argv; *p; p++) {
        if (*p == end) {
            end += strlen(*p) + 1;
        }
    }

    for (p = envp; *p; p++) {
        if (*p == end) {
            end += strlen(*p) + 1;
        }
    }

    jail_scrub = argv[0];
    jail_scrub_len = (size_t) (end - argv[0]);

    /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): argc words */
    if (argc == 3 && strcmp(argv[2], "--help") == 0) {
        return jail_help(0, NULL);
    }

    for (c = commands; argc > 1 && c->name; c++) {
        /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): the same */
        if (strcmp(c->name, argv[1]) == 0) {
            return c->run(argc - 2, argv + 2);
        }
    }

    fault = (fault_t) { 0 };

    if (argc > 1) {
        (void) fault_set(&fault, STAGE_USAGE, 0, "unknown command \"%.80s\"",
                         argv[1]);

    } else {
        (void) fault_set(&fault, STAGE_USAGE, 0, "no command is given");
    }

    return jail_usage(&fault);
}


static int
jail_run(int argc, char **argv)
{
    fault_t           fault;
    static options_t  options;

    fault = (fault_t) { 0 };

    if (options_parse(&options, argc, argv, &fault) != 0) {
        return jail_usage(&fault);
    }

    return run(&options, jail_scrub, jail_scrub_len);
}


static int
jail_policy(int argc, char **argv)
{
    bool              is_allowed;
    char             *text;
    json_t           *policy;
    fault_t           fault;
    static options_t  options;

    fault = (fault_t) { 0 };
    is_allowed = true;

    if (options_parse_policy(&options, argc, argv, &fault) != 0) {
        return jail_usage(&fault);
    }

    policy = options.ask_method
             ? question_ask(options.control, options.policy,
                            options.ask_method, options.ask_url, &is_allowed,
                            &fault)
             : question_policy(options.control, options.policy, &fault);

    if (policy == NULL) {
        return jail_failed(&fault);
    }

    text = json_dumps(policy, JSON_COMPACT);
    json_decref(policy);

    if (text == NULL || puts(text) == EOF || fflush(stdout) != 0) {
        free(text);
        return STATUS_SETUP;
    }

    free(text);

    return is_allowed ? STATUS_DELIVERED : JAIL_DENIED;
}


static int
jail_sweep(int argc, char **argv)
{
    int                  n;
    fault_t              fault;
    const cgroup_ops_t  *ops;

    fault = (fault_t) { 0 };

    if (argc > 0) {
        (void) fault_set(&fault, STAGE_USAGE, 0,
                         "sweep takes no argument \"%.80s\"", argv[0]);
        return jail_usage(&fault);
    }

    ops = cgroup_probe(&fault);

    if (ops == NULL) {
        return jail_failed(&fault);
    }

    n = ops->sweep_all();

    if (n == -1 && errno != ENOENT) {
        (void) fault_set(&fault, STAGE_CGROUP, errno,
                         "the boxes' groups cannot be listed");
        return jail_failed(&fault);
    }

    (void) printf("{\"removed\":%d}\n", n == -1 ? 0 : n);

    return fflush(stdout) == 0 ? STATUS_DELIVERED : STATUS_SETUP;
}


static int
jail_doctor(int argc, char **argv)
{
    return doctor(argc, argv, JAIL_VERSION);
}


static int
jail_version(int argc, char **argv)
{
    (void) puts("jail " JAIL_VERSION);

    return fflush(stdout) == 0 ? STATUS_DELIVERED : STATUS_SETUP;
}


static int
jail_help(int argc, char **argv)
{
    options_help(stdout);

    return fflush(stdout) == 0 ? STATUS_DELIVERED : STATUS_SETUP;
}


/*
 * A caller that closed 0, 1 or 2 would have our sockets take these numbers,
 * and its output would go there.  And what it left open is not passed on.
 */

static int
jail_descriptors(void)
{
    int  fd;

    do {
        fd = open("/dev/null", O_RDWR|O_CLOEXEC);

        if (fd == -1) {
            return -1;
        }
    } while (fd <= STDERR_FILENO);

    (void) close(fd);

    /* where it is refused, set-up says so at its stage "descriptors" */

    (void) syscall(SYS_close_range, 3, ~0u, 1u << 2 /* CLOEXEC */);

    return 0;
}


/*
 * A caller that ignores SIGCHLD would have the kernel reap for us; one that
 * blocks signals would have us deaf; one that lets its timers be late, as
 * services in the background do, would have us miss deadlines, and the task
 * as well.  Children it left us are not looked at.
 */

static void
jail_inherited(void)
{
    sigset_t  set;

    (void) signal(SIGCHLD, SIG_DFL);
    (void) signal(SIGPIPE, SIG_IGN);
    (void) signal(SIGXFSZ, SIG_IGN);

    (void) sigemptyset(&set);
    (void) sigprocmask(SIG_SETMASK, &set, NULL);

    (void) prctl(PR_SET_TIMERSLACK, JAIL_TIMER_SLACK, 0, 0, 0);

    /* pages shared with equal ones of others answer a guess at those */

    (void) prctl(JAIL_MEMORY_MERGE, 0, 0, 0, 0);
}


static int
jail_usage(const fault_t *fault)
{
    (void) fprintf(stderr, "jail: %s (see jail --help)\n", fault->message);

    return STATUS_USAGE;
}


static int
jail_failed(const fault_t *fault)
{
    fault_print(fault);

    return STATUS_SETUP;
}
