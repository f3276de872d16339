/*
 * agent_policy and what it holds.  Every value is checked where it is read, so
 * that nginx -t names the line; what needs the whole configuration (is the
 * vault entry there?) is remembered with its line and checked at the end.  The
 * policies are built with policy.c, which knows nothing of nginx.
 *
 * All directives come through ngx_agent_conf_directive, which does what is the
 * same for each and calls the function in the directive's row of the table.
 * Most are ngx_agent_conf_field: the rest of such a directive is a row of
 * policy_fields.c.
 */


#include "conf/ngx_agent_conf.h"
#include "jail/shared/box_paths.h"
#include "jail/shared/secret.h"
#include "policy/policy_fields.h"
#include "policy/policy_pem.h"
#include "policy/policy_words.h"


#define NGX_AGENT_SHOWN_MAX  128    /* bytes of a word in a message */


static char *ngx_agent_conf_policy_end(ngx_conf_t *cf,
    ngx_agent_main_conf_t *amcf);
static ngx_int_t ngx_agent_conf_place(ngx_conf_t *cf,
    ngx_agent_main_conf_t *amcf, const void *what);
static char *ngx_agent_conf_set_bound(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_str_t *value, bound_id_t id, policy_t *policy);
static char *ngx_agent_conf_refused(ngx_conf_t *cf, ngx_command_t *cmd,
    const char *err);


/* A directive has the bit of its place in the table, in its own block. */

char *
ngx_agent_conf_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_agent_main_conf_t *amcf = conf;

    char                *rv;
    uint64_t            *seen, bit;
    ngx_agent_conf_pt    handler;

    if (ngx_agent_words_check(cf, cmd) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    seen = cf->cmd_type == NGX_AGENT_HOST_CONF ? &amcf->rule_seen
           : cf->cmd_type == NGX_AGENT_POLICY_CONF ? &amcf->policy_seen
           : &amcf->seen;

    bit = (uint64_t) 1 << (cmd - ngx_agent_broker_module.commands);

    if ((*seen & bit) && !(cmd->type & NGX_AGENT_MANY)) {
        return "is duplicate";
    }

    *seen |= bit;

    handler = (ngx_agent_conf_pt) cmd->post;

    rv = handler(cf, cmd, amcf);

    return rv == NGX_CONF_OK ? ngx_agent_host_block_next(cf, amcf) : rv;
}


char *
ngx_agent_conf_policy(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf)
{
    char               *rv, err[POLICY_ERROR_MAX];
    ngx_str_t          *value;
    ngx_uint_t          i;
    ngx_conf_t          save;
    const policy_t     *first;
    ngx_agent_place_t  *place;

    value = cf->args->elts;

    amcf->policy = policy_set_add(amcf->set, (char *) value[1].data, err);
    place = amcf->places.elts;

    if (amcf->policy == NULL) {

        first = policy_set_find(amcf->set, (char *) value[1].data);

        for (i = 0; first && place[i].what != first; i++) { /* void */ }

        ngx_agent_host_block_duplicate(cf,
                                       first ? (char *) place[i].file.data
                                             : NULL,
                                       first ? place[i].line : 0,
                                       "invalid \"agent_policy\"", err);
        return NGX_CONF_ERROR;
    }

    if (ngx_agent_conf_place(cf, amcf, amcf->policy) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    amcf->policy_seen = 0;
    amcf->policy_pem = NULL;

    /* until they are set */

    amcf->policy->bounds[BOUND_BYTES_UP] = 0;
    amcf->policy->bounds[BOUND_AUDIT_LINES] = 0;
    amcf->policy->bounds[BOUND_AUDIT_BYTES] = 0;

    save = *cf;
    cf->cmd_type = NGX_AGENT_POLICY_CONF;

    rv = ngx_agent_host_block_next(cf, amcf);

    if (rv == NGX_CONF_OK) {
        rv = ngx_conf_parse(cf, NULL);
    }

    *cf = save;

    return rv == NGX_CONF_OK ? ngx_agent_conf_policy_end(cf, amcf) : rv;
}


static char *
ngx_agent_conf_policy_end(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf)
{
    char            err[POLICY_ERROR_MAX];
    policy_t       *policy;
    ngx_uint_t      i;
    policy_pem_t   *pem;
    policy_rule_t  *rule;

    policy = amcf->policy;
    pem = NULL;

    /* once for all rules, however many */

    if (policy_pem_adopt(amcf->set, &amcf->policy_pem, &pem) != 0) {
        return "cannot allocate";
    }

    amcf->policy_pem = NULL;                        /* it is the set's now */

    for (i = 0; i < policy->rules_count; i++) {

        rule = policy->rules[i];

        if (pem && rule->trusted_pem == NULL && rule->crl_pem == NULL) {
            rule->trusted_pem = pem->text;
            rule->pem = pem;

        } else if (policy_rule_trust(rule, pem ? pem->text : NULL) != 0) {
            return "cannot allocate";
        }

        if (rule->tunnel && policy->bounds[BOUND_BYTES_UP] == 0) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "host \"%s\" has \"tunnel on\": "
                               "say how much may go up with \"bytes_up\"",
                               rule->host);
            return NGX_CONF_ERROR;
        }
    }

    if (policy->bounds[BOUND_BYTES_UP] == 0) {
        policy->bounds[BOUND_BYTES_UP] = bound_table[BOUND_BYTES_UP].standard;
    }

    bounds_complete(policy->bounds);

    if (policy->writable_count == 0
        && policy_add_writable(policy, BOX_WORK,
                               BOX_WORK_BYTES, err)
           != 0)
    {
        return "cannot allocate";
    }

    if (policy_check(policy, err) != 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "policy \"%s\": %s", policy->name, err);
        return NGX_CONF_ERROR;
    }

    amcf->policy = NULL;

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_agent_conf_place(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf,
    const void *what)
{
    ngx_agent_place_t  *place;

    place = ngx_array_push(&amcf->places);
    if (place == NULL) {
        return NGX_ERROR;
    }

    place->what = what;
    place->file = cf->conf_file->file.name;
    place->line = cf->conf_file->line;

    return NGX_OK;
}


