/*
 * agent_policy and what stands in it.  Every value is checked where it is
 * read, so that nginx -t names the line; what needs the whole configuration
 * (is the vault entry there?) is remembered with its line and checked at the
 * end.  The policies are built with policy.c, which knows nothing of nginx.
 */


#include "conf/ngx_agent_conf.h"

#include <openssl/pem.h>
#include <openssl/x509.h>


#define NGX_AGENT_PEM_MAX   (1024 * 1024)

/* what is writable where a policy says nothing */
#define NGX_AGENT_WORK_PATH   "/tmp/work"
#define NGX_AGENT_WORK_BYTES  (256 * 1024 * 1024)

/* which directives of the block were seen, beside the limits' own bits */
#define NGX_AGENT_SEEN_FIXED      LIMIT_COUNT
#define NGX_AGENT_SEEN_DENY       (LIMIT_COUNT + 1)
#define NGX_AGENT_SEEN_ISOLATION  (LIMIT_COUNT + 2)
#define NGX_AGENT_SEEN_TRUSTED    (LIMIT_COUNT + 3)
#define NGX_AGENT_SEEN_BOUNDS     (LIMIT_COUNT + 4)

#define NGX_AGENT_SEEN_HINT       1
#define NGX_AGENT_SEEN_CREDENTIAL 2
#define NGX_AGENT_SEEN_CA         3
#define NGX_AGENT_SEEN_SWITCHES   8     /* and a bit for each */


static char *ngx_agent_conf_host_begin(ngx_conf_t *cf,
    ngx_agent_main_conf_t *amcf);
static ngx_int_t ngx_agent_conf_place(ngx_conf_t *cf,
    ngx_agent_main_conf_t *amcf, const void *what);
static void ngx_agent_conf_duplicate(ngx_conf_t *cf,
    ngx_agent_main_conf_t *amcf, const void *first, const char *directive,
    const char *err);
static char *ngx_agent_conf_host_end(ngx_conf_t *cf,
    ngx_agent_main_conf_t *amcf);
static ngx_int_t ngx_agent_conf_set_bound(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_str_t *value, bound_id_t id, policy_t *policy);
static ngx_uint_t ngx_agent_conf_is_seen(ngx_uint_t *mask, ngx_uint_t bit);
static char *ngx_agent_conf_pem(ngx_conf_t *cf, ngx_str_t *file);


char *
ngx_agent_conf_policy(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_agent_main_conf_t *amcf = conf;

    char           *rv, err[POLICY_ERROR_MAX];
    ngx_str_t      *value;
    ngx_uint_t      i;
    ngx_conf_t      save;

    if (ngx_agent_words_check(cf, cmd) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    value = cf->args->elts;

    if (amcf->set == NULL) {
        return "cannot allocate";
    }

    amcf->policy = policy_set_add(amcf->set, (char *) value[1].data, err);

    if (amcf->policy == NULL) {
        ngx_agent_conf_duplicate(cf, amcf,
                        policy_set_find(amcf->set, (char *) value[1].data),
                        "invalid \"agent_policy\"", err);
        return NGX_CONF_ERROR;
    }

    if (ngx_agent_conf_place(cf, amcf, amcf->policy) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    amcf->policy_seen = 0;
    amcf->policy_pem = NULL;

    save = *cf;
    cf->cmd_type = NGX_AGENT_POLICY_CONF;

    ngx_agent_host_block_peek(cf);

    rv = ngx_conf_parse(cf, NULL);

    *cf = save;

    if (rv != NGX_CONF_OK) {
        return rv;
    }

    for (i = 0; i < amcf->policy->rules_count && amcf->policy_pem; i++) {

        if (amcf->policy->rules[i]->trusted_pem == NULL) {
            amcf->policy->rules[i]->trusted_pem = strdup(amcf->policy_pem);

            if (amcf->policy->rules[i]->trusted_pem == NULL) {
                return "cannot allocate";
            }
        }
    }

    free(amcf->policy_pem);
    amcf->policy_pem = NULL;

    for (i = 0; i < amcf->policy->rules_count; i++) {

        if (amcf->policy->rules[i]->tunnel
            && !(amcf->policy_seen
                 & ((ngx_uint_t) 1 << (NGX_AGENT_SEEN_BOUNDS
                                       + BOUND_BYTES_UP))))
        {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "host \"%s\" has \"tunnel on\": "
                               "say how much may go up with \"bytes_up\"",
                               amcf->policy->rules[i]->host);
            return NGX_CONF_ERROR;
        }
    }

    if (amcf->policy->writable_count == 0
        && policy_add_writable(amcf->policy, NGX_AGENT_WORK_PATH,
                               NGX_AGENT_WORK_BYTES, err)
           != 0)
    {
        return "cannot allocate";
    }

    if (policy_check(amcf->policy, err) != 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "policy \"%V\": %s", &value[1], err);
        return NGX_CONF_ERROR;
    }

    amcf->policy = NULL;

    return NGX_CONF_OK;
}


