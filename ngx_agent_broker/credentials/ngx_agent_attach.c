/*
 * The one place where a credential is put into a request, for every protocol
 * and every kind of credential.
 */


#include "credentials/ngx_agent_credentials.h"
#include "policy/vault.h"


#define NGX_AGENT_ATTACH_TEXT  (POLICY_FIELD_MAX + 32)  /* before the value */


static u_char *ngx_agent_attach_basic(u_char *p, ngx_str_t *value);
static u_char *ngx_agent_attach_percent(u_char *p, ngx_str_t *value);


size_t
ngx_agent_attach_room(const policy_rule_t *rule)
{
    switch (rule->credential_kind) {

    case CREDENTIAL_NONE:
        return 0;

    case CREDENTIAL_BASIC:
        return NGX_AGENT_ATTACH_TEXT + VAULT_VALUE_MAX
               + ngx_base64_encoded_length(VAULT_VALUE_MAX);

    case CREDENTIAL_QUERY:
        return NGX_AGENT_ATTACH_TEXT + VAULT_VALUE_MAX + 3 * VAULT_VALUE_MAX;

    default: /* CREDENTIAL_BEARER, CREDENTIAL_HEADER */
        return NGX_AGENT_ATTACH_TEXT + VAULT_VALUE_MAX;
    }
}


u_char *
ngx_agent_attach(const policy_rule_t *rule, ngx_agent_attach_e place,
    u_char *p, uint64_t *revision)
{
    u_char      *end, *last;
    ngx_str_t    value;
    ngx_uint_t   is_query;

    is_query = (rule->credential_kind == CREDENTIAL_QUERY);

    if (rule->credential_kind == CREDENTIAL_NONE
        || is_query != (place == NGX_AGENT_ATTACH_QUERY))
    {
        return p;
    }

    last = p + ngx_agent_attach_room(rule);

    switch (rule->credential_kind) {

    case CREDENTIAL_BEARER:
        p = ngx_slprintf(p, last, "Authorization: Bearer ");
        break;

    case CREDENTIAL_BASIC:
        p = ngx_slprintf(p, last, "Authorization: Basic ");
        break;

    case CREDENTIAL_HEADER:
        p = ngx_slprintf(p, last, "%s: ", rule->credential_field);
        break;

    default: /* CREDENTIAL_QUERY */
        p = ngx_slprintf(p, last, "%s=", rule->credential_field);
        break;
    }

    /* for a rendering the value is put behind where that ends at the latest */

    value.data = (rule->credential_kind == CREDENTIAL_BASIC || is_query)
                 ? last - VAULT_VALUE_MAX : p;
    value.len = ngx_agent_zone_vault_copy(rule->credential, value.data,
                                          VAULT_VALUE_MAX, revision);
    if (value.len == 0) {
        return NULL;
    }

    end = (rule->credential_kind == CREDENTIAL_BASIC)
          ? ngx_agent_attach_basic(p, &value)
          : is_query ? ngx_agent_attach_percent(p, &value) : p + value.len;

    if (value.data != p) {
        ngx_explicit_memzero(value.data, value.len);
    }

    if (end && !is_query) {
        *end++ = CR;
        *end++ = LF;
    }

    return end;
}


/* RFC 7617 section 2: a name and a password. */

static u_char *
ngx_agent_attach_basic(u_char *p, ngx_str_t *value)
{
    ngx_str_t  text;

    if (ngx_strlchr(value->data, value->data + value->len, ':') == NULL) {
        return NULL;
    }

    text.data = p;
    ngx_encode_base64(&text, value);

    return p + text.len;
}


/* All but the unreserved characters of RFC 3986 section 2.3. */

static u_char *
ngx_agent_attach_percent(u_char *p, ngx_str_t *value)
{
    size_t  i;
    u_char  c;

    static const u_char  hex[] = "0123456789ABCDEF";

    for (i = 0; i < value->len; i++) {
        c = value->data[i];

        if ((c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z')
            || c == '-' || c == '.' || c == '_' || c == '~')
        {
            *p++ = c;

        } else {
            *p++ = '%';
            *p++ = hex[c >> 4];
            *p++ = hex[c & 0xf];
        }
    }

    return p;
}
