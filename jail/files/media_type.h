/*
 * What a file is, for a caller that shows or forwards it.
 */

#ifndef JAIL_KIND_H
#define JAIL_KIND_H

#include <stddef.h>


#define KIND_HEAD  512                  /* bytes that are looked at */


/*
 * A media type from the first bytes; of the name only ".csv" counts, which
 * nothing else tells from a text.  Never NULL.
 */
const char *kind_of(const char *name, const unsigned char *head, size_t n);


#endif /* JAIL_KIND_H */
