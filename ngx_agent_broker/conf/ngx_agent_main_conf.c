/*
 * The configuration as a whole: how it begins and ends, and the directives of
 * http that name a file of the broker's.
 */


#include "conf/ngx_agent_conf.h"
#include "jail/shared/secret.h"


#define NGX_AGENT_ZONE_MAX  ((ssize_t) 1 << 36)


static void ngx_agent_main_conf_free(void *data);


void *
ngx_agent_main_conf_create(ngx_conf_t *cf)
{
    ngx_pool_cleanup_t     *cln;
    ngx_agent_main_conf_t  *amcf;

    amcf = ngx_pcalloc(cf->pool, sizeof(ngx_agent_main_conf_t));
    cln = ngx_pool_cleanup_add(cf->pool, 0);

    if (amcf == NULL || cln == NULL
        || ngx_array_init(&amcf->credentials, cf->pool, 4,
                          sizeof(ngx_agent_credential_use_t))
           != NGX_OK
        || ngx_array_init(&amcf->places, cf->temp_pool, 16,
                          sizeof(ngx_agent_place_t))
           != NGX_OK)
    {
        return NULL;
    }

    cln->handler = ngx_agent_main_conf_free;
    cln->data = amcf;

    amcf->zone_size = 8 * 1024 * 1024;
    amcf->tasks = 1024;
    amcf->control_connections = 64;
    amcf->opens_rate = 50;
    amcf->opens_burst = 100;
    amcf->audit_fd = NGX_INVALID_FILE;
    amcf->state_fd = NGX_INVALID_FILE;
    amcf->secrets = ngx_agent_secrets_new();
    amcf->set = policy_set_new();

    return amcf->set && amcf->secrets ? amcf : NULL;
}


