/*
 * One task from the options to the result.
 */

#pragma once

#include "run/options.h"


#define STATUS_DELIVERED  0
#define STATUS_USAGE      2
#define STATUS_SETUP      125


/*
 * Runs the task and prints its result; gives the launcher's exit status.
 * scrub is the memory of argv and environ, wiped in the box's first process.
 */
int run(options_t *options, char *scrub, size_t scrub_len);
