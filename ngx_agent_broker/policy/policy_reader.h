/* Reads the text form of policies word by word; used by policy_load.c. */

#ifndef POLICY_READER_H
#define POLICY_READER_H

#include "policy/policy.h"


typedef struct {
    const char    *start;
    const char    *p;
    const char    *end;
    char          *word;        /* the last string read; the caller frees it */
    size_t         word_cap;
    char          *err;         /* POLICY_ERROR_MAX bytes */
    policy_set_t  *set;
} reader_t;


/* Consumes the text if it is next. */
bool reader_skip(reader_t *r, const char *text);

/* Consumes it, or fails: -1 with r->err, as all that follows. */
int reader_expect(reader_t *r, const char *text);

/*
 * Is there one more item of the list that ends in close?  *count starts at 0;
 * *rc is -1 where the list is damaged.
 */
bool reader_next_item(reader_t *r, const char *close, size_t *count, int *rc);

/* The string as r->word, till the next one is read; NULL with r->err. */
char *reader_string(reader_t *r);

/* Plain decimal, at most max. */
int reader_number(reader_t *r, uint64_t max, uint64_t *value);

int reader_unexpected(reader_t *r);
int reader_no_memory(reader_t *r);


#endif /* POLICY_READER_H */
