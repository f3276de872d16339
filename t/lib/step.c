/*
 * Fails, or kills, one system call of one process of a command: so a test
 * walks the whole life of the launcher and of its box, step by step, without
 * hooks in them.
 *
 *   step --list -- COMMAND [ARG]...
 *   step --process P --at N (--error ERRNO | --kill | --signal NAME)
 *        -- COMMAND [ARG]...
 *
 * Processes are numbered in the order in which they are made, from 0, which
 * is the command; the calls of each from 1.  On descriptor 3 it tells, one a
 * line:
 *
 *   call P N NAME         --list: each call, at its entry
 *   hit P N NAME          what was failed, or killed before it was made
 *   exec P                process P became another program
 *   ran P                 process P, another program by then, made a call
 *   last MS               the last process ended MS ms after the hit
 *   alive P               process P was there a minute after the hit
 *
 * Its status is the command's; 128 and the signal's number if one ended it.
 */

#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>


#define STEP_FAILED     98              /* no status of the launcher's */
#define STEP_PROCESSES  64
#define STEP_WAIT       60000           /* ms: later, something hangs */

#define STEP_OPTIONS  (PTRACE_O_TRACESYSGOOD|PTRACE_O_TRACEFORK               \
                       |PTRACE_O_TRACEVFORK|PTRACE_O_TRACECLONE               \
                       |PTRACE_O_TRACEEXEC|PTRACE_O_EXITKILL)


typedef struct {
    pid_t    pid;
    int      is_alive;
    int      is_attached;
    int      is_stopped_early;          /* its stop came before its birth */
    int      has_exec;
    int      has_run;
    int      is_failing;
    long     calls;
} process_t;


static process_t  processes[STEP_PROCESSES];
static int        nprocesses;

static int        is_list, is_kill, err, signo;
static int        target = -1;
static long       at;
static long long  hit_ms;


static process_t *step_find(pid_t pid);
static process_t *step_add(pid_t pid);
static void step_entry(process_t *p, int n, long nr);
static void step_syscall(process_t *p);
static void step_resume(process_t *p, int sig);
static long long step_now(void);
static void step_alarm(int sig);
static void step_failed(const char *what);


int
main(int argc, char **argv)
{
    int         i, status, result, event, sig;
    pid_t       pid;
    process_t  *p, *child;
    unsigned long  message;

    for (i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {

        if (strcmp(argv[i], "--list") == 0) {
            is_list = 1;

        } else if (strcmp(argv[i], "--kill") == 0) {
            is_kill = 1;

        } else if (i + 1 < argc && strcmp(argv[i], "--process") == 0) {
            target = atoi(argv[++i]);

        } else if (i + 1 < argc && strcmp(argv[i], "--at") == 0) {
            at = atol(argv[++i]);

        } else if (i + 1 < argc && strcmp(argv[i], "--signal") == 0) {
            signo = atoi(argv[++i]);

        } else if (i + 1 < argc && strcmp(argv[i], "--error") == 0) {
            i++;

            for (err = 1; err < 256; err++) {
                if (strerrorname_np(err)
                    && strcmp(strerrorname_np(err), argv[i]) == 0)
                {
                    break;
                }
            }

        } else {
            errno = EINVAL;
            step_failed(argv[i]);
        }
    }

    if (i + 1 >= argc || fcntl(3, F_SETFD, FD_CLOEXEC) != 0) {
        errno = EINVAL;
        step_failed("no command");
    }

    setvbuf(stdout, NULL, _IOLBF, 0);
    pid = fork();

    if (pid == 0) {
        (void) ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        (void) raise(SIGSTOP);
        (void) execvp(argv[i + 1], argv + i + 1);
        _exit(STEP_FAILED);
    }

    if (pid == -1 || waitpid(pid, &status, 0) != pid
        || ptrace(PTRACE_SETOPTIONS, pid, NULL, STEP_OPTIONS) != 0)
    {
        step_failed("ptrace");
    }

    p = step_add(pid);
    p->is_attached = 1;
    p->calls = -1;                      /* the execve of its birth: 0 */
    step_resume(p, 0);

    signal(SIGALRM, step_alarm);
    result = STEP_FAILED;

    while ((pid = waitpid(-1, &status, __WALL)) > 0 || errno == EINTR) {

        if (pid <= 0) {
            continue;
        }

        p = step_find(pid);

        if (p == NULL) {
            p = step_add(pid);
            p->is_stopped_early = 1;
        }

        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            p->is_alive = 0;

            if (p == processes) {
                result = WIFEXITED(status) ? WEXITSTATUS(status)
                                           : 128 + WTERMSIG(status);
            }

            continue;
        }

        sig = WSTOPSIG(status);
        event = status >> 16;

        if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK
            || event == PTRACE_EVENT_CLONE)
        {
            if (ptrace(PTRACE_GETEVENTMSG, pid, NULL, &message) == 0) {
                child = step_find((pid_t) message);

                if (child == NULL) {
                    (void) step_add((pid_t) message);
                }
            }

            step_resume(p, 0);

        } else if (event == PTRACE_EVENT_EXEC) {
            if (p != processes || p->has_exec) {
                (void) dprintf(3, "exec %d\n", (int) (p - processes));
            }

            p->has_exec = 1;
            step_resume(p, 0);

        } else if (sig == (SIGTRAP|0x80)) {
            step_syscall(p);

        } else if (sig == SIGSTOP && !p->is_attached) {
            p->is_attached = 1;
            step_resume(p, 0);

        } else {
            step_resume(p, sig == SIGTRAP ? 0 : sig);
        }
    }

    if (hit_ms) {
        (void) dprintf(3, "last %lld\n", step_now() - hit_ms);
    }

    return result;
}


