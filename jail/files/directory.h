/*
 * The names in a directory, sorted by their bytes, without "." and "..".
 */

#ifndef JAIL_DIRECTORY_H
#define JAIL_DIRECTORY_H

#include <stddef.h>


/* NULL with errno set; else for directory_free(), also when empty. */
char **directory_names(int dir, size_t *n);

void directory_free(char **names, size_t n);


#endif /* JAIL_DIRECTORY_H */
