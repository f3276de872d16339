/*
 * The command line, parsed once into a value that cannot be wrong: limits
 * are within the table's bounds, names are checked.  Strings point into argv.
 */

#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/fault.h"
#include "shared/limits.h"
#include "shared/protocol.h"
#include "run/output.h"


#define OPTIONS_POLICY     "default"
#define OPTIONS_IN_MAX     64
#define OPTIONS_ENV_MAX    64
#define OPTIONS_NAME_MAX   255


typedef struct {
    const char  *path;
    char         name[OPTIONS_NAME_MAX + 1];
} option_in_t;


typedef struct {
    bool         is_file;
    const char  *text;                  /* a path, or NAME=VALUE */
} option_env_t;


typedef struct {
    const char   *policy;
    const char   *control;              /* never NULL unless offline */
    const char   *ask_method;           /* of `jail policy --ask`, or NULL */
    const char   *ask_url;
    bool          offline;
    const char   *code;                 /* a path, "-" or NULL */
    option_in_t   in[OPTIONS_IN_MAX];
    unsigned      nin;
    const char   *out;                  /* a directory, or NULL */
    const char   *workspace;            /* a directory, or NULL */
    option_env_t  env[OPTIONS_ENV_MAX];
    unsigned      nenv;
    const char   *external_id;          /* or NULL */
    const char   *label;                /* or NULL */
    bool          has_stdin;
    bool          raw;
    output_keep_t keep;
    uint64_t      limits[LIMIT_COUNT];
    bool          limit_set[LIMIT_COUNT];
    char        **command;              /* at least one, NULL-terminated */
} options_t;


/*
 * Parses what follows the word "run" (with command) or "policy" (without)
 * into options that are all zero.
 * environ is asked for AGENT_BROKER_CONTROL only.  0, or -1 with the fault
 * set: exit status 2.
 */
int options_parse(options_t *options, int argc, char **argv, fault_t *fault);
int options_parse_policy(options_t *options, int argc, char **argv,
    fault_t *fault);

void options_help(FILE *out);
