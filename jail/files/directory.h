/*
 * The names in a directory, sorted by their bytes, without "." and "..".
 */

#ifndef JAIL_NAMES_H
#define JAIL_NAMES_H

#include <stddef.h>


/* NULL with errno set; else to be given to names_free(), also when empty. */
char **names_read(int dir, size_t *n);

void names_free(char **names, size_t n);


#endif /* JAIL_NAMES_H */
