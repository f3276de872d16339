/*
 * The targets of the attempts: a listening socket on the host's loopback, a
 * file that only the caller may read, a variable, and a process' name.
 */

#pragma once

#include <stdint.h>
#include <sys/types.h>


#define TARGET_SECRET  "AGENT_DOCTOR_SECRET"


typedef struct {
    int   listener;
    char  port[8];
    char  file[64];
    char  name[16];             /* of this process, while it is up */
    char  left[16];             /* for a process that is left behind */
} target_t;


/* 0, or -1 with errno; the caller frees it in either case. */
int target_make(target_t *t);
void target_free(target_t *t);

/*
 * A listening socket on the loopback, or -1; *port is 0 with errno if it
 * cannot be connected to.
 */
int target_listen(uint16_t *port);

/* The pid of a process of this name that this one can see, or 0. */
pid_t target_find(const char *name);
