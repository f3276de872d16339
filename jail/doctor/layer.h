/*
 * The layers of a box, and what was found of each on this host.
 */

#pragma once

#include <stdbool.h>

#include "base/fault.h"
#include "box/setup.h"
#include "doctor/doctor.h"


#define LAYER_MAX  48


typedef enum {
    LAYER_OK = 0,
    LAYER_MISSING,
    LAYER_WARNING,
    LAYER_SKIPPED
} layer_state_t;


/* What a probe found; the stage and the cause are the row's until then. */
typedef struct {
    layer_state_t  state;
    stage_t        stage;
    int            err;
    cause_t        cause;
    const char    *needs;       /* skipped: this foundation is missing */
    char           detail[512];
    char           fix[640];    /* empty: looked up by stage, err, cause */
} layer_result_t;


/* A probe returns 0, or -1 with err and detail set. */
typedef int layer_probe_t(doctor_t *d, layer_result_t *r);

/* A step of set-up, as in box/setup.c; in a throwaway child. */
typedef int layer_step_t(setup_t *s);


typedef struct {
    const char     *name;       /* NULL: the end of the table */
    const char     *title;
    const char     *needs;      /* the name of its foundation, or NULL */
    bool            required;
    stage_t         stage;      /* where `jail run` fails without it */

    /* either a probe, or the namespaces of a child and a step in it */
    layer_probe_t  *probe;
    unsigned long   namespaces;
    int             unshare;    /* what the child makes for itself */
    layer_step_t   *step;       /* NULL: making them is the test */

    cause_t         cause;
    bool          (*known)(void);   /* would fail, though not tried */
} layer_t;


extern const layer_t  layer_table[];


/* Tries layer_table[i] and sets results[i]; those before it are set. */
void layer_try(doctor_t *d, size_t i, layer_result_t *results);
