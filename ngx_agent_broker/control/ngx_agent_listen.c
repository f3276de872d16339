/*
 * agent_control: the socket that launchers connect to, as a listening socket
 * of nginx's own, so that reloads keep it.
 */


#include "control/ngx_agent_launcher.h"


#define NGX_AGENT_LOCK_WAIT  2500           /* ms, for a broker that ends */
#define NGX_AGENT_LOCK_LOOK  10
#define NGX_AGENT_BACKLOG    4096           /* or net.core.somaxconn */


static ngx_int_t ngx_agent_listen_directory(ngx_conf_t *cf,
    ngx_agent_srv_conf_t *ascf);
static ngx_int_t ngx_agent_listen_probe(ngx_conf_t *cf,
    ngx_agent_srv_conf_t *ascf);


char *
ngx_agent_listen_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_agent_srv_conf_t *ascf = conf;

    ngx_str_t                 *value, path;
    struct sockaddr_un         sun;
    ngx_listening_t           *ls;
    ngx_agent_main_conf_t     *amcf;
    ngx_http_core_srv_conf_t  *cscf;

    if (ngx_agent_words_check(cf, cmd) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    value = cf->args->elts;

    if (ascf->control.len) {
        return "is duplicate";
    }

    if (value[1].len < 6 || ngx_strncmp(value[1].data, "unix:", 5) != 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"agent_control\" "
                           "directive: it must be \"unix:PATH\"", &value[1]);
        return NGX_CONF_ERROR;
    }

    /* core would take a relative path from the working directory */

    path.data = value[1].data + 5;
    path.len = value[1].len - 5;

    if (ngx_conf_full_name(cf->cycle, &path, 0) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    if (path.len >= sizeof(sun.sun_path)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "the path \"%V\" in \"agent_control\" directive "
                           "is longer than a socket's may be: %uz bytes, at "
                           "most %uz", &path, path.len,
                           sizeof(sun.sun_path) - 1);
        return NGX_CONF_ERROR;
    }

    /* who puts a socket of their own there hands out policies */

    if (ngx_agent_paths_check(cf, &cmd->name, &path) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    ngx_memzero(&sun, sizeof(struct sockaddr_un));
    sun.sun_family = AF_UNIX;
    (void) ngx_cpystrn((u_char *) sun.sun_path, path.data,
                       sizeof(sun.sun_path));

    ls = ngx_create_listening(cf, (struct sockaddr *) &sun,
                              sizeof(struct sockaddr_un));
    if (ls == NULL) {
        return NGX_CONF_ERROR;
    }

    cscf = ngx_http_conf_get_module_srv_conf(cf, ngx_http_core_module);
    amcf = ngx_http_conf_get_module_main_conf(cf, ngx_agent_broker_module);

    ls->handler = ngx_agent_listen_accepted;
    ls->servers = ascf;
    ls->pool_size = 512;
    ls->logp = &cf->cycle->new_log;
    ls->log.data = &ls->addr_text;
    ls->log.handler = ngx_accept_log_error;
    ls->backlog = NGX_AGENT_BACKLOG;
    ls->rcvbuf = -1;
    ls->sndbuf = -1;

    /*
     * "It has a listener": core adds no port 80 of its own.  Only boxes'
     * doors lead to this server.
     */

    cscf->listen = 1;

    ascf->control = path;
    ascf->core = cscf;
    ascf->file = (char *) cf->conf_file->file.name.data;
    ascf->line = cf->conf_file->line;

    amcf->servers++;

    return NGX_CONF_OK;
}


void
ngx_agent_listen_accepted(ngx_connection_t *c)
{
    ngx_destroy_pool(c->pool);
    ngx_close_connection(c);
}


ngx_uint_t
ngx_agent_listen_is_control(const ngx_listening_t *ls)
{
    return ls->handler == ngx_agent_listen_accepted;
}


/*
 * A master that was killed leaves its socket, and bind() would fail for
 * ever.  One that nobody answers on, and that is a socket of ours, is
 * removed; one that is answered belongs to a running broker.  Only the holder
 * of agent_state removes: who looked before may have looked too early.
 */

