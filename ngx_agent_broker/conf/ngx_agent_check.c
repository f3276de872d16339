/*
 * What can be checked only when the whole configuration is read: that the
 * credentials are in the vault and the servers with agent_control are safe.
 * And what the system says about names, which is read at the same time.
 */


#include "conf/ngx_agent_conf.h"

#if (NGX_HTTP_V2)
#include <ngx_http_v2_module.h>
#endif

#include <grp.h>


#define NGX_AGENT_SYSTEM_FILE_MAX  (1024 * 1024)
#define NGX_AGENT_STREAMS          32       /* of HTTP/2, a connection */
#define NGX_AGENT_GROUPS_MAX       64


static void ngx_agent_check_binary(ngx_cycle_t *cycle);
static void ngx_agent_check_streams(ngx_http_core_srv_conf_t *cscf);
static ngx_http_conf_addr_t *ngx_agent_check_listen(
    ngx_http_core_main_conf_t *cmcf, ngx_http_core_srv_conf_t *cscf);
static ngx_int_t ngx_agent_check_location(ngx_conf_t *cf,
    ngx_agent_srv_conf_t *ascf, ngx_http_core_loc_conf_t *clcf);
static ngx_uint_t ngx_agent_check_root(ngx_http_location_tree_node_t *node);
static ngx_int_t ngx_agent_check_tree(ngx_conf_t *cf,
    ngx_agent_srv_conf_t *ascf, ngx_http_location_tree_node_t *node);
static ngx_uint_t ngx_agent_check_regex(ngx_agent_srv_conf_t *ascf,
    ngx_http_core_loc_conf_t *clcf);
static char *ngx_agent_check_system_file(ngx_pool_t *pool, const char *path,
    size_t *len);


extern ngx_module_t  ngx_http_proxy_module;
extern ngx_module_t  ngx_http_rewrite_module;


/*
 * "master_process off" is a switch for developing nginx: one process, root's
 * where root starts it, would hold the keys and read hostile bytes.
 */

ngx_int_t
ngx_agent_check_master(ngx_cycle_t *cycle)
{
    ngx_core_conf_t  *ccf;

    ccf = (ngx_core_conf_t *) ngx_get_conf(cycle->conf_ctx, ngx_core_module);

    if (ngx_process == NGX_PROCESS_SIGNALLER || ccf->master != 0) {
        return NGX_OK;
    }

    ngx_log_error(NGX_LOG_EMERG, cycle->log, 0,
                  "\"master_process off\" is never allowed: the process "
                  "that holds the keys would read what boxes send; remove "
                  "it");

    return NGX_ERROR;
}


/*
 * Workers read hostile bytes and must not be root, nor of its group: a hole in
 * one would be one in the host.  A master that is not root has workers that
 * are not.
 */