/* Each word goes to the field of the directive's name. */

char *
ngx_agent_conf_field(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf)
{
    char                   err[POLICY_ERROR_MAX];
    void                  *object;
    ngx_str_t             *value;
    ngx_uint_t             i;
    const policy_field_t  *field;

    object = amcf->rule ? (void *) amcf->rule : amcf->policy;
    field = policy_field_find(amcf->rule ? policy_rule_fields : policy_fields,
                              (char *) cmd->name.data);

    value = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {

        if (policy_field_add(field, object, (char *) value[i].data, err)
            != 0)
        {
            return field->policy_add || field->rule_add
                   ? ngx_agent_conf_refused(cf, cmd, err)
                   : ngx_agent_conf_invalid(cf, cmd, &value[i], err);
        }

        /* beside a credential it is worse: refused when all of it is read */

        if (amcf->rule && ngx_strcmp(value[i].data, "TRACE") == 0) {

            if (ngx_agent_conf_place(cf, amcf, NULL) != NGX_OK) {
                return NGX_CONF_ERROR;
            }

            amcf->rule_trace = amcf->places.nelts;
        }
    }

    return NGX_CONF_OK;
}


char *
ngx_agent_conf_limit(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf)
{
    ngx_str_t   *value;
    const char  *why;

    value = cf->args->elts;

    return limit_parse(cmd->offset, (char *) value[1].data, value[1].len,
                       &amcf->policy->limits[cmd->offset], &why)
           == 0 ? NGX_CONF_OK
                : ngx_agent_conf_invalid(cf, cmd, &value[1], why);
}


/*
 * mount_secrets and network_default have one value each.  They exist so that
 * a reader finds them said, and so that whoever tries the other value is told
 * what to do instead.
 */

char *
ngx_agent_conf_fixed(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf)
{
    ngx_str_t   *value;
    ngx_uint_t   network;
    const char  *never, *instead;

    value = cf->args->elts;
    network = (cmd->name.len == sizeof("network_default") - 1);

    never = network ? "allow" : "on";
    instead = network ? "add a \"host\" for each host a task may call"
                      : "put the token into the vault and name it with "
                        "\"bearer\" in the host that needs it";

    if (ngx_strcmp(value[1].data, never) == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V %s\" is never allowed: %s",
                           &cmd->name, never, instead);
        return NGX_CONF_ERROR;
    }

    if (ngx_strcmp(value[1].data, network ? "deny" : "off") != 0) {
        return ngx_agent_conf_invalid(cf, cmd, &value[1],
                                      network ? "it must be \"deny\""
                                              : "it must be \"off\"");
    }

    return NGX_CONF_OK;
}


char *
ngx_agent_conf_isolation(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf)
{
    ngx_str_t  *value;

    value = cf->args->elts;

    return ngx_strcmp(value[1].data, "namespaces") == 0
           ? NGX_CONF_OK
           : ngx_agent_conf_invalid(cf, cmd, &value[1],
                                    "this build has \"namespaces\"");
}


char *
ngx_agent_conf_writable(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf)
{
    char        err[POLICY_ERROR_MAX];
    uint64_t    bytes;
    ngx_str_t  *value;

    value = cf->args->elts;

    if (limit_parse_bytes((char *) value[2].data, value[2].len, &bytes) != 0) {
        return ngx_agent_conf_invalid(cf, cmd, &value[2],
                                      "it must be a size such as 256m");
    }

    return policy_add_writable(amcf->policy, (char *) value[1].data, bytes,
                               err)
           == 0 ? NGX_CONF_OK : ngx_agent_conf_refused(cf, cmd, err);
}


char *
ngx_agent_conf_bound(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf)
{
    ngx_str_t  *value;

    value = cf->args->elts;

    return ngx_agent_conf_set_bound(cf, cmd, &value[1], cmd->offset,
                                    amcf->policy);
}


/* rate Nr/s [burst=N] */

