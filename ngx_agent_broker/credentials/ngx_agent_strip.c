/*
 * The client's own credentials do not pass.  A box that has a key of its own
 * could send data out through an allowed host, into an account that is not its
 * operator's; and one beside ours would leave it to the host which of the two
 * counts.
 *
 * What is listed here is a credential wherever it is used; words that are one
 * for some hosts only ("key", "token" in a query) are not, unless the rule's
 * own credential has that name.  A rule without a credential may say
 * "client_credentials pass".
 */


#include "credentials/ngx_agent_credentials.h"


#define NGX_AGENT_STRIP_NAME  64            /* bytes of a field's name */


static ngx_agent_name_table_t *ngx_agent_strip_table(ngx_uint_t is_query);
static const char *ngx_agent_strip_field(const policy_rule_t *rule,
    const u_char *p, const u_char *last);
static size_t ngx_agent_strip_decode(const u_char *p, const u_char *last,
    u_char name[NGX_AGENT_STRIP_NAME]);
static ngx_uint_t ngx_agent_strip_is_same(const u_char *name, size_t len,
    const char *field);
static void ngx_agent_strip_note(ngx_agent_stripped_t *stripped,
    const char *name, ngx_uint_t is_query);


static ngx_str_t  ngx_agent_strip_headers[] = {

    /* HTTP's own, RFC 9110 section 11 and RFC 6265 */
    ngx_string("authorization"), ngx_string("proxy-authorization"),
    ngx_string("cookie"), ngx_string("cookie2"),

    /* the names that frameworks and gateways give them */
    ngx_string("authentication"), ngx_string("x-authentication"),
    ngx_string("x-authorization"), ngx_string("x-auth"),
    ngx_string("api-key"), ngx_string("apikey"), ngx_string("x-api-key"),
    ngx_string("x-apikey"), ngx_string("api-token"), ngx_string("x-api-token"),
    ngx_string("x-api-secret"), ngx_string("api-secret"),
    ngx_string("token"), ngx_string("x-token"), ngx_string("access-token"),
    ngx_string("x-access-token"), ngx_string("auth-token"),
    ngx_string("x-auth-token"), ngx_string("x-auth-key"),
    ngx_string("x-access-key"), ngx_string("x-secret-key"),
    ngx_string("x-session-token"), ngx_string("session-token"),
    ngx_string("x-session-id"), ngx_string("x-user-token"),
    ngx_string("x-client-secret"), ngx_string("client-secret"),
    ngx_string("x-id-token"), ngx_string("x-refresh-token"),
    ngx_string("x-subscription-token"), ngx_string("x-subject-token"),

    /* providers of clouds, and of what is in front of them */
    ngx_string("x-amz-security-token"), ngx_string("x-goog-api-key"),
    ngx_string("x-goog-iam-authorization-token"),
    ngx_string("x-functions-key"), ngx_string("ocp-apim-subscription-key"),
    ngx_string("x-ms-authorization-auxiliary"),
    ngx_string("cf-access-client-id"), ngx_string("cf-access-client-secret"),
    ngx_string("cf-access-token"), ngx_string("x-auth-email"),
    ngx_string("fastly-key"), ngx_string("x-rapidapi-key"),
    ngx_string("x-vault-token"), ngx_string("x-consul-token"),
    ngx_string("x-nomad-token"),

    /* forges, builds and packages */
    ngx_string("private-token"), ngx_string("job-token"),
    ngx_string("deploy-token"), ngx_string("x-gitlab-token"),
    ngx_string("x-github-token"), ngx_string("circle-token"),
    ngx_string("x-jfrog-art-api"), ngx_string("x-nuget-apikey"),
    ngx_string("x-octopus-apikey"), ngx_string("x-registry-auth"),
    ngx_string("x-redmine-api-key"),

    /* services that agents call */
    ngx_string("xi-api-key"), ngx_string("dd-api-key"),
    ngx_string("dd-application-key"), ngx_string("x-honeycomb-team"),
    ngx_string("x-insert-key"), ngx_string("x-license-key"),
    ngx_string("x-query-key"), ngx_string("x-sentry-auth"),
    ngx_string("x-sentry-token"), ngx_string("x-figma-token"),
    ngx_string("x-shopify-access-token"),
    ngx_string("x-shopify-storefront-access-token"),
    ngx_string("x-postmark-server-token"),
    ngx_string("x-postmark-account-token"), ngx_string("x-algolia-api-key"),
    ngx_string("x-parse-master-key"), ngx_string("x-parse-rest-api-key"),
    ngx_string("x-parse-session-token"), ngx_string("x-mbx-apikey"),
    ngx_string("x-cmc_pro_api_key"), ngx_string("x-tableau-auth"),
    ngx_string("x-plex-token"), ngx_string("x-emby-token"),

    ngx_null_string
};


