/*
 * The variables that the caller sets in the task's environment, from --env
 * and from files.  Values may be secrets: a fault never contains one.
 */

#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/fault.h"


#define VARIABLES_MAX        64
#define VARIABLES_NAME_MAX   128        /* bytes */
#define VARIABLES_VALUE_MAX  8192
#define VARIABLES_FILE_MAX   65536


typedef struct {
    char      *pairs[VARIABLES_MAX];    /* "NAME=VALUE" */
    size_t     names[VARIABLES_MAX];    /* the length of each name */
    unsigned   n;
} variables_t;


/* Adds "NAME=VALUE"; a name that was added before is a fault. */
int variables_add(variables_t *variables, const char *pair, fault_t *fault);

/*
 * Adds the lines of a file's text: NAME=VALUE, empty, or a comment from "#".
 * The value is everything between "=" and the end of the line: there are no
 * quotes, escapes or references.
 */
int variables_parse(variables_t *variables, char *text, size_t len,
    const char *path, fault_t *fault);

/* Adds the lines of a regular file. */
int variables_read(variables_t *variables, const char *path, fault_t *fault);

/* The first name that is not in the list, or NULL; points into variables. */
const char *variables_unlisted(const variables_t *variables,
    const char *const *list, unsigned n, size_t *len);

void variables_free(variables_t *variables);