ngx_int_t
ngx_agent_check_user(ngx_conf_t *cf)
{
    int               n;
    gid_t             groups[NGX_AGENT_GROUPS_MAX];
    ngx_core_conf_t  *ccf;

    ccf = (ngx_core_conf_t *) ngx_get_conf(cf->cycle->conf_ctx,
                                           ngx_core_module);

    if (geteuid() != 0 || ngx_process == NGX_PROCESS_SIGNALLER) {
        return NGX_OK;
    }

    if (ccf->user == 0) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "workers would run as root: give them a user with "
                      "\"user USER;\" at the top of the configuration");
        return NGX_ERROR;
    }

    /* as a worker takes them: its own, and those that list the user */

    n = NGX_AGENT_GROUPS_MAX;

    if (getgrouplist(ccf->username, ccf->group, groups, &n) == -1) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "the workers' user \"%s\" is in more than %d groups: "
                      "give them a user of their own with \"user USER;\"",
                      ccf->username, NGX_AGENT_GROUPS_MAX);
        return NGX_ERROR;
    }

    while (n--) {

        if (groups[n] == 0) {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "workers would run with root's group: name another "
                          "one with \"user %s GROUP;\", and take the user "
                          "out of it in /etc/group", ccf->username);
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


void
ngx_agent_check_process(ngx_cycle_t *cycle, ngx_agent_main_conf_t *amcf)
{
    char             path[PATH_MAX];
    ngx_uint_t       i;
    ngx_listening_t  *ls;

    ls = cycle->listening.elts;

    for (i = 0; i < cycle->listening.nelts; i++) {

        if (!ngx_agent_listen_is_control(&ls[i]) && ls[i].worker == 0) {
            amcf->listens++;

            ngx_log_error(NGX_LOG_WARN, cycle->log, 0,
                          "this nginx listens on \"%V\" too: who finds a hole "
                          "in what it serves there has the broker's keys; "
                          "serve that from an nginx of its own",
                          &ls[i].addr_text);
        }
    }

    if (ngx_test_config) {
        return;
    }

    if (ngx_is_init_cycle(cycle->old_cycle)) {
        ngx_agent_check_binary(cycle);
        return;
    }

    amcf->replaced = ngx_agent_build_is_replaced(path);

    if (amcf->replaced) {
        ngx_log_error(NGX_LOG_WARN, cycle->log, 0,
                      "\"%s\" is not the build of the module that runs: a "
                      "reload does not load it; send USR2 to the master and "
                      "QUIT to the old one, or start nginx anew", path);
    }
}


/*
 * On USR2 core executes argv[0] as a path: of what a shell found in PATH
 * there is none.
 */

static void
ngx_agent_check_binary(ngx_cycle_t *cycle)
{
    char     path[PATH_MAX];
    char    *binary;
    ssize_t  n;

    if (ngx_argv[0][0] == '/') {
        return;
    }

    n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    binary = (n > 0) ? strndup(path, n) : NULL;

    if (binary == NULL) {
        ngx_log_error(NGX_LOG_WARN, cycle->log, ngx_errno,
                      "USR2 will not find the binary \"%s\": start nginx by "
                      "its full path", ngx_argv[0]);
        return;
    }

    ngx_argv[0] = binary;                   /* for as long as it runs */
}


/* Each credential that a host names is in the vault, or its line is named. */

ngx_int_t
ngx_agent_check_credentials(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf)
{
    ngx_uint_t                   i;
    ngx_agent_credential_use_t  *use;

    use = amcf->credentials.elts;

    for (i = 0; i < amcf->credentials.nelts; i++) {

        if (amcf->vault && vault_has(amcf->vault, (char *) use[i].name.data)) {

            if (use[i].kind != CREDENTIAL_BASIC
                || vault_is_pair(amcf->vault, (char *) use[i].name.data))
            {
                continue;
            }

            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "\"%V\" in the vault \"%V\" is not NAME:PASSWORD, "
                          "as \"basic\" needs it (for most tokens "
                          "\"x-access-token:TOKEN\") in %V:%ui",
                          &use[i].name, &amcf->vault_file, &use[i].file,
                          use[i].line);
            return NGX_ERROR;
        }

        if (amcf->vault_file.len) {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "\"%V\" is not in the vault \"%V\": "
                          "add a line \"%V = TOKEN\" to it in %V:%ui",
                          &use[i].name, &amcf->vault_file, &use[i].name,
                          &use[i].file, use[i].line);

        } else {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "\"%s %V\" needs a vault: "
                          "add \"agent_vault FILE;\" to http in %V:%ui",
                          policy_credential_kinds[use[i].kind], &use[i].name,
                          &use[i].file, use[i].line);
        }

        return NGX_ERROR;
    }

    return NGX_OK;
}


/*
 * What only the broker may see is in no box: not where it is, and not through
 * what holds it.  A box of an ordinary user reads what that user may, so the
 * files' modes do not keep it out.
 */

