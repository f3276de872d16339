/*
 * What a set, a policy and a rule say, each thing one row of a table.  The
 * text form is written and read by these tables, in their order; the words of
 * a directive are taken by the row of its name, and what a row holds is freed
 * by it.  So a new attribute of a rule is a member of policy_rule_t, a row
 * here, its directive, and the place that acts on it.
 */

#pragma once

#include "policy/policy.h"


#define POLICY_TEXT_VERSION  1      /* of the tables */


typedef enum {
    POLICY_FLAG = 0,            /* bool: true or false; "on" or "off" */
    POLICY_CHOICE,              /* bool: the second of two words is true */
    POLICY_COUNT,               /* uint64_t */
    POLICY_BYTES,               /* the same; "64k" */
    POLICY_TIME,                /* the same, milliseconds; "20s" */
    POLICY_STRING,              /* char *, which is always there */
    POLICY_STRING_OR_NULL,      /* char * */
    POLICY_STRINGS,             /* char **, a list */
    POLICY_RANGES,              /* address_range_t *, a list */
    POLICY_IDS,                 /* uint32_t *, a list */
    POLICY_WRITABLE,            /* policy_writable_t *, a list */
    POLICY_OBJECT,              /* rows of their own, of the same struct */
    POLICY_LIMITS,              /* uint64_t [LIMIT_COUNT] */
    POLICY_BOUNDS,              /* uint64_t [BOUND_COUNT] */
    POLICY_CREDENTIAL,          /* of a rule: its kind and its entry */
    POLICY_TRUSTED,             /* of a rule: a certificate text's hash */
    POLICY_SET_TRUSTED,         /* of a set: the same */
    POLICY_SAME_TRUSTED,        /* of a policy: its set's, for its hash */
    POLICY_PEMS,                /* of a set: the certificate texts */
    POLICY_RULES,               /* policy_rule_t **, a list */
    POLICY_POLICIES,            /* policy_t **, a list */
    POLICY_KINDS
} policy_kind_t;


typedef struct policy_field_s  policy_field_t;

struct policy_field_s {
    const char            *name;    /* the key, and a directive of its own */
    policy_kind_t          kind;
    size_t                 offset;  /* in its struct */
    size_t                 count;   /* of a list: where its length is */

    /* judges and takes one word of the directive or string of the text */

    int                  (*policy_add)(policy_t *policy, const char *word,
                                       char err[POLICY_ERROR_MAX]);
    int                  (*rule_add)(policy_rule_t *rule, const char *word,
                                     char err[POLICY_ERROR_MAX]);

    struct {
        uint64_t  min;
        uint64_t  max;              /* 0: any */
        uint64_t  standard;         /* the default */
    } bounds;                       /* of a count, bytes or a time */

    const char            *choices[2];  /* false, true */

    const policy_field_t  *fields;  /* of an object */
};


/* Each ends in a row without a name. */

extern const policy_field_t  policy_set_fields[];
extern const policy_field_t  policy_fields[];
extern const policy_field_t  policy_rule_fields[];


/* The row of this name, which is there. */
const policy_field_t *policy_field_find(const policy_field_t *fields,
    const char *name);

/*
 * Takes a word of the directive into object, the struct of the field's table.
 * -1 with err, which quotes the word if the field has a function for it.
 */
int policy_field_add(const policy_field_t *field, void *object,
    const char *word, char err[POLICY_ERROR_MAX]);

/* Sets the defaults of the numbers. */
void policy_fields_default(const policy_field_t *fields, void *object);

/* Frees strings and lists; the policies and rules in a list are others'. */
void policy_fields_free(const policy_field_t *fields, void *object);