char *
ngx_agent_conf_host(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_agent_main_conf_t *amcf = conf;

    char        *rv;
    ngx_conf_t   save;

    if (ngx_agent_words_check(cf, cmd) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    rv = ngx_agent_conf_host_begin(cf, amcf);
    if (rv != NGX_CONF_OK) {
        return rv;
    }

    if (cmd->type & NGX_CONF_BLOCK) {
        save = *cf;
        cf->cmd_type = NGX_AGENT_HOST_CONF;

        rv = ngx_conf_parse(cf, NULL);

        *cf = save;

        if (rv != NGX_CONF_OK) {
            return rv;
        }
    }

    return ngx_agent_conf_host_end(cf, amcf);
}


static char *
ngx_agent_conf_host_begin(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf)
{
    char        err[POLICY_ERROR_MAX];
    ngx_str_t  *value;

    value = cf->args->elts;

    amcf->rule = policy_add_rule(amcf->policy, (char *) value[1].data, err);

    if (amcf->rule == NULL) {
        ngx_agent_conf_duplicate(cf, amcf, amcf->policy->earlier,
                                 "invalid value in \"host\" directive", err);
        return NGX_CONF_ERROR;
    }

    amcf->rule_seen = 0;

    return ngx_agent_conf_place(cf, amcf, amcf->rule) == NGX_OK ? NGX_CONF_OK
                                                           : NGX_CONF_ERROR;
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


/* Says err; and where the first one is, if it is because of one. */

static void
ngx_agent_conf_duplicate(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf,
    const void *first, const char *directive, const char *err)
{
    ngx_uint_t          i;
    ngx_agent_place_t  *place;

    place = amcf->places.elts;

    for (i = 0; first && i < amcf->places.nelts; i++) {

        if (place[i].what == first) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "%s: %s; the first is in %V:%ui,", directive,
                               err, &place[i].file, place[i].line);
            return;
        }
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "%s: %s", directive, err);
}


static char *
ngx_agent_conf_host_end(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf)
{
    char  err[POLICY_ERROR_MAX];

    if (policy_rule_check(amcf->rule, err) != 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "%s", err);
        return NGX_CONF_ERROR;
    }

    amcf->rule = NULL;

    ngx_agent_host_block_peek(cf);

    return NGX_CONF_OK;
}


char *
ngx_agent_conf_limit(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_agent_main_conf_t *amcf = conf;

    ngx_str_t   *value;
    const char  *err;

    if (ngx_agent_words_check(cf, cmd) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    value = cf->args->elts;

    if (ngx_agent_conf_is_seen(&amcf->policy_seen, cmd->offset)) {
        return "is duplicate";
    }

    if (limit_parse(cmd->offset, (char *) value[1].data, value[1].len,
                    &amcf->policy->limits[cmd->offset], &err)
        != 0)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"%V\" directive: %s",
                           &value[1], &cmd->name, err);
        return NGX_CONF_ERROR;
    }

    ngx_agent_host_block_peek(cf);

    return NGX_CONF_OK;
}