ngx_int_t
ngx_agent_check_readable(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf)
{
    char         own[PATH_MAX], path[PATH_MAX];
    size_t       p, r;
    policy_t    *policy;
    ngx_uint_t   i;

    const struct {
        const char  *directive;
        ngx_str_t   *path;
    } mine[] = {
        { "agent_vault", &amcf->vault_file },
        { "agent_vault", &amcf->vault_key_file },
        { "agent_audit", &amcf->audit_file },
        { "agent_state", &amcf->state_dir },
        { "agent_ca", &amcf->ca_key_file }
    };

    for (i = 0; i < sizeof(mine) / sizeof(mine[0]); i++) {

        /* what is not there yet is where it will be made */

        if (mine[i].path->len == 0
            || ngx_agent_paths_real_path((char *) mine[i].path->data, own)
               != NGX_OK)
        {
            continue;
        }

        for (p = 0; p < amcf->set->policies_count; p++) {
            policy = amcf->set->policies[p];

            for (r = 0; r < policy->readable_count; r++) {

                if (ngx_agent_paths_real_path(policy->readable[r], path)
                    != NGX_OK)
                {
                    continue;
                }

                /* an audit that was moved away is beside it: "FILE.1" */

                if (ngx_agent_paths_is_beneath(path, own)
                    || ngx_agent_paths_is_beneath(own, path)
                    || (mine[i].path == &amcf->audit_file
                        && ngx_strncmp(path, own, ngx_strlen(own)) == 0))
                {
                    ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                                  "\"readable %s\" of policy \"%s\" would "
                                  "show \"%s %V\" to its boxes: name what "
                                  "else they need, or keep that elsewhere",
                                  policy->readable[r], policy->name,
                                  mine[i].directive, mine[i].path);
                    return NGX_ERROR;
                }
            }
        }
    }

    if (amcf->absent.what) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"readable %s\" cannot be found, and no task could "
                      "start: make it, or remove the line, in %V:%ui",
                      amcf->absent.what, &amcf->absent.file,
                      amcf->absent.line);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/*
 * The servers with agent_control: what their locations may not do is found
 * at the start.  ngx_agent_upstream.c checks each request's again.
 */

ngx_int_t
ngx_agent_check_servers(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf)
{
    ngx_uint_t                   s;
    ngx_agent_srv_conf_t        *ascf;
    ngx_http_conf_addr_t        *addr;
    ngx_http_core_loc_conf_t    *clcf, **named;
    ngx_http_core_srv_conf_t   **cscfp;
    ngx_http_core_main_conf_t   *cmcf;

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);
    cscfp = cmcf->servers.elts;

    for (s = 0; s < cmcf->servers.nelts; s++) {

        ascf = cscfp[s]->ctx->srv_conf[ngx_agent_broker_module.ctx_index];

        if (ascf->control.len == 0) {
            continue;
        }

        if (ngx_agent_listen_check(cf, amcf, ascf) != NGX_OK) {
            return NGX_ERROR;
        }

        addr = ngx_agent_check_listen(cmcf, cscfp[s]);

        if (addr) {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "the server with \"agent_control\" has a "
                          "\"listen %V\" too: remove it, only the sockets of "
                          "boxes lead to this server in %s:%ui",
                          &addr->opt.addr_text, ascf->file, ascf->line);
            return NGX_ERROR;
        }

        if (!cscfp[s]->ignore_invalid_headers
            || cscfp[s]->underscores_in_headers)
        {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "the server with \"agent_control\" needs "
                          "\"ignore_invalid_headers on\" and "
                          "\"underscores_in_headers off\" in %s:%ui",
                          ascf->file, ascf->line);
            return NGX_ERROR;
        }

        /*
         * what core would drop unseen is seen by ngx_agent_fields_check(), and
         * refused or dropped there
         */

        cscfp[s]->ignore_invalid_headers = 0;

        if (ngx_agent_tls_init(cf, amcf, ascf) != NGX_OK) {
            return NGX_ERROR;
        }

        ngx_agent_check_streams(cscfp[s]);

        clcf = cscfp[s]->ctx->loc_conf[ngx_http_core_module.ctx_index];

        if (ngx_agent_check_location(cf, ascf, clcf) != NGX_OK) {
            return NGX_ERROR;
        }

        if (!ngx_agent_check_root(clcf->static_locations)) {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "the server with \"agent_control\" has no "
                          "\"location /\": include agent_proxy.conf there "
                          "in %s:%ui", ascf->file, ascf->line);
            return NGX_ERROR;
        }

        for (named = cscfp[s]->named_locations; named && *named; named++) {
            if (ngx_agent_check_location(cf, ascf, *named) != NGX_OK) {
                return NGX_ERROR;
            }
        }
    }

    return NGX_OK;
}