char *
ngx_agent_main_conf_init(ngx_conf_t *cf, void *conf)
{
    ngx_agent_main_conf_t *amcf = conf;

    static ngx_str_t  state = ngx_string("agent_state");

    if (amcf->state_dir.len == 0) {
        ngx_str_set(&amcf->state_dir, "agent-state");

        if (ngx_conf_full_name(cf->cycle, &amcf->state_dir, 0) != NGX_OK
            || (amcf->servers
                && ngx_agent_paths_check(cf, &state, &amcf->state_dir)
                   != NGX_OK))
        {
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


/* agent_zone SIZE; how much it must be is known when all is read */

char *
ngx_agent_main_conf_zone(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf)
{
    ssize_t     size;
    ngx_str_t  *value;

    value = cf->args->elts;

    size = ngx_parse_size(&value[1]);

    if (size < 4096 || size > NGX_AGENT_ZONE_MAX) {
        return ngx_agent_conf_invalid(cf, cmd, &value[1],
                                      "it must be a size such as 8m, from 4k "
                                      "to 65536m");
    }

    amcf->zone_size = size;

    return NGX_CONF_OK;
}


/* agent_tasks N; agent_control_connections N */

char *
ngx_agent_main_conf_count(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf)
{
    ngx_int_t   n;
    ngx_str_t  *value;

    value = cf->args->elts;

    n = ngx_atoi(value[1].data, value[1].len);

    if (n < 1 || n > 65535) {
        return ngx_agent_conf_invalid(cf, cmd, &value[1],
                                      "it must be a number from 1 to 65535");
    }

    *(ngx_int_t *) ((char *) amcf + cmd->offset) = n;

    return NGX_CONF_OK;
}


/* agent_opens Nr/s [burst=N] */

char *
ngx_agent_main_conf_opens(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf)
{
    ngx_str_t   wrong, *value;

    value = cf->args->elts;

    if (bound_parse_rate((char *) value[1].data,
                         cf->args->nelts == 3 ? (char *) value[2].data : NULL,
                         &amcf->opens_rate, &amcf->opens_burst,
                         (const char **) &wrong.data)
        == 0)
    {
        return NGX_CONF_OK;
    }

    wrong.len = ngx_strlen(wrong.data);

    return ngx_agent_conf_invalid(cf, cmd, &wrong,
                                  "it must be \"Nr/s\" or "
                                  "\"Nr/s burst=N\", from 1r/s to 100000r/s, "
                                  "and a burst from 1 to 1000000");
}


/* agent_vault FILE [key=KEYFILE] */

char *
ngx_agent_main_conf_vault(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf)
{
    char        err[VAULT_ERROR_MAX];
    ngx_str_t  *value, *key;

    value = cf->args->elts;
    key = &amcf->vault_key_file;

    amcf->vault_file = value[1];

    if (value[1].len && value[1].data[0] != '/'
        && secret_is_in((char *) value[1].data, value[1].len))
    {
        return ngx_agent_conf_invalid(cf, cmd, &value[1],
                                      "it looks like a token, and must be the "
                                      "name of the file that holds the "
                                      "tokens");
    }

    if (cf->args->nelts == 3) {

        if (value[2].len < 5 || ngx_strncmp(value[2].data, "key=", 4) != 0) {
            return ngx_agent_conf_invalid(cf, cmd, &value[2],
                                          "it must be key=FILE");
        }

        key->data = value[2].data + 4;
        key->len = value[2].len - 4;

        if (key->data[0] != '/' && secret_is_in((char *) key->data, key->len))
        {
            return ngx_agent_conf_invalid(cf, cmd, &value[2],
                                          "it looks like the key itself, and "
                                          "must be the name of its file");
        }

        if (ngx_conf_full_name(cf->cycle, key, 1) != NGX_OK) {
            return NGX_CONF_ERROR;
        }
    }

    if (ngx_conf_full_name(cf->cycle, &amcf->vault_file, 1) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    amcf->vault = vault_load((char *) amcf->vault_file.data,
                             key->len ? (char *) key->data : NULL, geteuid(),
                             err);

    if (amcf->vault == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "%s", err);
        return NGX_CONF_ERROR;
    }

    return ngx_agent_paths_check(cf, &cmd->name, &amcf->vault_file) == NGX_OK
           && (key->len == 0
               || ngx_agent_paths_check(cf, &cmd->name, key) == NGX_OK)
           ? NGX_CONF_OK : NGX_CONF_ERROR;
}


char *
ngx_agent_main_conf_path(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf)
{
    ngx_str_t  *value, *path;

    value = cf->args->elts;

    path = (ngx_str_t *) ((char *) amcf + cmd->offset);
    *path = value[1];

    /* what nginx's own logs take: here it would be a file of that name */

    if (ngx_strcmp(path->data, "off") == 0
        || ngx_strcmp(path->data, "stderr") == 0
        || ngx_strncmp(path->data, "syslog:", 7) == 0
        || ngx_strncmp(path->data, "memory:", 7) == 0)
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" takes a path, and no \"%V\"",
                           &cmd->name, path);
        return NGX_CONF_ERROR;
    }

    if (ngx_conf_full_name(cf->cycle, path, 0) != NGX_OK
        || ngx_agent_paths_check(cf, &cmd->name, path) != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


/* agent_ca auto | CERT KEY */

char *
ngx_agent_main_conf_ca(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf)
{
    ngx_str_t  *value;

    value = cf->args->elts;

    if (cf->args->nelts == 2) {

        if (ngx_strcmp(value[1].data, "auto") == 0) {
            return NGX_CONF_OK;
        }

        return ngx_agent_conf_invalid(cf, cmd, &value[1],
                                      "it must be \"auto\", or a "
                                      "certificate's file and its key's");
    }

    amcf->ca_file = value[1];
    amcf->ca_key_file = value[2];

    if (ngx_conf_full_name(cf->cycle, &amcf->ca_file, 1) != NGX_OK
        || ngx_conf_full_name(cf->cycle, &amcf->ca_key_file, 1) != NGX_OK
        || ngx_agent_paths_check(cf, &cmd->name, &amcf->ca_file) != NGX_OK
        || ngx_agent_paths_check(cf, &cmd->name, &amcf->ca_key_file)
           != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static void
ngx_agent_main_conf_free(void *data)
{
    ngx_agent_main_conf_t *amcf = data;

    if (!amcf->started && !ngx_test_config && ngx_agent_audit_file_is_open()) {
        /* a reload that is refused, from wherever it was */
        ngx_agent_audit_broker_config(NULL, amcf, "refused");
    }

    vault_free(amcf->vault);
    policy_set_free(amcf->set);
    free(amcf->snapshot);
    system_hosts_free(amcf->hosts);
    free(amcf->policy_pem);
    X509_free(amcf->ca_cert);
    EVP_PKEY_free(amcf->ca_key);
    ngx_agent_secrets_free(&amcf->secrets);
}
