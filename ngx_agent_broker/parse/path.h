/*
 * The path of a request in the one form that patterns are matched against, so
 * that two spellings of a path that a server takes for the same are judged
 * alike.  Bytes that need no percent-encoding are decoded (RFC 3986 section
 * 2.3), other encodings have capital digits.  A path that servers are known to
 * read in different ways has no such form.  It is forwarded as it was received
 * in any case.
 */

#pragma once

#include <stddef.h>


#define PATH_MAX_LEN  4096      /* as received, in bytes; longer has no form */


/*
 * p: n bytes up to "?".  NULL, with *len bytes in out, which has room for n;
 * or why there is no such form (a constant phrase).
 */
const char *path_canonical(const unsigned char *p, size_t n, char *out,
    size_t *len);
