/*
 * jail: runs a program in a fresh box and says what happened.
 *
 * Theory of operation
 *
 *   launcher (the caller's identity)          broker (nginx)
 *     |  reads the task's files                  |
 *     |  ---- open ----------------------------> |   control.c, broker.c
 *     |  <--- limits, paths, doors ------------- |
 *     |  makes a cgroup, sets its limits             cgroup_v1.c, _v2.c
 *     |  clone3: all namespaces at once              box.c
 *     |     |
 *     |     +-- pid 1 of the box                     setup.c, mounts.c
 *     |     |     joins the cgroup, makes the doors' sockets
 *     |  maps ids ----- 'M' on `sync` -------->
 *     |  <------------- the sockets -----------
 *     |  ---- serve, with the sockets ---------> |
 *     |     |     builds the root, leaves the old one,
 *     |     |     drops everything it could do
 *     |  <--- lease ---------------------------- |
 *     |  -------------- 'G' on `sync` -------->
 *     |     |     forks:
 *     |     |        +-- the main process: exec COMMAND  setup_main.c
 *     |     +-- stays as the reaper                  reaper.c
 *     |
 *     |  one poll over everything                    supervise.c
 *     |  <---- close, with what was used ------> |
 *     |  prints the result                           result.c
 *
 * Descriptors between launcher and box:
 *
 *   sync      SOCK_SEQPACKET.  The child's reports, and faults with their
 *             stage; its end closes at exec, which starts the wall clock.
 *   lifeline  A stream.  The reaper ends the box when it hangs up, whatever
 *             ended the launcher; and sends how the main process ended.
 *   out, err  Pipes; the only ones that the task gets.
 *
 * A box with a small share of the processors has a guard beside it, a second
 * child of the launcher's that ends the box for a launcher that was killed
 * (guard.c).  Between them is `hangup`, a socket that ends with the launcher.
 *
 * Who waits for whom: the launcher for the pidfd of pid 1, which says that
 * the whole pid namespace is gone; pid 1 for all processes of the box.
 * Nobody waits for a task longer than a deadline.
 *
 * No file of the host's is created, but one cgroup directory (with v1 one for
 * each controller), locked by its launcher; the next start sweeps those whose
 * launchers were killed.
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

#include "broker/broker.h"
#include "cgroup/cgroup.h"
#include "doctor/doctor.h"
#include "run/run.h"


#define JAIL_VERSION      "0.1.0"
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

    if (argc == 3 && strcmp(argv[2], "--help") == 0) {
        return jail_help(0, NULL);
    }

    for (c = commands; argc > 1 && c->name; c++) {
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
    char             *text;
    json_t           *policy;
    fault_t           fault;
    static options_t  options;

    fault = (fault_t) { 0 };

    if (options_parse_policy(&options, argc, argv, &fault) != 0) {
        return jail_usage(&fault);
    }

    policy = broker_policy(options.control, options.policy, &fault);

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

    return STATUS_DELIVERED;
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
    (void) fprintf(stderr, "jail: %s: %s%s%s\n", stage_name(fault->stage),
                   fault->message, fault->fix[0] ? "; " : "", fault->fix);

    return STATUS_SETUP;
}