/* "-", "." and a space in a name are as "_" here, and "[...]" ends it. */

static ngx_str_t  ngx_agent_strip_fields[] = {

    /* RFC 6750 section 2.3, and what is like it */
    ngx_string("access_token"), ngx_string("accesstoken"),
    ngx_string("api_key"), ngx_string("apikey"), ngx_string("x_api_key"),
    ngx_string("api_token"), ngx_string("apitoken"),
    ngx_string("api_secret"), ngx_string("apisecret"),
    ngx_string("auth_token"), ngx_string("authtoken"),
    ngx_string("authorization"), ngx_string("bearer_token"),
    ngx_string("client_secret"), ngx_string("clientsecret"),
    ngx_string("id_token"), ngx_string("idtoken"),
    ngx_string("refresh_token"), ngx_string("refreshtoken"),
    ngx_string("session_token"), ngx_string("sessiontoken"),
    ngx_string("oauth_token"), ngx_string("personal_access_token"),
    ngx_string("private_token"), ngx_string("job_token"),
    ngx_string("subscription_key"), ngx_string("circle_token"),
    ngx_string("x_access_token"), ngx_string("x_auth_token"),

    /* addresses that carry the right of whoever signed them */
    ngx_string("x_amz_credential"), ngx_string("x_amz_signature"),
    ngx_string("x_amz_security_token"), ngx_string("x_goog_credential"),
    ngx_string("x_goog_signature"), ngx_string("awsaccesskeyid"),
    ngx_string("googleaccessid"), ngx_string("sig"),

    ngx_null_string
};


_Static_assert(sizeof(ngx_agent_strip_headers) / sizeof(ngx_str_t)
               <= NGX_AGENT_TABLE_MAX + 1, "the list is too long");

_Static_assert(sizeof(ngx_agent_strip_fields) / sizeof(ngx_str_t)
               <= NGX_AGENT_TABLE_MAX + 1, "the list is too long");


void
ngx_agent_strip_init(void)
{
    ngx_agent_name_table_init(ngx_agent_strip_table(0));
    ngx_agent_name_table_init(ngx_agent_strip_table(1));
}


static ngx_agent_name_table_t *
ngx_agent_strip_table(ngx_uint_t is_query)
{
    static ngx_agent_name_table_t  tables[] = {
        { .list = ngx_agent_strip_headers },
        { .list = ngx_agent_strip_fields }
    };

    return &tables[is_query];
}


const char *
ngx_agent_strip_header(const policy_rule_t *rule, const u_char *name,
    size_t len)
{
    ngx_str_t  *known;

    if (rule->client_credentials) {
        return NULL;
    }

    if (rule->credential_kind == CREDENTIAL_HEADER
        && len == ngx_strlen(rule->credential_field)
        && ngx_strncasecmp((u_char *) name, (u_char *) rule->credential_field,
                           len) == 0)
    {
        return rule->credential_field;
    }

    known = ngx_agent_name_table_find(ngx_agent_strip_table(0), name, len);

    if (known == NULL
        || (rule->cookies && ngx_strncmp(known->data, "cookie", 6) == 0))
    {
        return NULL;
    }

    return (const char *) known->data;
}


/*
 * Fields are separated by "&", for some programs by ";" as well.  The rest is
 * left as it came.
 */

