/*
 * How the kinds of fields look in the text form, for writing and reading.
 *
 * Certificates are beside the policies, once each, under their SHA-256, and
 * the policies name only that.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/policy_pem.h"
#include "policy/policy_values.h"


static void value_read_pem(coder_t *c);


void
value_word(coder_t *c, const policy_field_t *field, void *object,
    const char *value)
{
    coder_string(c, value);

    if (coder_has_read(c)) {
        coder_check(c, policy_field_add(field, object, c->word, c->err));
    }
}


void
value_range(coder_t *c, const policy_field_t *field, void *object,
    const address_range_t *range)
{
    char       text[ADDRESS_TEXT_MAX + sizeof("/128")];
    size_t     n;
    address_t  a;

    if (range) {
        a.v6 = range->v6;
        memcpy(a.bytes, range->bytes, 16);
        n = address_text(&a, text);
        (void) sprintf(text + n, "/%u", (unsigned) range->prefix);
    }

    value_word(c, field, object, text);
}


void
value_writable(coder_t *c, policy_t *policy, policy_writable_t *writable)
{
    uint64_t  bytes;

    bytes = writable ? writable->bytes : 0;

    coder_text(c, "{\"path\":");
    coder_string(c, writable ? writable->path : NULL);
    coder_text(c, ",\"bytes\":");
    coder_number(c, &bytes, 0, UINT64_MAX);
    coder_text(c, "}");

    if (coder_has_read(c)) {
        coder_check(c, policy_add_writable(policy, c->word, bytes, c->err));
    }
}


/* What values are allowed is policy_check's. */

void
value_limits(coder_t *c, uint64_t *limits)
{
    char         number[32];
    size_t       i;
    const char  *start, *why;

    for (i = 0; i < LIMIT_COUNT; i++) {

        coder_key(c, i ? "," : "{", limit_table[i].key);

        if (limit_table[i].unit != UNIT_CORES) {
            coder_number(c, &limits[i], 0, UINT64_MAX);
            continue;
        }

        if (!c->reading) {
            coder_text(c, limit_text(i, limits[i], number, sizeof(number)));
            continue;
        }

        start = c->p;

        while (c->p < c->end
               && ((*c->p >= '0' && *c->p <= '9') || *c->p == '.'))
        {
            c->p++;
        }

        if (coder_has_read(c)
            && limit_parse(i, start, (size_t) (c->p - start), &limits[i],
                           &why)
               != 0)
        {
            coder_check(c, policy_error(c->err, "limit", limit_table[i].key,
                                        why));
        }
    }

    coder_text(c, "}");
}


void
value_bounds(coder_t *c, uint64_t *bounds)
{
    size_t  i;

    for (i = 0; i < BOUND_COUNT; i++) {
        coder_key(c, i ? "," : "{", bound_table[i].directive);
        coder_number(c, &bounds[i], 0, bound_table[i].max);
    }

    coder_text(c, "}");
}


void
value_choice(coder_t *c, const policy_field_t *field, bool *value)
{
    char  word[64];

    (void) snprintf(word, sizeof(word), "\"%s\"", field->choices[1]);

    if (c->reading) {
        *value = coder_skip(c, word);

        if (*value) {
            return;
        }
    }

    if (!*value) {
        (void) snprintf(word, sizeof(word), "\"%s\"", field->choices[0]);
    }

    coder_text(c, word);
}


