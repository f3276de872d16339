/*
 * Writes a JSON text, or reads one that was written here, by the same calls:
 * what is put when writing is expected when reading.  A text is read strictly,
 * with no white space, no other spelling and nothing left out.
 *
 * The first failure stays: all calls after it do nothing, so that it is asked
 * for once, at the end, and where what was read is used.
 */

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"


typedef struct {
    bool           reading;
    bool           failed;      /* reading: with err; writing: no memory */
    bool           hashing;     /* each policy gets the hash of its text */
    bool           bare;        /* rules are left out */
    bool           one_rule;    /* which is not added to its policy */

    char          *data;        /* written, with a NUL; the caller frees it */
    size_t         len;
    size_t         cap;

    const char    *start;       /* what is read */
    const char    *p;
    const char    *end;
    char          *word;        /* the last string; the caller frees it */
    size_t         word_cap;
    char          *err;         /* POLICY_ERROR_MAX bytes */

    policy_set_t  *set;         /* of which the text is */
    const char    *trusted;     /* where it names its default certificates */
} coder_t;


/* Was all read well so far, so that what was read may be used? */
bool coder_has_read(const coder_t *c);

/* How much has been written or read. */
size_t coder_offset(const coder_t *c);

/* Fails if rc is not 0, when err was set. */
void coder_check(coder_t *c, int rc);

/* Fails at this byte. */
void coder_unexpected(coder_t *c);

/* A text as it is, and a key with the separator before it. */
void coder_text(coder_t *c, const char *text);
void coder_key(coder_t *c, const char *separator, const char *name);

/* Writing only: n bytes as they are. */
void coder_bytes(coder_t *c, const char *p, size_t n);

/* Reading only: consumes the text if it is next. */
bool coder_skip(coder_t *c, const char *text);

/* Reading only: is there one more item before close?  *n starts at 0. */
bool coder_next(coder_t *c, const char *close, size_t *n);

/* Writes or reads a null if there is one. */
bool coder_null(coder_t *c, bool is_null);

/* Writes value, or reads into c->word. */
void coder_string(coder_t *c, const char *value);

/* Plain decimal, which is read if it is from min to max. */
void coder_number(coder_t *c, uint64_t *value, uint64_t min, uint64_t max);

void coder_flag(coder_t *c, bool *value);
