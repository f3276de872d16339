/*
 * How the steps of the box speak with the launcher while it is being made:
 * one packet each on `sync`.
 */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd_pass.h"
#include "box/report.h"


int
report_wait(setup_t *s, char message)
{
    char      c;
    ssize_t   n;
    unsigned  nfds;

    nfds = CGROUP_ATTACH_MAX;
    n = fd_pass_receive(s->spec->sync, &c, 1, s->attach, &nfds, 0);

    if (nfds > 0) {
        s->nattach = nfds;
    }

    if (n == 1 && c == message) {
        return 0;
    }

    errno = n == -1 ? errno : EPIPE;

    return -1;
}


int
report_send(setup_t *s, report_kind_t kind, stage_t stage, int err,
    const int *fds, unsigned nfds)
{
    ssize_t   n;
    report_t  report;

    report = (report_t) {
        .kind = kind, .stage = stage, .err = err, .cause = s->cause
    };

    (void) memcpy(report.detail, s->detail, sizeof(report.detail));

    n = fd_pass_send(s->spec->sync, &report, sizeof(report), fds, nfds, 0);

    return n == (ssize_t) sizeof(report) ? 0 : -1;
}


noreturn void
report_fault(setup_t *s, stage_t stage)
{
    (void) report_send(s, REPORT_FAULT, stage, errno, NULL, 0);
    _exit(1);
}


int
report_detail(setup_t *s, const char *fmt, ...)
{
    int      err;
    va_list  args;

    err = errno;

    if (s->detail[0] == '\0') {
        va_start(args, fmt);
        (void) vsnprintf(s->detail, sizeof(s->detail), fmt, args);
        va_end(args);
    }

    errno = err;

    return -1;
}