/*
 * mount_secrets and network_default have one value each.  They exist so that
 * a reader finds them said, and so that whoever tries the other value is told
 * what to do instead.
 */

char *
ngx_agent_conf_fixed(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_agent_main_conf_t *amcf = conf;

    ngx_str_t   *value;
    ngx_uint_t   network;
    const char  *only, *never, *instead;

    if (ngx_agent_words_check(cf, cmd) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    value = cf->args->elts;
    network = (cmd->name.len == sizeof("network_default") - 1);

    only = network ? "deny" : "off";
    never = network ? "allow" : "on";
    instead = network ? "add a \"host\" for each host a task may call"
                      : "put the token into the vault and name it with "
                        "\"bearer\" in the host that needs it";

    if (ngx_agent_conf_is_seen(&amcf->policy_seen,
                               network ? NGX_AGENT_SEEN_DENY
                                       : NGX_AGENT_SEEN_FIXED))
    {
        return "is duplicate";
    }

    if (ngx_strcmp(value[1].data, never) == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V %s\" is never allowed: %s",
                           &cmd->name, never, instead);
        return NGX_CONF_ERROR;
    }

    if (ngx_strcmp(value[1].data, only) != 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"%V\" directive: "
                           "it must be \"%s\"", &value[1], &cmd->name, only);
        return NGX_CONF_ERROR;
    }

    ngx_agent_host_block_peek(cf);

    return NGX_CONF_OK;
}


char *
ngx_agent_conf_isolation(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_agent_main_conf_t *amcf = conf;

    ngx_str_t  *value;

    if (ngx_agent_words_check(cf, cmd) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    value = cf->args->elts;

    if (ngx_agent_conf_is_seen(&amcf->policy_seen, NGX_AGENT_SEEN_ISOLATION)) {
        return "is duplicate";
    }

    if (ngx_strcmp(value[1].data, "namespaces") != 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"isolation\" directive: "
                           "this build has \"namespaces\"", &value[1]);
        return NGX_CONF_ERROR;
    }

    ngx_agent_host_block_peek(cf);

    return NGX_CONF_OK;
}


char *
ngx_agent_conf_writable(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_agent_main_conf_t *amcf = conf;

    char        err[POLICY_ERROR_MAX];
    uint64_t    bytes;
    ngx_str_t  *value;

    if (ngx_agent_words_check(cf, cmd) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    value = cf->args->elts;

    if (limit_parse_bytes((char *) value[2].data, value[2].len, &bytes) != 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"writable\" directive: "
                           "it must be a size such as 256m", &value[2]);
        return NGX_CONF_ERROR;
    }

    if (policy_add_writable(amcf->policy, (char *) value[1].data, bytes, err)
        != 0)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value in \"writable\" directive: %s",
                           err);
        return NGX_CONF_ERROR;
    }

    ngx_agent_host_block_peek(cf);

    return NGX_CONF_OK;
}


/* Directives that take a list of words, each checked by policy.c. */

char *
ngx_agent_conf_list(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_agent_main_conf_t *amcf = conf;

    int          rc;
    char         err[POLICY_ERROR_MAX], *text;
    ngx_str_t   *value;
    ngx_uint_t   i;

    if (ngx_agent_words_check(cf, cmd) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    value = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {

        text = (char *) value[i].data;

        switch (cmd->name.data[0]) {

        case 'm': /* methods */
            rc = policy_rule_add_method(amcf->rule, text, err);
            break;

        case 'p': /* private */
            rc = policy_rule_add_range(amcf->rule, text, err);
            break;

        case 'e': /* env */
            rc = policy_add_env(amcf->policy, text, err);
            break;

        case 'r': /* readable */
            rc = policy_add_readable(amcf->policy, text, err);
            break;

        default: /* launchers */
            rc = policy_add_launcher(amcf->policy, text, err);
            break;
        }

        if (rc != 0) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid value in \"%V\" directive: %s",
                               &cmd->name, err);
            return NGX_CONF_ERROR;
        }
    }

    if (cf->cmd_type == NGX_AGENT_POLICY_CONF) {
        ngx_agent_host_block_peek(cf);
    }

    return NGX_CONF_OK;
}