void
value_credential(coder_t *c, policy_rule_t *rule)
{
    char               field[POLICY_FIELD_MAX + 1];
    bool               has_field;
    credential_kind_t  kind;

    if (coder_null(c, rule->credential == NULL)) {
        return;
    }

    coder_text(c, "{\"kind\":");
    coder_string(c, policy_credential_kinds[rule->credential_kind]);
    kind = CREDENTIAL_NONE;

    if (coder_has_read(c)) {

        for (kind = CREDENTIAL_BEARER;
             policy_credential_kinds[kind]
             && strcmp(policy_credential_kinds[kind], c->word) != 0;
             kind++)
        {
            /* void */
        }

        if (policy_credential_kinds[kind] == NULL) {
            coder_check(c, policy_error(c->err, "credential", c->word,
                                        "is not a kind of credential"));
        }
    }

    coder_text(c, ",\"field\":");
    has_field = !coder_null(c, rule->credential_field == NULL);

    if (has_field) {
        coder_string(c, rule->credential_field);

        if (coder_has_read(c)
            && snprintf(field, sizeof(field), "%s", c->word)
               >= (int) sizeof(field))
        {
            coder_check(c, policy_error(c->err, "credential", c->word,
                                        "is too long a field"));
        }
    }

    coder_text(c, ",\"name\":");
    coder_string(c, rule->credential);
    coder_text(c, "}");

    if (coder_has_read(c)) {
        coder_check(c, policy_rule_set_credential(rule, kind,
                                                  has_field ? field : NULL,
                                                  c->word, c->err));
    }
}


/* Read later: it is named before the text of any certificate is known. */

void
value_set_trusted(coder_t *c)
{
    c->trusted = c->p;

    if (!c->reading) {
        value_trusted(c, &c->set->trusted_pem, &c->set->pem);

    } else if (!coder_null(c, false)) {
        coder_string(c, NULL);
    }
}


/* The set's default, repeated so that it is in the policy's hash. */

void
value_same_trusted(coder_t *c, policy_t *policy)
{
    char          *text;
    policy_pem_t  *pem;

    pem = c->reading ? NULL : c->set->pem;
    value_trusted(c, &text, &pem);

    if (coder_has_read(c) && pem != c->set->pem) {
        coder_check(c, policy_error(c->err, "policy", policy->name,
                                    "trusts others than its set"));
    }
}


/* null, or the hash of a certificate text that the set has. */

void
value_trusted(coder_t *c, char **text, policy_pem_t **pem)
{
    if (coder_null(c, *pem == NULL)) {
        return;
    }

    coder_string(c, *pem ? (*pem)->hash : NULL);

    if (coder_has_read(c)) {

        *pem = policy_pem_find(c->set, c->word);

        if (*pem == NULL) {
            coder_check(c, policy_error(c->err, "trusted", c->word,
                                        "names no certificate"));
            return;
        }

        *text = (*pem)->text;
    }
}


void
value_pems(coder_t *c)
{
    size_t         n;
    const char    *end;
    policy_pem_t  *pem;

    coder_text(c, "{");

    if (!c->reading) {

        for (pem = c->set->pems; pem; pem = pem->next) {
            coder_string(c, pem->hash);
            coder_text(c, ":");
            coder_string(c, pem->text);
            coder_text(c, pem->next ? "," : "");
        }

        coder_text(c, "}");
        return;
    }

    for (n = 0; coder_next(c, "}", &n); /* void */ ) {
        value_read_pem(c);
    }

    end = c->p;
    c->p = c->trusted;
    value_trusted(c, &c->set->trusted_pem, &c->set->pem);
    c->p = end;
}


/* It is filed under the hash of its own text. */

static void
value_read_pem(coder_t *c)
{
    char           hash[POLICY_HASH_LEN + 1], *text;
    policy_pem_t  *pem;

    coder_string(c, NULL);

    if (c->failed || strlen(c->word) != POLICY_HASH_LEN) {
        coder_unexpected(c);
        return;
    }

    (void) strcpy(hash, c->word);

    coder_text(c, ":");
    coder_string(c, NULL);

    if (c->failed) {
        return;
    }

    text = strdup(c->word);
    pem = NULL;

    if (text == NULL || policy_pem_adopt(c->set, &text, &pem) != 0) {
        free(text);
        coder_check(c, policy_error(c->err, "certificates", hash,
                                    "has no PEM text"));

    } else if (strcmp(pem->hash, hash) != 0) {
        coder_check(c, policy_error(c->err, "certificates", hash,
                                    "has the text of another"));
    }
}
