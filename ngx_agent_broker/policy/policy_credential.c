/*
 * The credential of a rule: which entry of the vault goes where in a request.
 * The directives and the loader of the text form set it by the same function.
 */

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "policy/policy.h"
#include "policy/policy_words.h"


typedef struct {
    const char  *name;
    const char  *why;
} field_refusal_t;


static bool policy_is_field(const char *field, const char *others);
static const char *policy_header_refusal(const char *field);


const char *const  policy_credential_kinds[] = {
    [CREDENTIAL_NONE] = "", [CREDENTIAL_BEARER] = "bearer",
    [CREDENTIAL_BASIC] = "basic", [CREDENTIAL_HEADER] = "header",
    [CREDENTIAL_QUERY] = "query", NULL
};


static const char  framing[] = "is a header that frames or routes a request";
static const char  hop[] = "is a header of one hop: no host would get it";
static const char  cookie[] = "is a cookie's header: a credential is never "
                              "sent as one";
static const char  own[] = "is a header that the broker sets itself";


/* a name that ends with "-" stands for all that begin with it */

static const field_refusal_t  header_refusals[] = {
    { "host", framing }, { "content-length", framing },
    { "transfer-encoding", framing }, { "content-type", framing },
    { "content-encoding", framing }, { "content-range", framing },
    { "expect", framing }, { "range", framing }, { "if-range", framing },
    { "x-http-method-override", framing }, { "x-http-method", framing },
    { "x-method-override", framing }, { "x-original-url", framing },
    { "x-rewrite-url", framing }, { "x-original-host", framing },
    { "x-host", framing },

    { "connection", hop }, { "keep-alive", hop }, { "proxy-", hop },
    { "te", hop }, { "trailer", hop }, { "upgrade", hop },
    { "http2-settings", hop }, { "sec-websocket-", hop },

    { "cookie", cookie }, { "cookie2", cookie }, { "set-cookie", cookie },

    { "accept-encoding", own }, { "x-agent-broker", own },
    { "x-forwarded-", own }, { "forwarded", own }, { "via", own },
};


int
policy_rule_set_credential(policy_rule_t *rule, credential_kind_t kind,
    const char *field, const char *entry, char err[POLICY_ERROR_MAX])
{
    const char  *why;

    if (rule->credential) {
        return policy_error(err, "credential", entry,
                            "is a second one: a host has one credential");
    }

    if (!policy_is_name(entry)) {
        return policy_error(err, "credential", entry, "is not a name");
    }

    if ((field != NULL)
        != (kind == CREDENTIAL_HEADER || kind == CREDENTIAL_QUERY))
    {
        return policy_error(err, "credential", entry,
                            "has a field where its kind has none, or none "
                            "where it needs one");
    }

    if (kind == CREDENTIAL_HEADER) {

        if (!policy_is_field(field, "-_")) {
            return policy_error(err, "header", field,
                                "is not the name of a header: 1 to 64 letters, "
                                "digits, \"-\" and \"_\"");
        }

        why = policy_header_refusal(field);

        if (why) {
            return policy_error(err, "header", field, why);
        }
    }

    if (kind == CREDENTIAL_QUERY && !policy_is_field(field, "-_.~")) {
        return policy_error(err, "query", field,
                            "is not the name of a query's field: 1 to 64 "
                            "letters, digits, \"-\", \"_\", \".\" and \"~\"");
    }

    rule->credential_kind = kind;
    rule->credential = strdup(entry);
    rule->credential_field = field ? strdup(field) : NULL;

    return rule->credential && (field == NULL || rule->credential_field)
           ? 0 : policy_no_memory(err);
}


static bool
policy_is_field(const char *field, const char *others)
{
    size_t  i;

    for (i = 0; field[i]; i++) {
        if (!((field[i] >= '0' && field[i] <= '9')
              || ((field[i] | 0x20) >= 'a' && (field[i] | 0x20) <= 'z')
              || strchr(others, field[i])))
        {
            return false;
        }
    }

    return i > 0 && i <= POLICY_FIELD_MAX;
}


static const char *
policy_header_refusal(const char *field)
{
    size_t  i, n, len;

    n = sizeof(header_refusals) / sizeof(header_refusals[0]);

    for (i = 0; i < n; i++) {
        len = strlen(header_refusals[i].name);

        if (header_refusals[i].name[len - 1] != '-') {
            len++;                      /* the end of the name as well */
        }

        if (strncasecmp(field, header_refusals[i].name, len) == 0) {
            return header_refusals[i].why;
        }
    }

    return NULL;
}


bool
policy_rule_has_same_credential(const policy_rule_t *one,
    const policy_rule_t *other)
{
    if (one->credential_kind != other->credential_kind
        || one->client_credentials != other->client_credentials
        || one->cookies != other->cookies)
    {
        return false;
    }

    if (one->credential == NULL) {
        return true;
    }

    return strcmp(one->credential, other->credential) == 0
           && (one->credential_field == NULL
               || strcmp(one->credential_field, other->credential_field) == 0);
}
