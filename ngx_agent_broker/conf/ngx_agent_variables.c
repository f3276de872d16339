/*
 * The variables of a request, as any log_format may name them.
 */


#include "conf/ngx_agent_conf.h"


typedef enum {
    NGX_AGENT_VAR_TASK = 0,
    NGX_AGENT_VAR_POLICY,
    NGX_AGENT_VAR_VERDICT,
    NGX_AGENT_VAR_REASON,
    NGX_AGENT_VAR_RULE,
    NGX_AGENT_VAR_HOST,
    NGX_AGENT_VAR_REQUEST,
    NGX_AGENT_VAR_METHOD,
    NGX_AGENT_VAR_LOGGED
} ngx_agent_variable_e;


#define NGX_AGENT_METHOD_LOGGED  32
#define NGX_AGENT_LINE_LOGGED    512


static size_t ngx_agent_variables_line(ngx_http_request_t *r);
static ngx_int_t ngx_agent_variables_get(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);


#define NGX_AGENT_VARIABLE(name, id)                                          \
    { ngx_string(name), NULL, ngx_agent_variables_get, id,                    \
      NGX_HTTP_VAR_NOCACHEABLE, 0 }


/* For any log_format, and the host for proxy_ssl_name; none is a secret. */

static ngx_http_variable_t  ngx_agent_variables[] = {

    NGX_AGENT_VARIABLE("agent_task", NGX_AGENT_VAR_TASK),
    NGX_AGENT_VARIABLE("agent_policy", NGX_AGENT_VAR_POLICY),
    NGX_AGENT_VARIABLE("agent_verdict", NGX_AGENT_VAR_VERDICT),
    NGX_AGENT_VARIABLE("agent_reason", NGX_AGENT_VAR_REASON),
    NGX_AGENT_VARIABLE("agent_rule", NGX_AGENT_VAR_RULE),
    NGX_AGENT_VARIABLE("agent_host", NGX_AGENT_VAR_HOST),
    NGX_AGENT_VARIABLE("agent_request", NGX_AGENT_VAR_REQUEST),
    NGX_AGENT_VARIABLE("agent_method", NGX_AGENT_VAR_METHOD),

    /* for access_log: "1", or "0" past the task's log_bytes */

    NGX_AGENT_VARIABLE("agent_logged", NGX_AGENT_VAR_LOGGED),

      ngx_http_null_variable
};


ngx_int_t
ngx_agent_variables_add(ngx_conf_t *cf)
{
    ngx_http_variable_t  *var, *v;

    for (v = ngx_agent_variables; v->name.len; v++) {

        var = ngx_http_add_variable(cf, &v->name, v->flags);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = v->get_handler;
        var->data = v->data;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_agent_variables_get(ngx_http_request_t *r, ngx_http_variable_value_t *v,
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
        len = PROTOCOL_ID_LEN;
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

    case NGX_AGENT_VAR_METHOD:
        text = r->main->method_name.data;
        len = ngx_min(r->main->method_name.len, NGX_AGENT_METHOD_LOGGED);

        /* of a request that core has refused before its end */

        text = len ? text : NULL;
        break;

    case NGX_AGENT_VAR_LOGGED:
        text = (task == NULL
                || ngx_agent_logged(task, ngx_agent_variables_line(r->main)))
               ? "1" : "0";
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
    v->len = (len ? len : ngx_strlen(text)) & 0xfffffff;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}


/*
 * What a request's line in access.log may take: what is the same in each, and
 * what the box has sent, of which a log_format may have any part.  The line is
 * made after this.
 */

static size_t
ngx_agent_variables_line(ngx_http_request_t *r)
{
    size_t            size;
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    size = NGX_AGENT_LINE_LOGGED + r->request_line.len;

    for (part = &r->headers_in.headers.part; part; part = part->next) {

        header = part->elts;

        for (i = 0; i < part->nelts; i++) {
            size += header[i].key.len + header[i].value.len;
        }
    }

    return size;
}
