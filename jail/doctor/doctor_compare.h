/*
 * The naive way's open doors beside the box's.
 */

#ifndef JAIL_DOCTOR_COMPARE_H
#define JAIL_DOCTOR_COMPARE_H

#include <jansson.h>
#include <stddef.h>


/* "compare" of the object; NULL with what happened in error. */
json_t *doctor_compare(char *error, size_t cap);

/* The same for people, on the standard output. */
void doctor_compare_print(const json_t *compare);


#endif /* JAIL_DOCTOR_COMPARE_H */