ngx_int_t
ngx_agent_listen_check(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf,
    ngx_agent_srv_conf_t *ascf)
{
    ngx_int_t         rc;
    ngx_uint_t        i, waited;
    ngx_cycle_t      *old;
    ngx_listening_t  *ls;

    if (ngx_process == NGX_PROCESS_SIGNALLER) {
        return NGX_OK;
    }

    if (ngx_test_config) {
        return ngx_agent_listen_directory(cf, ascf);
    }

    old = cf->cycle->old_cycle;
    ls = old ? old->listening.elts : NULL;

    for (i = 0; ls && i < old->listening.nelts; i++) {

        if (ls[i].sockaddr->sa_family == AF_UNIX
            && ngx_strcmp(((struct sockaddr_un *) ls[i].sockaddr)->sun_path,
                          ascf->control.data) == 0)
        {
            /* a reload, or a new binary to which it was left: it is ours */
            return NGX_OK;
        }
    }

    if (ngx_agent_listen_directory(cf, ascf) != NGX_OK) {
        return NGX_ERROR;
    }

    for (waited = 0; /* void */ ; waited += NGX_AGENT_LOCK_LOOK) {

        if (ngx_agent_listen_probe(cf, ascf) == NGX_ERROR) {
            return NGX_ERROR;
        }

        rc = ngx_agent_state_lock(cf, amcf);

        if (rc == NGX_OK) {
            break;
        }

        if (rc == NGX_ERROR) {
            return NGX_ERROR;
        }

        if (waited == NGX_AGENT_LOCK_WAIT) {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "another broker is running with \"agent_state\" "
                          "\"%V\": stop it first, or give this one a "
                          "directory of its own", &amcf->state_dir);
            return NGX_ERROR;
        }

        ngx_msleep(NGX_AGENT_LOCK_LOOK);
    }

    rc = ngx_agent_listen_probe(cf, ascf);

    if (rc == NGX_DECLINED) {
        ngx_log_error(NGX_LOG_NOTICE, cf->log, 0,
                      "removing the socket that an earlier broker left: "
                      "\"%V\"", &ascf->control);
        (void) unlink((char *) ascf->control.data);
    }

    return rc == NGX_ERROR ? NGX_ERROR : NGX_OK;
}


/* /run is empty after a boot, and bind() would name no directory. */

static ngx_int_t
ngx_agent_listen_directory(ngx_conf_t *cf, ngx_agent_srv_conf_t *ascf)
{
    char         *slash, dir[PATH_MAX];
    struct stat   st;

    (void) ngx_cpystrn((u_char *) dir, ascf->control.data, sizeof(dir));

    slash = strrchr(dir, '/');

    if (slash == NULL || slash == dir) {
        return NGX_OK;
    }

    *slash = '\0';

    if (stat(dir, &st) == 0 || ngx_errno != NGX_ENOENT) {
        return NGX_OK;                      /* else bind() will tell */
    }

    ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                  "the directory of \"agent_control\" \"%V\" does not exist: "
                  "install -d -m 755 %s in %s:%ui", &ascf->control, dir,
                  ascf->file, ascf->line);

    return NGX_ERROR;
}


/* NGX_OK: bind() will tell; NGX_DECLINED: a dead socket of this user's. */

static ngx_int_t
ngx_agent_listen_probe(ngx_conf_t *cf, ngx_agent_srv_conf_t *ascf)
{
    int                  rc;
    ngx_err_t            err;
    ngx_socket_t         s;
    struct stat          st;
    struct sockaddr_un   sun;

    if (lstat((char *) ascf->control.data, &st) == -1) {
        return NGX_OK;
    }

    if (!S_ISSOCK(st.st_mode)) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"agent_control\" \"%V\" exists and is not a socket in "
                      "%s:%ui", &ascf->control, ascf->file, ascf->line);
        return NGX_ERROR;
    }

    ngx_memzero(&sun, sizeof(struct sockaddr_un));
    sun.sun_family = AF_UNIX;
    (void) ngx_cpystrn((u_char *) sun.sun_path, ascf->control.data,
                       sizeof(sun.sun_path));

    s = socket(AF_UNIX, SOCK_STREAM|SOCK_CLOEXEC|SOCK_NONBLOCK, 0);
    if (s == -1) {
        return NGX_ERROR;
    }

    rc = connect(s, (struct sockaddr *) &sun, sizeof(struct sockaddr_un));
    err = ngx_socket_errno;
    (void) close(s);

    if (rc == 0 || err == NGX_EAGAIN) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "another broker is running on \"agent_control\" "
                      "\"%V\" in %s:%ui", &ascf->control, ascf->file,
                      ascf->line);
        return NGX_ERROR;
    }

    return (err == NGX_ECONNREFUSED && st.st_uid == geteuid()) ? NGX_DECLINED
                                                               : NGX_OK;
}