/*
 * Streams beyond this wait in the client, which is told the number; a box has
 * its requests in flight bounded by its policy.
 */

static void
ngx_agent_check_streams(ngx_http_core_srv_conf_t *cscf)
{
#if (NGX_HTTP_V2)
    ngx_http_v2_srv_conf_t  *h2scf;

    h2scf = cscf->ctx->srv_conf[ngx_http_v2_module.ctx_index];

    h2scf->concurrent_streams = ngx_min(h2scf->concurrent_streams,
                                        NGX_AGENT_STREAMS);
#endif
}


/* An address of the host's own that leads to this server, or NULL. */

static ngx_http_conf_addr_t *
ngx_agent_check_listen(ngx_http_core_main_conf_t *cmcf,
    ngx_http_core_srv_conf_t *cscf)
{
    ngx_uint_t                  p, a, s;
    ngx_http_conf_addr_t       *addr;
    ngx_http_conf_port_t       *port;
    ngx_http_core_srv_conf_t  **server;

    port = cmcf->ports ? cmcf->ports->elts : NULL;

    for (p = 0; port && p < cmcf->ports->nelts; p++) {
        addr = port[p].addrs.elts;

        for (a = 0; a < port[p].addrs.nelts; a++) {
            server = addr[a].servers.elts;

            for (s = 0; s < addr[a].servers.nelts; s++) {
                if (server[s] == cscf) {
                    return &addr[a];
                }
            }
        }
    }

    return NULL;
}


/* Is there a `location /`, so that no request is left to nginx's files? */

static ngx_uint_t
ngx_agent_check_root(ngx_http_location_tree_node_t *node)
{
    return node && ((node->len == 1 && node->name[0] == '/' && node->inclusive)
                    || ngx_agent_check_root(node->left)
                    || ngx_agent_check_root(node->right));
}


static ngx_int_t
ngx_agent_check_tree(ngx_conf_t *cf, ngx_agent_srv_conf_t *ascf,
    ngx_http_location_tree_node_t *node)
{
    if (node == NULL) {
        return NGX_OK;
    }

    if ((node->exact
         && ngx_agent_check_location(cf, ascf, node->exact) != NGX_OK)
        || (node->inclusive
            && ngx_agent_check_location(cf, ascf, node->inclusive) != NGX_OK)
        || ngx_agent_check_tree(cf, ascf, node->left) != NGX_OK
        || ngx_agent_check_tree(cf, ascf, node->right) != NGX_OK
        || ngx_agent_check_tree(cf, ascf, node->tree) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return NGX_OK;
}


/*
 * A location, or the server itself, and the locations in it.  What is in
 * `if` and `limit_except` cannot be found here: each request's is checked.
 */

static ngx_int_t
ngx_agent_check_location(ngx_conf_t *cf, ngx_agent_srv_conf_t *ascf,
    ngx_http_core_loc_conf_t *clcf)
{
    const char                 *why;
    ngx_agent_loc_conf_t       *alcf;
    ngx_http_core_loc_conf_t  **regex;

    why = NULL;

    if (clcf->error_pages) {
        why = "error_page must not be set";
    }

    /*
     * A proxy's configuration begins with its upstream part.  The server's own
     * handler is some other directive's, which ngx_agent_allowed.c refuses.
     */

    if (why == NULL && clcf->handler && clcf->name.len) {
        why = ngx_agent_upstream_unsafe(
                          clcf->loc_conf[ngx_http_proxy_module.ctx_index]);
    }

    if (why == NULL && clcf->handler && clcf->client_max_body_size != 0) {
        why = "client_max_body_size must be 0, since \"request_body\" of a "
              "policy or a host bounds bodies";
    }

    if (why == NULL && clcf->handler) {
        ngx_agent_flow_location(clcf,
                          clcf->loc_conf[ngx_http_proxy_module.ctx_index]);
    }

    /* without it nginx would answer with files of this host */

    if (why == NULL && clcf->handler == NULL && clcf->name.len) {
        why = "it has no proxy_pass";
    }

    /* PCRE's limit is 0.4 s of the worker for 7 kB that a box chose */

    if (why == NULL && ngx_agent_check_regex(ascf, clcf)) {
        why = "a regular expression over what a box sends can hold up all "
              "others";
    }

    if (why) {
        if (clcf->name.len) {
            alcf = clcf->loc_conf[ngx_agent_broker_module.ctx_index];

            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "unsafe location \"%V\" of the server with "
                          "\"agent_control\": %s; write it as in the shipped "
                          "agent_proxy.conf in %V:%ui",
                          &clcf->name, why, &alcf->file, alcf->line);

        } else {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "unsafe server with \"agent_control\": %s, nor in "
                          "what it inherits from in %s:%ui",
                          why, ascf->file, ascf->line);
        }

        return NGX_ERROR;
    }

    regex = NULL;

