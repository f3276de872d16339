/*
 * ngx_agent_broker: the egress broker for boxes that run agent-written code.
 *
 * Theory of operation.  A launcher connects to agent_control, opens a task
 * of a policy, and hands over sockets that listen inside the box's net
 * namespace.  A worker accepts on them; what it accepts is an ordinary
 * request of the server with agent_control, judged in the preaccess phase by
 * the task's policy, recorded, and passed on by nginx's proxy to addresses
 * that were judged, with the credential attached on the way out.
 *
 * Who does what, and when:
 *
 *   configuration   policies, vault, lease key and audit file are read and
 *                   checked by the process that starts nginx; nginx -t ends
 *                   here
 *   zone set-up     the new policies' text is put into shared memory
 *   init_module     the configuration has started: policies and vault are
 *                   published, for the workers of every generation
 *   worker          undumpable; accepts control connections and doors
 *   exit            the launchers see their connections close, and resume
 *
 * The files are listed in ngx_agent_broker.h.
 */


#include "conf/ngx_agent_conf.h"

#include <sys/prctl.h>


static void *ngx_agent_create_main_conf(ngx_conf_t *cf);
static char *ngx_agent_init_main_conf(ngx_conf_t *cf, void *conf);
static void *ngx_agent_create_srv_conf(ngx_conf_t *cf);
static void *ngx_agent_create_loc_conf(ngx_conf_t *cf);
static ngx_int_t ngx_agent_preconfiguration(ngx_conf_t *cf);
static ngx_int_t ngx_agent_postconfiguration(ngx_conf_t *cf);
static void ngx_agent_main_conf_free(void *data);
static char *ngx_agent_vault_directive(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static char *ngx_agent_path_directive(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static char *ngx_agent_ca_directive(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static ngx_int_t ngx_agent_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_agent_init_module(ngx_cycle_t *cycle);
static ngx_int_t ngx_agent_init_process(ngx_cycle_t *cycle);
static void ngx_agent_exit_process(ngx_cycle_t *cycle);
static void ngx_agent_exit_master(ngx_cycle_t *cycle);


#define NGX_AGENT_LIMIT(name, id)                                             \
    { ngx_string(name),                                                       \
      NGX_AGENT_POLICY_CONF|NGX_CONF_TAKE1,                                   \
      ngx_agent_conf_limit,                                                   \
      NGX_HTTP_MAIN_CONF_OFFSET,                                              \
      id,                                                                     \
      NULL }

#define NGX_AGENT_BOUND(name, id)                                             \
    { ngx_string(name),                                                       \
      NGX_AGENT_POLICY_CONF|NGX_CONF_TAKE1,                                   \
      ngx_agent_conf_bound,                                                   \
      NGX_HTTP_MAIN_CONF_OFFSET,                                              \
      id,                                                                     \
      NULL }

#define NGX_AGENT_SWITCH(name, member)                                        \
    { ngx_string(name),                                                       \
      NGX_AGENT_HOST_CONF|NGX_CONF_TAKE1,                                     \
      ngx_agent_conf_switch,                                                  \
      NGX_HTTP_MAIN_CONF_OFFSET,                                              \
      offsetof(policy_rule_t, member),                                        \
      NULL }

#define NGX_AGENT_DIRECTIVE(name, type, handler)                              \
    { ngx_string(name),                                                       \
      type,                                                                   \
      handler,                                                                \
      NGX_HTTP_MAIN_CONF_OFFSET,                                              \
      0,                                                                      \
      NULL }


static ngx_command_t  ngx_agent_commands[] = {

    NGX_AGENT_DIRECTIVE("agent_vault", NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
                        ngx_agent_vault_directive),

    { ngx_string("agent_audit"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_agent_path_directive,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(ngx_agent_main_conf_t, audit_file),
      NULL },

    { ngx_string("agent_state"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_agent_path_directive,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(ngx_agent_main_conf_t, state_dir),
      NULL },

    { ngx_string("agent_zone"),
      NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_size_slot,
      NGX_HTTP_MAIN_CONF_OFFSET,
      offsetof(ngx_agent_main_conf_t, zone_size),
      NULL },

    NGX_AGENT_DIRECTIVE("agent_ca", NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE12,
                        ngx_agent_ca_directive),

    NGX_AGENT_DIRECTIVE("agent_policy",
                        NGX_HTTP_MAIN_CONF|NGX_CONF_BLOCK|NGX_CONF_TAKE1,
                        ngx_agent_conf_policy),

    { ngx_string("agent_control"),
      NGX_HTTP_SRV_CONF|NGX_CONF_TAKE1,
      ngx_agent_listen_directive,
      NGX_HTTP_SRV_CONF_OFFSET,
      0,
      NULL },

    /* in agent_policy: the box */

    NGX_AGENT_LIMIT("cpu", LIMIT_CPU),
    NGX_AGENT_LIMIT("cpu_time", LIMIT_CPU_TIME),
    NGX_AGENT_LIMIT("memory", LIMIT_MEMORY),
    NGX_AGENT_LIMIT("pids", LIMIT_PIDS),
    NGX_AGENT_LIMIT("open_files", LIMIT_OPEN_FILES),
    NGX_AGENT_LIMIT("wall_clock", LIMIT_WALL_CLOCK),
    NGX_AGENT_LIMIT("output", LIMIT_OUTPUT),
    NGX_AGENT_LIMIT("output_bytes", LIMIT_OUTPUT_BYTES),
    NGX_AGENT_LIMIT("near_limit", LIMIT_NEAR),

    NGX_AGENT_DIRECTIVE("isolation", NGX_AGENT_POLICY_CONF|NGX_CONF_TAKE1,
                        ngx_agent_conf_isolation),
    NGX_AGENT_DIRECTIVE("writable", NGX_AGENT_POLICY_CONF|NGX_CONF_TAKE2,
                        ngx_agent_conf_writable),
    NGX_AGENT_DIRECTIVE("readable", NGX_AGENT_POLICY_CONF|NGX_CONF_1MORE,
                        ngx_agent_conf_list),
    NGX_AGENT_DIRECTIVE("env", NGX_AGENT_POLICY_CONF|NGX_CONF_1MORE,
                        ngx_agent_conf_list),
    NGX_AGENT_DIRECTIVE("launchers", NGX_AGENT_POLICY_CONF|NGX_CONF_1MORE,
                        ngx_agent_conf_list),
    NGX_AGENT_DIRECTIVE("mount_secrets", NGX_AGENT_POLICY_CONF|NGX_CONF_TAKE1,
                        ngx_agent_conf_fixed),
    NGX_AGENT_DIRECTIVE("network_default",
                        NGX_AGENT_POLICY_CONF|NGX_CONF_TAKE1,
                        ngx_agent_conf_fixed),

    /* in agent_policy: what the broker does for it */

    NGX_AGENT_BOUND("connections", BOUND_CONNECTIONS),
    NGX_AGENT_BOUND("requests", BOUND_REQUESTS),
    NGX_AGENT_BOUND("handshakes", BOUND_HANDSHAKES),
    NGX_AGENT_BOUND("mints", BOUND_MINTS),
    NGX_AGENT_BOUND("names", BOUND_NAMES),
    NGX_AGENT_BOUND("refusals", BOUND_REFUSALS),
    NGX_AGENT_BOUND("bytes_up", BOUND_BYTES_UP),
    NGX_AGENT_BOUND("bytes_down", BOUND_BYTES_DOWN),

    NGX_AGENT_DIRECTIVE("audit_budget", NGX_AGENT_POLICY_CONF|NGX_CONF_TAKE2,
                        ngx_agent_conf_budget),

    /* in agent_policy: what it may call; ngx_agent_conf.c says why twice */

    NGX_AGENT_DIRECTIVE("host", NGX_CONF_TAKE1, ngx_agent_conf_host),
    NGX_AGENT_DIRECTIVE("host",
                        NGX_AGENT_POLICY_CONF|NGX_CONF_BLOCK|NGX_CONF_TAKE1,
                        ngx_agent_conf_host),

    /* in host */

    NGX_AGENT_DIRECTIVE("methods", NGX_AGENT_HOST_CONF|NGX_CONF_1MORE,
                        ngx_agent_conf_list),
    NGX_AGENT_DIRECTIVE("private", NGX_AGENT_HOST_CONF|NGX_CONF_1MORE,
                        ngx_agent_conf_list),
    NGX_AGENT_DIRECTIVE("bearer", NGX_AGENT_HOST_CONF|NGX_CONF_TAKE1,
                        ngx_agent_conf_bearer),
    NGX_AGENT_SWITCH("plaintext", plaintext),
    NGX_AGENT_SWITCH("websocket", websocket),
    NGX_AGENT_SWITCH("tunnel", tunnel),
    NGX_AGENT_DIRECTIVE("hint", NGX_AGENT_HOST_CONF|NGX_CONF_TAKE1,
                        ngx_agent_conf_hint),
    NGX_AGENT_DIRECTIVE("trusted_certificate",
                        NGX_AGENT_POLICY_CONF|NGX_AGENT_HOST_CONF
                        |NGX_CONF_TAKE1,
                        ngx_agent_conf_trusted),

      ngx_null_command
};


static ngx_http_module_t  ngx_agent_module_ctx = {
    ngx_agent_preconfiguration,            /* preconfiguration */
    ngx_agent_postconfiguration,           /* postconfiguration */

    ngx_agent_create_main_conf,            /* create main configuration */
    ngx_agent_init_main_conf,              /* init main configuration */

    ngx_agent_create_srv_conf,             /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_agent_create_loc_conf,             /* create location configuration */
    NULL                                   /* merge location configuration */
};


ngx_module_t  ngx_agent_broker_module = {
    NGX_MODULE_V1,
    &ngx_agent_module_ctx,                 /* module context */
    ngx_agent_commands,                    /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    ngx_agent_init_module,                 /* init module */
    ngx_agent_init_process,                /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    ngx_agent_exit_process,                /* exit process */
    ngx_agent_exit_master,                 /* exit master */
    NGX_MODULE_V1_PADDING
};


typedef enum {
    NGX_AGENT_VAR_TASK = 0,
    NGX_AGENT_VAR_POLICY,
    NGX_AGENT_VAR_VERDICT,
    NGX_AGENT_VAR_REASON,
    NGX_AGENT_VAR_RULE,
    NGX_AGENT_VAR_HOST,
    NGX_AGENT_VAR_REQUEST
} ngx_agent_variable_e;


/* For any log_format, and the host for proxy_ssl_name; none is a secret. */

static ngx_http_variable_t  ngx_agent_variables[] = {

    { ngx_string("agent_task"), NULL, ngx_agent_variable,
      NGX_AGENT_VAR_TASK, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("agent_policy"), NULL, ngx_agent_variable,
      NGX_AGENT_VAR_POLICY, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("agent_verdict"), NULL, ngx_agent_variable,
      NGX_AGENT_VAR_VERDICT, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("agent_reason"), NULL, ngx_agent_variable,
      NGX_AGENT_VAR_REASON, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("agent_rule"), NULL, ngx_agent_variable,
      NGX_AGENT_VAR_RULE, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("agent_host"), NULL, ngx_agent_variable,
      NGX_AGENT_VAR_HOST, NGX_HTTP_VAR_NOCACHEABLE, 0 },

    { ngx_string("agent_request"), NULL, ngx_agent_variable,
      NGX_AGENT_VAR_REQUEST, NGX_HTTP_VAR_NOCACHEABLE, 0 },

      ngx_http_null_variable
};


static ngx_int_t
ngx_agent_variable(ngx_http_request_t *r, ngx_http_variable_value_t *v,
    uintptr_t data)
{
    size_t             len;
    const void        *text;
    ngx_agent_ctx_t   *ctx;
    ngx_agent_task_t  *task;

    text = NULL;
    len = 0;

    ctx = ngx_http_get_module_ctx(r->main, ngx_agent_broker_module);
    task = ngx_agent_task_of(r->connection);

    switch (data) {

    case NGX_AGENT_VAR_TASK:
        text = task ? task->id : NULL;
        len = NGX_AGENT_ID_LEN;
        break;

    case NGX_AGENT_VAR_POLICY:
        text = task ? task->policy : NULL;
        break;

    case NGX_AGENT_VAR_VERDICT:
        text = ctx == NULL ? NULL
               : ctx->state == NGX_AGENT_ALLOWED ? "allowed"
               : ctx->state == NGX_AGENT_REFUSED ? "denied" : NULL;
        break;

    case NGX_AGENT_VAR_REASON:
        text = (ctx && ctx->state >= NGX_AGENT_ALLOWED)
               ? ngx_agent_reason(ctx->reason)->word : NULL;
        break;

    case NGX_AGENT_VAR_RULE:
        text = (ctx && ctx->rule) ? ctx->rule->name : NULL;
        break;

    case NGX_AGENT_VAR_HOST:
        text = (ctx && ctx->target.authority.host_len)
               ? ctx->target.authority.host : NULL;
        break;

    default: /* NGX_AGENT_VAR_REQUEST */
        text = (ctx && ctx->request[0]) ? ctx->request : NULL;
        len = sizeof(ctx->request);
        break;
    }

    if (text == NULL) {
        v->not_found = 1;
        return NGX_OK;
    }

    v->data = (u_char *) text;
    v->len = len ? len : ngx_strlen(text);
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}


static ngx_int_t
ngx_agent_preconfiguration(ngx_conf_t *cf)
{
    ngx_http_variable_t    *var, *v;
    ngx_agent_main_conf_t  *amcf;

    for (v = ngx_agent_variables; v->name.len; v++) {

        var = ngx_http_add_variable(cf, &v->name, v->flags);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = v->get_handler;
        var->data = v->data;
    }

    amcf = ngx_http_conf_get_module_main_conf(cf, ngx_agent_broker_module);

    return ngx_agent_upstream_add(cf, amcf);
}


static ngx_int_t
ngx_agent_postconfiguration(ngx_conf_t *cf)
{
    ngx_http_handler_pt        *h;
    ngx_agent_main_conf_t      *amcf;
    ngx_http_core_main_conf_t  *cmcf;

    amcf = ngx_http_conf_get_module_main_conf(cf, ngx_agent_broker_module);
    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

    if (amcf->servers == 0) {

        if (amcf->set->policies_count || amcf->vault) {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "there is no \"agent_control\" in any server: "
                          "nobody could open a task");
            return NGX_ERROR;
        }

        return NGX_OK;
    }

    if (amcf->audit_file.len == 0) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"agent_audit\" is required: add "
                      "\"agent_audit logs/agent-audit.log;\" to http");
        return NGX_ERROR;
    }

    if (ngx_agent_state_signalled(cf, amcf) != NGX_OK
        || ngx_agent_check_master(cf->cycle) != NGX_OK
        || ngx_agent_check_user(cf) != NGX_OK
        || ngx_agent_check_credentials(cf, amcf) != NGX_OK
        || ngx_agent_check_readable(cf, amcf) != NGX_OK
        || ngx_agent_check_servers(cf, amcf) != NGX_OK
        || ngx_agent_check_system_names(cf, amcf) != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (policy_set_complete(amcf->set) != 0
        || policy_set_hash(amcf->set) != 0)
    {
        return NGX_ERROR;
    }

    amcf->set_text = policy_set_dump(amcf->set, &amcf->set_len);
    if (amcf->set_text == NULL) {
        return NGX_ERROR;
    }

    if (ngx_agent_zone_add(cf, amcf) != NGX_OK
        || ngx_agent_audit_shared_add(cf) != NGX_OK
        || ngx_agent_audit_file_open(cf, amcf) != NGX_OK
        || ngx_agent_lease_key(cf, amcf) != NGX_OK
        || (amcf->ca_file.len ? ngx_agent_tls_ca_files(cf, amcf)
                              : ngx_agent_tls_ca_auto(cf, amcf)) != NGX_OK
        || ngx_agent_tls_ca_text(cf, amcf) != NGX_OK
        || ngx_agent_headers_init(cf) != NGX_OK)
    {
        return NGX_ERROR;
    }

    h = ngx_array_push(&cmcf->phases[NGX_HTTP_PREACCESS_PHASE].handlers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    *h = ngx_agent_decide;

    h = ngx_array_push(&cmcf->phases[NGX_HTTP_LOG_PHASE].handlers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    *h = ngx_agent_events_log;

    return NGX_OK;
}


static char *
ngx_agent_vault_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_agent_main_conf_t *amcf = conf;

    char        err[VAULT_ERROR_MAX];
    ngx_str_t  *value;

    if (ngx_agent_words_check(cf, cmd) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    if (amcf->vault_file.len) {
        return "is duplicate";
    }

    value = cf->args->elts;

    amcf->vault_file = value[1];

    if (ngx_conf_full_name(cf->cycle, &amcf->vault_file, 1) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    amcf->vault = vault_load((char *) amcf->vault_file.data, geteuid(), err);

    if (amcf->vault == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "%s", err);
        return NGX_CONF_ERROR;
    }

    return ngx_agent_paths_check(cf, &cmd->name, &amcf->vault_file) == NGX_OK
           ? NGX_CONF_OK : NGX_CONF_ERROR;
}


static char *
ngx_agent_path_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_str_t  *value, *path;

    if (ngx_agent_words_check(cf, cmd) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    path = (ngx_str_t *) ((char *) conf + cmd->offset);

    if (path->len) {
        return "is duplicate";
    }

    value = cf->args->elts;

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

static char *
ngx_agent_ca_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_agent_main_conf_t *amcf = conf;

    ngx_str_t  *value;

    value = cf->args->elts;

    if (amcf->ca_seen) {
        return "is duplicate";
    }

    amcf->ca_seen = 1;

    if (cf->args->nelts == 2) {

        if (ngx_strcmp(value[1].data, "auto") == 0) {
            return NGX_CONF_OK;
        }

        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"agent_ca\" directive: "
                           "it must be \"auto\", or a certificate's file and "
                           "its key's", &value[1]);
        return NGX_CONF_ERROR;
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


static ngx_int_t
ngx_agent_init_module(ngx_cycle_t *cycle)
{
    ngx_agent_main_conf_t  *amcf;

    amcf = ngx_http_cycle_get_module_main_conf(cycle,
                                               ngx_agent_broker_module);

    if (amcf) {
        amcf->started = 1;
    }

    if (amcf == NULL || amcf->servers == 0) {
        return NGX_OK;
    }

    /*
     * Known for certain only now.  Of a reload it changes nothing, and an
     * error here would end the master.
     */

    if ((ngx_test_config || ngx_is_init_cycle(cycle->old_cycle))
        && ngx_agent_check_master(cycle) != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (ngx_test_config) {
        return NGX_OK;
    }

    ngx_agent_zone_publish(cycle, amcf);
    ngx_agent_audit_file_start(amcf, cycle->log);
    ngx_agent_audit_start(cycle);

    ngx_agent_audit_broker_config(cycle, amcf,
                                  ngx_is_init_cycle(cycle->old_cycle)
                                  ? "start" : "reload");

    return NGX_OK;
}


/* Whether this process is a worker, of a configuration with a broker. */

static ngx_uint_t
ngx_agent_is_serving(ngx_cycle_t *cycle)
{
    ngx_agent_main_conf_t  *amcf;

    amcf = ngx_http_cycle_get_module_main_conf(cycle,
                                               ngx_agent_broker_module);

    return amcf != NULL && amcf->servers != 0
           && ngx_process == NGX_PROCESS_WORKER;
}


static ngx_int_t
ngx_agent_init_process(ngx_cycle_t *cycle)
{
    ngx_agent_main_conf_t  *amcf;

    amcf = ngx_http_cycle_get_module_main_conf(cycle,
                                               ngx_agent_broker_module);

    if (amcf) {
        ngx_agent_state_worker(amcf);
    }

    if (!ngx_agent_is_serving(cycle)) {
        return NGX_OK;
    }

    /* core has just made a worker that changed its user dumpable again */

    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == -1) {
        ngx_log_error(NGX_LOG_EMERG, cycle->log, ngx_errno,
                      "prctl(PR_SET_DUMPABLE, 0) failed");
        return NGX_ERROR;
    }

    /*
     * A worker without its master would go on with old policies and hold the
     * socket against the next start.  It leaves as on QUIT: its launchers
     * resume with the new broker.
     */

    if (prctl(PR_SET_PDEATHSIG, SIGQUIT, 0, 0, 0) == -1
        || getppid() != ngx_parent)
    {
        ngx_log_error(NGX_LOG_EMERG, cycle->log, ngx_errno,
                      "the master is gone");
        return NGX_ERROR;
    }

    if (ngx_agent_control_start(cycle) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_agent_audit_shared_serve();
    ngx_agent_audit_broker_worker("start");
    ngx_agent_audit_broker_lost();

    return NGX_OK;
}


static void
ngx_agent_exit_process(ngx_cycle_t *cycle)
{
    if (!ngx_agent_is_serving(cycle)) {
        return;
    }

    ngx_agent_control_stop(cycle);
    ngx_agent_audit_broker_worker("end");
}


static void
ngx_agent_exit_master(ngx_cycle_t *cycle)
{
    ngx_agent_main_conf_t  *amcf;

    amcf = ngx_http_cycle_get_module_main_conf(cycle,
                                               ngx_agent_broker_module);

    if (amcf && amcf->servers) {
        ngx_agent_audit_broker_config(cycle, amcf, "stop");
    }
}


static void *
ngx_agent_create_main_conf(ngx_conf_t *cf)
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

    amcf->zone_size = NGX_CONF_UNSET_SIZE;
    amcf->audit_fd = NGX_INVALID_FILE;
    amcf->state_fd = NGX_INVALID_FILE;
    amcf->set = policy_set_new();

    return amcf->set ? amcf : NULL;
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
    free(amcf->set_text);
    system_hosts_free(amcf->hosts);
    free(amcf->policy_pem);
    X509_free(amcf->ca_cert);
    EVP_PKEY_free(amcf->ca_key);
    ngx_explicit_memzero(amcf->lease_key, sizeof(amcf->lease_key));
}


static char *
ngx_agent_init_main_conf(ngx_conf_t *cf, void *conf)
{
    ngx_agent_main_conf_t *amcf = conf;

    static ngx_str_t  state = ngx_string("agent_state");

    ngx_conf_init_size_value(amcf->zone_size, 8 * 1024 * 1024);

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


static void *
ngx_agent_create_srv_conf(ngx_conf_t *cf)
{
    return ngx_pcalloc(cf->pool, sizeof(ngx_agent_srv_conf_t));
}


/* Called where the block begins: core keeps no place of a location. */

static void *
ngx_agent_create_loc_conf(ngx_conf_t *cf)
{
    ngx_agent_loc_conf_t  *alcf;

    alcf = ngx_pcalloc(cf->pool, sizeof(ngx_agent_loc_conf_t));

    if (alcf && cf->conf_file) {
        alcf->file = cf->conf_file->file.name;
        alcf->line = cf->conf_file->line;
    }

    return alcf;
}
