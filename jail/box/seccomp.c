/*
 * Loads the filter of system calls, which was compiled with the launcher
 * (seccomp_table.h is the table to read).  It is the last wall to go up,
 * since it refuses what building the others needs; no_new_privs is set by
 * then, without which an ordinary user may load none.
 */

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include "seccomp_filter.h"
#include "box/report.h"


int
seccomp_enter(setup_t *s)
{
    struct sock_fprog  prog;

    prog.len = sizeof(seccomp_filter) / sizeof(seccomp_filter[0]);
    prog.filter = (struct sock_filter *) seccomp_filter;

    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0) != 0) {
        return report_detail(s, "the filter of system calls cannot be loaded");
    }

    return 0;
}
