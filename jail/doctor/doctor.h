/*
 * `jail doctor`: what this host can enforce, proved by doing it.
 *
 * With --json it prints one object; keys may be added, never changed:
 *
 *   {"schema":1,
 *    "ok":true,                  all required layers work
 *    "version":"0.1.0","kernel":"6.1.0","uid":1000,"container":false,
 *    "layers":[
 *      {"name":"proc",           stable; one of the table in layer.c
 *       "state":"ok",            ok | missing | warning | skipped
 *       "required":true,
 *       "stage":"mount",         where `jail run` would fail, or null
 *       "errno":"EPERM"|null,
 *       "detail":"...",          one sentence, may be empty
 *       "fix":"..."|null}],      what to do about it
 *    "attempts":[                forbidden actions, tried in a throwaway box
 *      {"name":"ptrace",
 *       "refused":true,
 *       "errno":"EPERM"|null,    with which error; null: it succeeded
 *       "control":true}],        a harmless action of the same kind worked
 *    "compare":null |            with --compare: the same probe twice
 *      {"plain":{"environment":{"open":true,"detail":"..."},
 *                "files":{...},"sockets":{...},"subprocesses":{...}},
 *       "box":{...}}}
 *
 * A missing layer that is not required is a warning.  A layer whose
 * foundation is missing is skipped: the foundation's "fix" says what to do.
 */

#pragma once

#include <jansson.h>

#include "box/box.h"


/* The options, and what one probe finds out for others. */
typedef struct {
    const char  *control;       /* the broker's socket, NULL: not tried */
    const char  *policy;        /* to ask it for, NULL: any */
    box_spec_t   spec;          /* the identity that a box would have */
    fault_t      cgroup;        /* why no cgroup can be made */
    json_t      *attempts;      /* of the throwaway box */
} doctor_t;


/* `jail doctor`, with the arguments after it; returns the exit status. */
int doctor(int argc, char **argv, const char *version);