#if (NGX_PCRE)
    regex = clcf->regex_locations;
#endif

    for ( /* void */ ; regex && *regex; regex++) {
        if (ngx_agent_check_location(cf, ascf, *regex) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return ngx_agent_check_tree(cf, ascf, clcf->static_locations);
}


/*
 * Those of `location ~`, and of `if`, `rewrite` and the like: their programs
 * are looked through for the step that matches one.
 */

static ngx_uint_t
ngx_agent_check_regex(ngx_agent_srv_conf_t *ascf,
    ngx_http_core_loc_conf_t *clcf)
{
#if (NGX_PCRE)

    void                      **conf;
    ngx_uint_t                  i;
    ngx_array_t               **codes;      /* rewrite's first member */
    ngx_http_script_code_pt    *code;

    if (clcf->regex) {
        return 1;
    }

    /* the server's own has none of its own */

    conf = clcf->loc_conf ? clcf->loc_conf : ascf->core->ctx->loc_conf;
    codes = conf[ngx_http_rewrite_module.ctx_index];

    if (codes == NULL || *codes == NULL) {
        return 0;
    }

    code = (*codes)->elts;

    for (i = 0; i < (*codes)->nelts * (*codes)->size / sizeof(*code); i++) {

        if (code[i] == ngx_http_script_regex_start_code) {
            return 1;
        }
    }

#endif

    return 0;
}


/*
 * /etc/hosts and the name servers of /etc/resolv.conf, which nginx's own
 * resolver does not read.  A `resolver` of the configuration comes first.
 */

ngx_int_t
ngx_agent_check_system_names(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf)
{
    char        *text;
    size_t       len, i, n;
    address_t    servers[3];
    ngx_str_t    names[3];

    text = ngx_agent_check_system_file(cf->temp_pool, "/etc/hosts", &len);

    if (text) {
        amcf->hosts = system_hosts_parse(text, len);
    }

    text = ngx_agent_check_system_file(cf->temp_pool, "/etc/resolv.conf", &len);

    if (text == NULL) {
        return NGX_OK;
    }

    n = system_nameservers_parse(text, len, servers);

    for (i = 0; i < n; i++) {

        names[i].data = ngx_pnalloc(cf->pool, 64);
        if (names[i].data == NULL) {
            return NGX_ERROR;
        }

        names[i].len = address_text(&servers[i], (char *) names[i].data + 1);

        if (servers[i].v6) {
            names[i].data[0] = '[';
            names[i].data[names[i].len + 1] = ']';
            names[i].len += 2;

        } else {
            names[i].data++;
        }
    }

    if (n == 0) {
        return NGX_OK;
    }

    amcf->resolver = ngx_resolver_create(cf, names, n);

    return amcf->resolver ? NGX_OK : NGX_ERROR;
}


static char *
ngx_agent_check_system_file(ngx_pool_t *pool, const char *path, size_t *len)
{
    char      *text;
    ssize_t    n;
    ngx_fd_t   fd;

    fd = open(path, O_RDONLY|O_CLOEXEC|O_NONBLOCK);
    if (fd == NGX_INVALID_FILE) {
        return NULL;
    }

    text = ngx_pnalloc(pool, NGX_AGENT_SYSTEM_FILE_MAX);
    n = text ? read(fd, text, NGX_AGENT_SYSTEM_FILE_MAX) : -1;

    (void) close(fd);

    if (n < 0) {
        return NULL;
    }

    *len = n;

    return text;
}
