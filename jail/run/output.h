/*
 * One captured stream: read as fast as it comes, kept within a cap of
 * characters, in memory that does not grow with what the box writes.
 */

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/utf8.h"


typedef struct {
    char    *data;
    size_t   len;
    size_t   cap;
    size_t   chars;
} output_text_t;


/* Of a stream that is cut. */

typedef enum {
    OUTPUT_ENDS = 0,            /* the first 40 % and the last 60 % */
    OUTPUT_HEAD,
    OUTPUT_TAIL
} output_keep_t;


typedef struct {
    output_keep_t  keep;
    size_t         cap;         /* characters, the marker included */
    size_t         head_max;    /* characters */
    size_t         tail_max;
    uint64_t       bytes;       /* written by the box */
    uint64_t       chars;       /* decoded, an invalid sequence being one */
    utf8_t         utf8;
    output_text_t  head;        /* the first head_max characters */
    output_text_t  tail;        /* at least the last tail_max of the rest */
    bool           failed;      /* out of memory: what follows is dropped */
} output_t;


/* Keeps the ends, with a marker between them, in cap characters. */
void output_init(output_t *out, size_t cap);

/* Before anything is added: keeps only one end, without a marker. */
void output_keep(output_t *out, output_keep_t keep);

void output_add(output_t *out, const char *data, size_t n);

/*
 * Ends the stream and gives its text, valid UTF-8 of at most cap characters,
 * to be freed by the caller; NULL when out of memory.  *cut is set when the
 * text is not the whole.
 */
char *output_text(output_t *out, size_t *len, bool *cut);

void output_free(output_t *out);
