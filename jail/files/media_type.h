/*
 * The media type of a file, for a caller that shows or forwards it.
 */

#pragma once

#include <stddef.h>


#define MEDIA_TYPE_HEAD  512            /* bytes that are examined */


/*
 * A media type from the first bytes; of the name only ".csv" counts, since the
 * content of such a file looks like any text.  Never NULL.
 */
const char *media_type_of(const char *name, const unsigned char *head,
    size_t n);
