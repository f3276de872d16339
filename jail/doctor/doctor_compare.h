/*
 * The open doors of a plain child process, compared with those of a box.
 */

#pragma once

#include <jansson.h>
#include <stddef.h>


/* "compare" of the JSON report; NULL with what happened in error. */
json_t *doctor_compare(char *error, size_t cap);

/* Prints it for people, to standard output. */
void doctor_compare_print(const json_t *compare);