size_t
ngx_agent_strip_query(const policy_rule_t *rule, const u_char *query,
    size_t len, u_char *dst, ngx_agent_stripped_t *stripped)
{
    size_t         n;
    ngx_uint_t     kept;
    const char    *name;
    const u_char  *p, *end, *last;

    n = 0;
    kept = 0;
    last = query + len;

    for (p = query; len && p <= last; p = end + 1) {

        for (end = p; end < last && *end != '&' && *end != ';'; end++) {
            /* void */
        }

        name = ngx_agent_strip_field(rule, p, end);

        if (name) {

            if (stripped) {
                ngx_agent_strip_note(stripped, name, 1);
            }

            continue;
        }

        if (dst) {

            if (kept) {
                dst[n] = p[-1];
            }

            ngx_memcpy(dst + n + kept, p, end - p);
        }

        n += kept + (end - p);
        kept = 1;                           /* the next has a separator */
    }

    return n;
}


/* The name as it is listed if the field is a credential. */

static const char *
ngx_agent_strip_field(const policy_rule_t *rule, const u_char *p,
    const u_char *last)
{
    size_t      len;
    u_char      name[NGX_AGENT_STRIP_NAME];
    ngx_str_t  *known;

    if (rule->client_credentials) {
        return NULL;
    }

    len = ngx_agent_strip_decode(p, last, name);

    if (rule->credential_kind == CREDENTIAL_QUERY
        && ngx_agent_strip_is_same(name, len, rule->credential_field))
    {
        return rule->credential_field;
    }

    known = ngx_agent_name_table_find(ngx_agent_strip_table(1), name, len);

    return known ? (const char *) known->data : NULL;
}


/*
 * The name as lenient programs read it: percent-decoded, without blanks and
 * brackets before it, in lower case, up to "=", a bracket or a NUL.  0: it is
 * longer than any that is meant.
 */

static size_t
ngx_agent_strip_decode(const u_char *p, const u_char *last,
    u_char name[NGX_AGENT_STRIP_NAME])
{
    size_t      n;
    u_char      c;
    ngx_int_t   code;

    n = 0;

    while (p < last) {
        c = *p++;

        if (c == '=') {
            break;
        }

        if (c == '%' && last - p >= 2) {
            code = ngx_hextoi((u_char *) p, 2);

            if (code != NGX_ERROR) {
                c = (u_char) code;
                p += 2;
            }
        }

        if (c <= ' ' || c == '+' || c == '.' || c == '-') {
            c = (c == '\0' && n) ? '[' : '_';
        }

        if (n == 0 && (c == '_' || c == '[' || c == ']')) {
            continue;
        }

        if (c == '[' || c == ']') {
            break;
        }

        if (n == NGX_AGENT_STRIP_NAME) {
            return 0;
        }

        name[n++] = ngx_tolower(c);
    }

    return n;
}


static ngx_uint_t
ngx_agent_strip_is_same(const u_char *name, size_t len, const char *field)
{
    u_char  mine[NGX_AGENT_STRIP_NAME];

    return ngx_agent_strip_decode((const u_char *) field,
                                  (const u_char *) field + ngx_strlen(field),
                                  mine)
           == len
           && len && ngx_memcmp(name, mine, len) == 0;
}


void
ngx_agent_strip_names(const policy_rule_t *rule, ngx_list_part_t *headers,
    const u_char *query, size_t len, ngx_agent_stripped_t *stripped)
{
    const char       *name;
    ngx_uint_t        i;
    ngx_table_elt_t  *header;

    for ( /* void */ ; headers; headers = headers->next) {

        header = headers->elts;

        for (i = 0; i < headers->nelts; i++) {

            name = ngx_agent_strip_header(rule, header[i].key.data,
                                          header[i].key.len);
            if (name) {
                ngx_agent_strip_note(stripped, name, 0);
            }
        }
    }

    if (len) {
        (void) ngx_agent_strip_query(rule, query, len, NULL, stripped);
    }
}


static void
ngx_agent_strip_note(ngx_agent_stripped_t *stripped, const char *name,
    ngx_uint_t is_query)
{
    ngx_uint_t  i;

    for (i = 0; i < stripped->count; i++) {
        if (stripped->list[i].name == name
            && stripped->list[i].is_query == is_query)
        {
            return;
        }
    }

    if (i == NGX_AGENT_STRIPPED_MAX) {
        stripped->cut = 1;
        return;
    }

    stripped->list[i].name = name;
    stripped->list[i].is_query = is_query;
    stripped->count++;
}
