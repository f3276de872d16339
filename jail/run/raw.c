/*
 * 124 and 125 are those of timeout(1), 126 and 127 those of a shell.  A limit
 * that the kernel would enforce by a signal has that signal's status: 137 for
 * memory, 152 for processor time, 153 for output.  A program may well exit
 * with these by itself: who must know asks for the object.
 */

#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "run/raw.h"


#define RAW_SIGNAL  128


typedef enum {
    RAW_OWN = 0,                /* the program's */
    RAW_FIXED,
    RAW_EXEC,
    RAW_CANCELED
} raw_kind_t;


typedef struct {
    raw_kind_t  kind;
    int         status;
    const char *words;          /* NULL: the fault's, or none */
} raw_t;


static const raw_t  raws[REASON_COUNT] = {
    [REASON_OK] = { RAW_OWN, 0, NULL },
    [REASON_NONZERO] = { RAW_OWN, 0, NULL },
    [REASON_SIGNAL] = { RAW_OWN, 0, NULL },
    [REASON_PIDS] = { RAW_OWN, 0, "it reached its limit of processes" },
    [REASON_DISK] = { RAW_OWN, 0, "it filled a writable file system" },
    [REASON_TIMEOUT] = { RAW_FIXED, 124, "it reached its wall-clock limit" },
    [REASON_OOM] = { RAW_FIXED, RAW_SIGNAL + SIGKILL,
                     "it reached its limit of memory" },
    [REASON_CPU_TIME] = { RAW_FIXED, RAW_SIGNAL + SIGXCPU,
                          "it reached its limit of processor time" },
    [REASON_OUTPUT] = { RAW_FIXED, RAW_SIGNAL + SIGXFSZ,
                        "it wrote more than its limit of output" },
    [REASON_CANCELED] = { RAW_CANCELED, 0, "canceled by the caller" },
    [REASON_EXEC] = { RAW_EXEC, 0, NULL },
    [REASON_SETUP] = { RAW_FIXED, 125, NULL },
    [REASON_BROKER] = { RAW_FIXED, 125, NULL },
    [REASON_INTERNAL] = { RAW_FIXED, 125, NULL },
};


int
raw_status(const result_t *r, int canceled)
{
    switch (raws[r->reason].kind) {

    case RAW_OWN:
        return r->signal ? RAW_SIGNAL + r->signal : r->exit_code;

    case RAW_EXEC:
        return r->fault.err == ENOENT ? 127 : 126;

    case RAW_CANCELED:
        return RAW_SIGNAL + canceled;

    default:
        return raws[r->reason].status;
    }
}


void
raw_print(const result_t *r)
{
    if (raws[r->reason].words) {
        (void) fprintf(stderr, "jail: %s: %s\n", result_reason_name(r->reason),
                       raws[r->reason].words);
    }

    if (r->fault.stage != STAGE_NONE) {
        fault_print(&r->fault);
    }
}
