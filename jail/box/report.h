/*
 * What a step of the box tells the launcher, and what it waits for.
 */

#pragma once

#include "box/setup.h"


/* Remembers what a step is about; keeps errno and always returns -1. */
int report_detail(setup_t *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Sends one report, with descriptors; -1 with errno. */
int report_send(setup_t *s, report_kind_t kind, stage_t stage, int err,
    const int *fds, unsigned nfds);

/* Sends the fault of this stage, with errno, and ends the process. */
noreturn void report_fault(setup_t *s, stage_t stage);

/*
 * Waits for this byte of the launcher's, and keeps the descriptors that come
 * with it.  -1 with errno: EPIPE for its end or another byte.
 */
int report_wait(setup_t *s, char message);
