/*
 * What core writes to error.log of a box's connections: "client sent invalid
 * ...", with the request, the referrer and whatever else a box has made up.
 * Each location of a server with agent_control gets a log of its own, whose
 * writer is between core and the file: it knows the task by the
 * connection, charges the line to the task's `log_bytes`, and leaves it out
 * past these.  Control sequences are escaped as in the audit.
 *
 * Core copies a location's log into that of each connection and request.
 */


#include "conf/ngx_agent_conf.h"


static void ngx_agent_error_log_write(ngx_log_t *log, ngx_uint_t level,
    u_char *buf, size_t len);
static size_t ngx_agent_error_log_escape(u_char *dst, const u_char *src,
    size_t len);


char *
ngx_agent_error_log_merge(ngx_conf_t *cf, void *parent, void *child)
{
    ngx_log_t                 *log, **logs;
    ngx_agent_srv_conf_t      *ascf;
    ngx_agent_main_conf_t     *amcf;
    ngx_http_core_loc_conf_t  *clcf;

    amcf = ngx_http_conf_get_module_main_conf(cf, ngx_agent_broker_module);
    ascf = ngx_http_conf_get_module_srv_conf(cf, ngx_agent_broker_module);
    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (ascf->control.len == 0
        || clcf->error_log->writer == ngx_agent_error_log_write)
    {
        return NGX_CONF_OK;
    }

    if (amcf->logs.elts == NULL
        && ngx_array_init(&amcf->logs, cf->pool, 4, sizeof(ngx_log_t *))
           != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    log = ngx_pcalloc(cf->pool, sizeof(ngx_log_t));
    logs = ngx_array_push(&amcf->logs);

    if (log == NULL || logs == NULL) {
        return NGX_CONF_ERROR;
    }

    log->writer = ngx_agent_error_log_write;
    log->wdata = clcf->error_log;

    *logs = log;
    clcf->error_log = log;

    return NGX_CONF_OK;
}


/* The level of a log that comes after http is known only now. */

void
ngx_agent_error_log_start(ngx_agent_main_conf_t *amcf)
{
    ngx_log_t   *own, **logs;
    ngx_uint_t   i;

    logs = amcf->logs.elts;

    for (i = 0; i < amcf->logs.nelts; i++) {

        own = logs[i]->wdata;

        logs[i]->log_level = own->log_level;
        logs[i]->file = own->file;
    }
}


/* Then as core does with what has no writer. */

static void
ngx_agent_error_log_write(ngx_log_t *log, ngx_uint_t level, u_char *buf,
    size_t len)
{
    u_char               text[4 * NGX_MAX_ERROR_STR];
    ssize_t              n;
    ngx_log_t           *own;
    ngx_agent_task_t    *task;
    ngx_http_log_ctx_t  *ctx;

    ctx = log->data;
    task = (ctx && ctx->connection) ? ngx_agent_task_of(ctx->connection)
                                    : NULL;

    len = ngx_agent_error_log_escape(text, buf,
                                     ngx_min(len, NGX_MAX_ERROR_STR));

    if (task && !ngx_agent_logged(task, len)) {
        return;
    }

    for (own = log->wdata; own; own = own->next) {

        if (own->log_level < level
            && !(log->log_level & NGX_LOG_DEBUG_CONNECTION))
        {
            break;
        }

        if (own->writer) {
            own->writer(own, level, text, len);
            continue;
        }

        if (ngx_time() == own->disk_full_time) {
            continue;
        }

        n = ngx_write_fd(own->file->fd, text, len);

        if (n == -1 && ngx_errno == NGX_ENOSPC) {
            own->disk_full_time = ngx_time();
        }
    }
}


/* All but printable ASCII, and the newline that ends the line. */

static size_t
ngx_agent_error_log_escape(u_char *dst, const u_char *src, size_t len)
{
    size_t   i;
    u_char  *p;

    p = dst;

    for (i = 0; i < len; i++) {

        if ((src[i] >= ' ' && src[i] <= '~')
            || (src[i] == LF && i == len - 1))
        {
            *p++ = src[i];

        } else {
            p = ngx_sprintf(p, "\\x%02XD", (uint32_t) src[i]);
        }
    }

    return p - dst;
}