static process_t *
step_find(pid_t pid)
{
    int  i;

    for (i = nprocesses - 1; i >= 0; i--) {
        if (processes[i].pid == pid && processes[i].is_alive) {
            return &processes[i];
        }
    }

    return NULL;
}


static process_t *
step_add(pid_t pid)
{
    process_t  *p;

    if (nprocesses == STEP_PROCESSES) {
        errno = ENOSPC;
        step_failed("processes");
    }

    p = &processes[nprocesses++];
    *p = (process_t) { .pid = pid, .is_alive = 1 };

    return p;
}


static void
step_syscall(process_t *p)
{
    int                         n;
    struct __ptrace_syscall_info  info;

    n = (int) (p - processes);

    if (ptrace(PTRACE_GET_SYSCALL_INFO, p->pid, sizeof(info), &info) <= 0) {
        return;                         /* it was killed meanwhile */
    }

    if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
        step_entry(p, n, (long) info.entry.nr);

    } else if (p->is_failing) {
        p->is_failing = 0;
        (void) ptrace(PTRACE_POKEUSER, p->pid,
                      offsetof(struct user, regs.rax), (long) -err);
    }

    step_resume(p, 0);
}


static void
step_entry(process_t *p, int n, long nr)
{
    char  *name;

    p->calls++;

    if (n > 0 && p->has_exec && !p->has_run) {
        p->has_run = 1;
        (void) dprintf(3, "ran %d\n", n);
    }

    if (p->calls == 0 || (!is_list && (n != target || p->calls != at))) {
        return;
    }

    name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, (int) nr);
    (void) dprintf(3, "%s %d %ld %s\n", is_list ? "call" : "hit", n, p->calls,
                   name ? name : "?");
    free(name);

    if (is_list) {
        return;
    }

    hit_ms = step_now();
    (void) alarm(STEP_WAIT / 1000);

    if (is_kill) {
        (void) kill(p->pid, SIGKILL);

    } else if (signo) {
        (void) kill(p->pid, signo);

    } else {
        p->is_failing = 1;
        (void) ptrace(PTRACE_POKEUSER, p->pid,
                      offsetof(struct user, regs.orig_rax), -1L);
    }
}


static void
step_resume(process_t *p, int sig)
{
    (void) ptrace(PTRACE_SYSCALL, p->pid, NULL, (long) sig);
}


static long long
step_now(void)
{
    struct timespec  ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts);

    return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
}


/* What is alive now is killed when this process, its tracer, ends. */

static void
step_alarm(int sig)
{
    int  i;

    (void) sig;

    for (i = 0; i < nprocesses; i++) {
        if (processes[i].is_alive) {
            (void) dprintf(3, "alive %d\n", i);
        }
    }

    _exit(STEP_FAILED);
}


static void
step_failed(const char *what)
{
    (void) fprintf(stderr, "step: %s: %s\n", what, strerror(errno));
    _exit(STEP_FAILED);
}
