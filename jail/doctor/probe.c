/*
 * The throwaway child in which a layer is tried, with the ids of a box.
 *
 * Its result comes back in a shared page, since a child that has loaded a
 * filter or left its root may not be able to write anywhere else.
 */

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor/probe.h"


#define PROBE_TIME   10                 /* s, then the child is ended */


typedef struct {
    bool  ended;
    bool  entered;
    int   err;
    char  detail[BOX_DETAIL_MAX];
} probe_page_t;


static void probe_run(const box_spec_t *spec, int sync, bool has_ids,
    int flags, layer_step_t *step, probe_page_t *page);
static int probe_enter(const box_spec_t *spec, int fd);
static int probe_ids(pid_t pid, const box_spec_t *spec, layer_result_t *r);
static int probe_write(pid_t pid, const char *file, const char *text,
    layer_result_t *r);


int
probe_child(const doctor_t *d, layer_result_t *r, unsigned long namespaces,
    int flags, layer_step_t *step)
{
    int            sync[2], rc;
    bool           has_ids;
    pid_t          pid;
    probe_page_t  *page;

    has_ids = (namespaces & CLONE_NEWUSER) != 0;
    page = mmap(NULL, sizeof(*page), PROT_READ|PROT_WRITE,
                MAP_SHARED|MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED || pipe2(sync, O_CLOEXEC) != 0) {
        return probe_missing(r, errno, "cannot make a shared page or a pipe");
    }

#if defined(__s390x__)
    pid = (pid_t) syscall(SYS_clone, NULL, namespaces|SIGCHLD, NULL, NULL, 0);
#else
    pid = (pid_t) syscall(SYS_clone, namespaces|SIGCHLD, NULL, NULL, NULL, 0);
#endif

    if (pid == 0) {
        (void) close(sync[1]);
        probe_run(&d->spec, sync[0], has_ids, flags, step, page);
        _exit(0);
    }

    (void) close(sync[0]);

    if (pid == -1) {
        r->stage = STAGE_NAMESPACES;
        rc = probe_missing(r, errno, "the kernel refuses to make it");
        goto done;
    }

    rc = has_ids ? probe_ids(pid, &d->spec, r) : 0;

    if (rc == 0) {
        (void) !write(sync[1], "", 1);
    }

    (void) close(sync[1]);
    sync[1] = -1;

    while (waitpid(pid, NULL, __WALL) == -1 && errno == EINTR) { /* void */ }

    if (rc == 0 && !page->ended) {
        rc = probe_missing(r, EIO, "the test process ended too early");

    } else if (rc == 0 && page->err && !page->entered) {
        r->stage = STAGE_IDENTITY;
        rc = probe_missing(r, page->err, "cannot switch to the box's ids");

    } else if (rc == 0 && page->err) {
        rc = probe_missing(r, page->err, "%s", page->detail[0]
                                                ? page->detail
                                                : "it failed");
    }

done:

    if (sync[1] != -1) {
        (void) close(sync[1]);
    }

    (void) munmap(page, sizeof(*page));

    return rc;
}


/* The child: its result goes to the page. */

static void
probe_run(const box_spec_t *spec, int sync, bool has_ids, int flags,
    layer_step_t *step, probe_page_t *page)
{
    int      rc;
    setup_t  s;

    (void) alarm(PROBE_TIME);

    s = (setup_t) { .spec = spec, .root = -1, .work = -1, .children = -1 };
    rc = has_ids ? probe_enter(spec, sync) : 0;

    if (rc == 0) {
        page->entered = true;
        rc = flags && unshare(flags) != 0
             ? report_detail(&s, "the namespace cannot be made")
             : step ? step(&s) : 0;
    }

    page->err = rc == 0 ? 0 : errno ? errno : EIO;
    (void) memcpy(page->detail, s.detail, sizeof(page->detail));
    page->ended = true;
}


/* What setup_identity() does, before anything is made that has an owner. */

static int
probe_enter(const box_spec_t *spec, int fd)
{
    char     c;
    ssize_t  n;

    do {
        n = read(fd, &c, 1);
    } while (n == -1 && errno == EINTR);

    if (n != 1) {
        errno = EPIPE;
        return -1;
    }

    return (spec->is_root && setgroups(0, NULL) != 0)
           || setresgid(BOX_UID, BOX_UID, BOX_UID) != 0
           || setresuid(BOX_UID, BOX_UID, BOX_UID) != 0 ? -1 : 0;
}


static int
probe_ids(pid_t pid, const box_spec_t *spec, layer_result_t *r)
{
    char  uid[64], gid[64];

    (void) sprintf(uid, "%d %u 1", BOX_UID, (unsigned) spec->outer_uid);
    (void) sprintf(gid, "%d %u 1", BOX_UID, (unsigned) spec->outer_gid);

    return (!spec->is_root && probe_write(pid, "setgroups", "deny", r) != 0)
           || probe_write(pid, "uid_map", uid, r) != 0
           || probe_write(pid, "gid_map", gid, r) != 0 ? -1 : 0;
}


static int
probe_write(pid_t pid, const char *file, const char *text, layer_result_t *r)
{
    int   fd, err;
    char  path[64];

    (void) sprintf(path, "/proc/%d/%s", (int) pid, file);
    fd = open(path, O_WRONLY|O_CLOEXEC);

    if (fd != -1 && write(fd, text, strlen(text)) == (ssize_t) strlen(text)) {
        return close(fd);
    }

    err = errno;

    if (fd != -1) {
        (void) close(fd);
    }

    r->stage = STAGE_IDMAP;

    return probe_missing(r, err, "cannot write %s", file);
}


int
probe_missing(layer_result_t *r, int err, const char *fmt, ...)
{
    va_list  args;

    r->err = err;
    va_start(args, fmt);
    (void) vsnprintf(r->detail, sizeof(r->detail), fmt, args);
    va_end(args);

    return -1;
}


int
probe_fault(layer_result_t *r, const fault_t *fault)
{
    r->stage = fault->stage;
    r->cause = fault->cause;
    (void) snprintf(r->fix, sizeof(r->fix), "%s", fault->fix);

    return probe_missing(r, fault->err, "%.400s", fault->message);
}
