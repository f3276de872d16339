/*
 * The framing of a chunked body, RFC 9112 section 7.1, followed beside nginx's
 * own parser, which bounds no line of it and takes a bare LF for an end.
 */

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>


#define CHUNK_LINE_MAX      4096    /* bytes: a size with its extensions */
#define CHUNK_TRAILERS_MAX  16384   /* bytes: the lines after the last chunk */


typedef enum {
    CHUNK_MORE = 0,             /* the body goes on */
    CHUNK_END,                  /* it is complete; what follows is not read */
    CHUNK_MALFORMED
} chunk_result_t;


/* All zero before the first byte. */

typedef struct {
    uint8_t   state;
    uint8_t   digits;           /* of the size */
    uint64_t  left;             /* of the chunk's data */
    size_t    line;             /* bytes of this line so far */
    size_t    trailers;
} chunk_t;


/*
 * Follows the next n bytes of the body.  After CHUNK_END or CHUNK_MALFORMED it
 * returns the same again.
 */
chunk_result_t chunk_follow(chunk_t *c, const unsigned char *data, size_t n);