char *
ngx_agent_conf_trusted(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_agent_main_conf_t *amcf = conf;

    char       *pem;
    ngx_str_t  *value;

    if (ngx_agent_words_check(cf, cmd) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    value = cf->args->elts;

    if (amcf->rule ? ngx_agent_conf_is_seen(&amcf->rule_seen, NGX_AGENT_SEEN_CA)
                   : ngx_agent_conf_is_seen(&amcf->policy_seen,
                                            NGX_AGENT_SEEN_TRUSTED))
    {
        return "is duplicate";
    }

    pem = ngx_agent_conf_pem(cf, &value[1]);
    if (pem == NULL) {
        return NGX_CONF_ERROR;
    }

    if (amcf->rule) {
        amcf->rule->trusted_pem = pem;
        return NGX_CONF_OK;
    }

    amcf->policy_pem = pem;

    ngx_agent_host_block_peek(cf);

    return NGX_CONF_OK;
}


/* The file's text, which holds at least one certificate and nothing broken. */

static char *
ngx_agent_conf_pem(ngx_conf_t *cf, ngx_str_t *file)
{
    int          n;
    BIO         *bio;
    char        *text;
    X509        *x509;
    ssize_t      size;
    ngx_fd_t     fd;
    ngx_str_t    name;
    const char  *what;
    ngx_err_t    err;

    static ngx_str_t  directive = ngx_string("trusted_certificate");

    name = *file;

    if (ngx_conf_full_name(cf->cycle, &name, 1) != NGX_OK) {
        return NULL;
    }

    if (ngx_agent_paths_check(cf, &directive, &name) != NGX_OK) {
        return NULL;
    }

    text = malloc(NGX_AGENT_PEM_MAX + 1);
    if (text == NULL) {
        return NULL;
    }

    size = -1;
    err = 0;
    what = "cannot be read";

    fd = open((char *) name.data, O_RDONLY|O_CLOEXEC|O_NONBLOCK);

    if (fd == NGX_INVALID_FILE) {
        err = ngx_errno;

    } else {
        size = read(fd, text, NGX_AGENT_PEM_MAX + 1);
        err = (size < 0) ? ngx_errno : 0;
        (void) close(fd);
    }

    n = 0;

    if (size > NGX_AGENT_PEM_MAX) {
        what = "is larger than 1m";

    } else if (size >= 0) {

        text[size] = '\0';
        what = "holds no certificate that can be read";

        bio = BIO_new_mem_buf(text, (int) size);

        while (bio && (x509 = PEM_read_bio_X509(bio, NULL, NULL, NULL))) {
            X509_free(x509);
            n++;
        }

        /* it ends where there is no more, not where one cannot be read */

        if (n && ERR_GET_REASON(ERR_peek_last_error())
                 != PEM_R_NO_START_LINE)
        {
            what = "holds a certificate that cannot be read";
            n = 0;
        }

        BIO_free(bio);
        ERR_clear_error();
    }

    if (n == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, err,
                           "\"trusted_certificate\" file \"%V\" %s",
                           &name, what);
        free(text);
        return NULL;
    }

    return text;
}