char *
ngx_agent_conf_rate(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf)
{
    char        why[128];
    uint64_t   *bounds;
    ngx_str_t   wrong, *value;

    value = cf->args->elts;
    bounds = amcf->policy->bounds;

    if (bound_parse_rate((char *) value[1].data,
                         cf->args->nelts == 3 ? (char *) value[2].data : NULL,
                         &bounds[BOUND_RATE], &bounds[BOUND_BURST],
                         (const char **) &wrong.data)
        == 0)
    {
        return NGX_CONF_OK;
    }

    wrong.len = ngx_strlen(wrong.data);

    (void) snprintf(why, sizeof(why),
                    "write \"rate Nr/s burst=N;\" with from 1 to %llu "
                    "requests a second and from 1 to %llu at once",
                    (unsigned long long) bound_table[BOUND_RATE].max,
                    (unsigned long long) bound_table[BOUND_BURST].max);

    return ngx_agent_conf_invalid(cf, cmd, &wrong, why);
}


/* audit_budget LINES BYTES */

char *
ngx_agent_conf_budget(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf)
{
    char       *rv;
    ngx_str_t  *value;

    value = cf->args->elts;

    rv = ngx_agent_conf_set_bound(cf, cmd, &value[1], BOUND_AUDIT_LINES,
                                  amcf->policy);

    return rv != NGX_CONF_OK ? rv
           : ngx_agent_conf_set_bound(cf, cmd, &value[2], BOUND_AUDIT_BYTES,
                                      amcf->policy);
}


static char *
ngx_agent_conf_set_bound(ngx_conf_t *cf, ngx_command_t *cmd, ngx_str_t *value,
    bound_id_t id, policy_t *policy)
{
    char  why[128];

    if (bound_parse(id, (char *) value->data, value->len, &policy->bounds[id])
        == 0)
    {
        return NGX_CONF_OK;
    }

    (void) snprintf(why, sizeof(why),
                    "it must be a number of %s from 1 to %llu",
                    bound_table[id].unit,
                    (unsigned long long) bound_table[id].max);

    return ngx_agent_conf_invalid(cf, cmd, value, why);
}


/* A name that may be set although it means a secret. */

char *
ngx_agent_conf_env_despite(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf)
{
    char         err[POLICY_ERROR_MAX];
    ngx_str_t   *value;
    ngx_uint_t   i;

    value = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {

        if (policy_add_env_despite(amcf->policy, (char *) value[i].data, err)
            != 0
            || policy_add_env(amcf->policy, (char *) value[i].data, err) != 0)
        {
            return ngx_agent_conf_refused(cf, cmd, err);
        }
    }

    return NGX_CONF_OK;
}


/* bearer ENTRY, basic ENTRY, header FIELD ENTRY, query FIELD ENTRY */

char *
ngx_agent_conf_credential(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf)
{
    char                         err[POLICY_ERROR_MAX];
    ngx_str_t                   *value, *entry;
    ngx_agent_credential_use_t  *use;

    value = cf->args->elts;
    entry = &value[cf->args->nelts - 1];

    /* a token that was put in the place of its name is not printed */

    if (!policy_is_name((char *) entry->data)
        || secret_is_in((char *) entry->data, entry->len))
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value in \"%V\" directive, %s: put the "
                           "token into the vault, \"NAME = TOKEN\", and write "
                           "its name here", &cmd->name,
                           policy_is_name((char *) entry->data)
                           ? "which looks like a token"
                           : "which is not the name of an entry (1 to 64 "
                             "letters, digits, \"_\", \".\" and \"-\")");
        return NGX_CONF_ERROR;
    }

    if (amcf->rule->credential) {
        return "is duplicate: a host has one credential";
    }

    if (policy_rule_set_credential(amcf->rule, cmd->offset,
                                   entry == &value[2]
                                   ? (char *) value[1].data : NULL,
                                   (char *) entry->data, err)
        != 0)
    {
        return ngx_agent_conf_refused(cf, cmd, err);
    }

    use = ngx_array_push(&amcf->credentials);
    if (use == NULL) {
        return "cannot allocate";
    }

    use->name = *entry;
    use->kind = cmd->offset;
    use->file = cf->conf_file->file.name;
    use->line = cf->conf_file->line;

    return NGX_CONF_OK;
}


char *
ngx_agent_conf_invalid(ngx_conf_t *cf, ngx_command_t *cmd, ngx_str_t *value,
    const char *why)
{
    u_char  shown[NGX_AGENT_SHOWN_MAX + 1];

    (void) ngx_cpystrn(shown, value->data,
                       ngx_min(value->len, NGX_AGENT_SHOWN_MAX) + 1);
    secret_hide((char *) shown);

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid value \"%s\" in \"%V\" directive: %s",
                       shown, &cmd->name, why);

    return NGX_CONF_ERROR;
}


/* The same with an error that quotes the value. */

static char *
ngx_agent_conf_refused(ngx_conf_t *cf, ngx_command_t *cmd, const char *err)
{
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid value in \"%V\" directive: %s", &cmd->name,
                       err);

    return NGX_CONF_ERROR;
}