char *
ngx_agent_conf_bearer(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_agent_main_conf_t *amcf = conf;

    ngx_str_t                 *value;
    ngx_agent_credential_use_t  *use;

    if (ngx_agent_words_check(cf, cmd) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    value = cf->args->elts;

    if (ngx_agent_conf_is_seen(&amcf->rule_seen, NGX_AGENT_SEEN_CREDENTIAL)) {
        return "is duplicate: a host has one credential";
    }

    amcf->rule->credential = strdup((char *) value[1].data);
    if (amcf->rule->credential == NULL) {
        return "cannot allocate";
    }

    amcf->rule->credential_kind = CREDENTIAL_BEARER;

    use = ngx_array_push(&amcf->credentials);
    if (use == NULL) {
        return NGX_CONF_ERROR;
    }

    use->name = value[1];
    use->file = cf->conf_file->file.name;
    use->line = cf->conf_file->line;

    return NGX_CONF_OK;
}


/* on | off: the rule's member is at the directive's offset. */

char *
ngx_agent_conf_switch(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_agent_main_conf_t *amcf = conf;

    bool       *on;
    ngx_str_t  *value;

    value = cf->args->elts;

    if (ngx_agent_words_check(cf, cmd) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    if (ngx_agent_conf_is_seen(&amcf->rule_seen,
                               NGX_AGENT_SEEN_SWITCHES + cmd->offset
                               - offsetof(policy_rule_t, plaintext)))
    {
        return "is duplicate";
    }

    on = (bool *) ((char *) amcf->rule + cmd->offset);

    if (ngx_strcmp(value[1].data, "on") == 0) {
        *on = true;
        return NGX_CONF_OK;
    }

    if (ngx_strcmp(value[1].data, "off") == 0) {
        return NGX_CONF_OK;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid value \"%V\" in \"%V\" directive: "
                       "it must be \"on\" or \"off\"", &value[1],
                       &cmd->name);

    return NGX_CONF_ERROR;
}


char *
ngx_agent_conf_bound(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_agent_main_conf_t *amcf = conf;

    ngx_str_t  *value;

    value = cf->args->elts;

    if (ngx_agent_conf_is_seen(&amcf->policy_seen,
                               NGX_AGENT_SEEN_BOUNDS + cmd->offset))
    {
        return "is duplicate";
    }

    if (ngx_agent_conf_set_bound(cf, cmd, &value[1], cmd->offset, amcf->policy)
        != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    ngx_agent_host_block_peek(cf);

    return NGX_CONF_OK;
}


/* audit_budget LINES BYTES */

char *
ngx_agent_conf_budget(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_agent_main_conf_t *amcf = conf;

    ngx_str_t  *value;

    value = cf->args->elts;

    if (ngx_agent_conf_is_seen(&amcf->policy_seen,
                               NGX_AGENT_SEEN_BOUNDS + BOUND_AUDIT_LINES))
    {
        return "is duplicate";
    }

    if (ngx_agent_conf_set_bound(cf, cmd, &value[1], BOUND_AUDIT_LINES,
                                 amcf->policy)
        != NGX_OK
        || ngx_agent_conf_set_bound(cf, cmd, &value[2], BOUND_AUDIT_BYTES,
                                    amcf->policy)
           != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    ngx_agent_host_block_peek(cf);

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_agent_conf_set_bound(ngx_conf_t *cf, ngx_command_t *cmd, ngx_str_t *value,
    bound_id_t id, policy_t *policy)
{
    const bound_t  *bound;

    bound = &bound_table[id];

    if (bound_parse(id, (char *) value->data, value->len, &policy->bounds[id])
        != 0)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"%V\" directive: "
                           "it must be a number of %s from 1 to %uL",
                           value, &cmd->name, bound->unit, bound->max);
        return NGX_ERROR;
    }

    return NGX_OK;
}


char *
ngx_agent_conf_hint(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_agent_main_conf_t *amcf = conf;

    char        err[POLICY_ERROR_MAX];
    ngx_str_t  *value;

    if (ngx_agent_words_check(cf, cmd) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    value = cf->args->elts;

    if (ngx_agent_conf_is_seen(&amcf->rule_seen, NGX_AGENT_SEEN_HINT)) {
        return "is duplicate";
    }

    if (policy_rule_set_hint(amcf->rule, (char *) value[1].data, err) != 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value in \"hint\" directive: %s", err);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static ngx_uint_t
ngx_agent_conf_is_seen(ngx_uint_t *mask, ngx_uint_t bit)
{
    if (*mask & ((ngx_uint_t) 1 << bit)) {
        return 1;
    }

    *mask |= (ngx_uint_t) 1 << bit;

    return 0;
}
