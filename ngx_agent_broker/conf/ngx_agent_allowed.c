/*
 * What a server with agent_control and its locations may have, by their own
 * lines or from http: one list, with the values.  Everything else is
 * refused by its name and line: a directive that answers by itself, repeats,
 * copies or rewrites a request would go past the verdict or the audit, and
 * nobody can say of each of nginx's directives, and of those to come, that it
 * does none of this.
 *
 * To see each directive as it is read, the cycle's http modules are exchanged
 * for copies, while http is read, whose commands lead here first.  What other
 * servers hold is forgotten with their end.
 */


#include "conf/ngx_agent_conf.h"


typedef struct {
    ngx_str_t           *args;
    ngx_uint_t           args_count;
    ngx_uint_t           block;             /* that it is in, see below */
    ngx_uint_t           of_http;           /* in http itself */
    ngx_uint_t           is_inherited;
    const char          *file;
    ngx_uint_t           line;
} ngx_agent_seen_t;


struct ngx_agent_allowed_s {
    ngx_module_t       **modules;           /* the cycle's own */
    ngx_uint_t           modules_count;
    ngx_array_t          seen;              /* ngx_agent_seen_t */
    ngx_uint_t           block;             /* being read: 1 and its index in
                                               seen, 0 for http itself */
};


/* Is each word after the directive's name as the row's text says? */
typedef ngx_uint_t (*ngx_agent_allowed_pt)(const ngx_str_t *words,
    ngx_uint_t count, const char *text);

typedef struct {
    const char           *name;
    ngx_agent_allowed_pt  judge;            /* NULL: any value */
    const char           *text;
} ngx_agent_allowed_row_t;


static char *ngx_agent_allowed_see(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static void ngx_agent_allowed_restore(ngx_cycle_t *cycle,
    ngx_agent_allowed_t *allowed);
static ngx_uint_t ngx_agent_allowed_inherits(ngx_agent_seen_t *seen,
    ngx_uint_t count, ngx_uint_t i, const char *name);
static const char *ngx_agent_allowed_missing(ngx_agent_seen_t *seen,
    ngx_uint_t count, ngx_uint_t i);
static const ngx_agent_allowed_row_t *ngx_agent_allowed_find(
    const ngx_str_t *name);
static ngx_uint_t ngx_agent_allowed_words(const ngx_str_t *words,
    ngx_uint_t count, const char *text);
static ngx_uint_t ngx_agent_allowed_number(const ngx_str_t *words,
    ngx_uint_t count, const char *text);
static ngx_uint_t ngx_agent_allowed_size(const ngx_str_t *words,
    ngx_uint_t count, const char *text);
static ngx_uint_t ngx_agent_allowed_time(const ngx_str_t *words,
    ngx_uint_t count, const char *text);
static ngx_uint_t ngx_agent_allowed_buffers(const ngx_str_t *words,
    ngx_uint_t count, const char *text);
static ngx_uint_t ngx_agent_allowed_literal(const ngx_str_t *words,
    ngx_uint_t count, const char *text);
static ngx_uint_t ngx_agent_allowed_prefix(const ngx_str_t *words,
    ngx_uint_t count, const char *text);
static ngx_uint_t ngx_agent_allowed_header(const ngx_str_t *words,
    ngx_uint_t count, const char *text);
static ngx_uint_t ngx_agent_allowed_logged(const ngx_str_t *words,
    ngx_uint_t count, const char *text);
static ngx_uint_t ngx_agent_allowed_format(const ngx_str_t *words,
    ngx_uint_t count, const char *text);


#define WORDS    ngx_agent_allowed_words
#define NUMBER   ngx_agent_allowed_number
#define SIZE     ngx_agent_allowed_size
#define TIME     ngx_agent_allowed_time
#define BUFFERS  ngx_agent_allowed_buffers
#define LITERAL  ngx_agent_allowed_literal
#define PREFIX   ngx_agent_allowed_prefix
#define HEADER   ngx_agent_allowed_header
#define FORMAT   ngx_agent_allowed_format
#define LOGGED   ngx_agent_allowed_logged

static const ngx_agent_allowed_row_t  ngx_agent_allowed_rows[] = {

    /* how a request is sent */

    { "location", PREFIX, "a prefix, without a modifier or with = or ^~" },
    { "proxy_pass", WORDS, "https://agent_broker" },
    { "proxy_http_version", WORDS, "1.1" },
    { "proxy_set_header", HEADER, "Host \"\" or Connection \"\": the module "
                                  "writes both" },
    { "proxy_buffering", WORDS, "off" },
    { "proxy_request_buffering", WORDS, "off" },
    { "proxy_buffer_size", SIZE, "1k 1m" },
    { "proxy_buffers", BUFFERS, "4m" },
    { "proxy_busy_buffers_size", SIZE, "1k 4m" },
    { "proxy_headers_hash_bucket_size", SIZE, "32 64k" },
    { "proxy_headers_hash_max_size", SIZE, "32 64k" },
    { "proxy_hide_header", NULL, NULL },
    { "proxy_ignore_client_abort", WORDS, "on off" },
    { "proxy_ignore_headers", NULL, NULL },     /* judged by what it leaves */
    { "proxy_intercept_errors", WORDS, "off" },
    { "proxy_next_upstream", WORDS, "error timeout off" },
    { "proxy_next_upstream_timeout", TIME, "0 60s" },
    { "proxy_next_upstream_tries", NUMBER, "1 3" },
    { "proxy_pass_trailers", WORDS, "off" },
    { "proxy_redirect", WORDS, "off" },
    { "proxy_socket_keepalive", WORDS, "on off" },
    { "proxy_bind", LITERAL, "an address" },
    { "proxy_connect_timeout", TIME, "1ms 5s" },    /* dialling, all attempts */
    { "proxy_read_timeout", TIME, "1ms 1h" },
    { "proxy_send_timeout", TIME, "1ms 1h" },
    { "resolver", NULL, NULL },
    { "resolver_timeout", TIME, "1ms 60s" },

    /* to whom: verification has no switch */

    { "proxy_ssl_crl", NULL, NULL },
    { "proxy_ssl_name", WORDS, "$agent_host" },
    { "proxy_ssl_protocols", WORDS, "TLSv1.2 TLSv1.3" },
    { "proxy_ssl_server_name", WORDS, "on" },
    { "proxy_ssl_session_reuse", WORDS, "on" },
    { "proxy_ssl_trusted_certificate", NULL, NULL },
    { "proxy_ssl_verify", WORDS, "on" },
    { "proxy_ssl_verify_depth", NUMBER, "1 100" },

    /* what a box may take up */

    { "client_body_buffer_size", SIZE, "1k 1m" },
    { "client_body_timeout", TIME, "1ms 1h" },
    { "client_header_buffer_size", SIZE, "256 64k" },
    { "client_header_timeout", TIME, "1ms 1h" },
    { "client_max_body_size", NULL, NULL },
    { "connection_pool_size", SIZE, "256 64k" },
    { "http2_body_preread_size", SIZE, "0 1m" },
    { "http2_chunk_size", SIZE, "1k 1m" },
    { "http2_max_concurrent_streams", NUMBER, "1 32" },
    { "http2_recv_buffer_size", SIZE, "4k 1m" },
    { "keepalive_requests", NUMBER, "1 100000000" },
    { "keepalive_time", TIME, "1s 24h" },
    { "keepalive_timeout", TIME, "0 1h" },
    { "large_client_header_buffers", BUFFERS, "512k" },
    { "lingering_close", WORDS, "on off always" },
    { "lingering_time", TIME, "0 60s" },
    { "lingering_timeout", TIME, "0 60s" },
    { "request_pool_size", SIZE, "256 64k" },
    { "reset_timedout_connection", WORDS, "on off" },
    { "send_timeout", TIME, "1ms 1h" },
    { "sendfile", WORDS, "on off" },
    { "tcp_nodelay", WORDS, "on off" },
    { "tcp_nopush", WORDS, "on off" },

    /* what is logged of it */

    { "access_log", LOGGED, "off, or a path without a variable and "
                            "if=$agent_logged" },
    { "error_log", LITERAL, "a path without a variable" },
    { "log_format", FORMAT, "one that escapes: not with escape=none" },
    { "log_not_found", WORDS, "on off" },
    { "log_subrequest", WORDS, "on off" },
    { "server_tokens", WORDS, "on off build" },

    /* what changes nothing for it */

    { "default_type", LITERAL, "a type without a variable" },
    { "ignore_invalid_headers", WORDS, "on" },
    { "server_name", LITERAL, "a name without a variable or \"~\"" },
    { "types", NULL, NULL },
    { "types_hash_bucket_size", SIZE, "32 64k" },
    { "types_hash_max_size", SIZE, "32 64k" },
    { "underscores_in_headers", WORDS, "off" },
    { "client_body_temp_path", NULL, NULL },
    { "fastcgi_temp_path", NULL, NULL },
    { "proxy_temp_path", NULL, NULL },
    { "scgi_temp_path", NULL, NULL },
    { "uwsgi_temp_path", NULL, NULL },

    /* of http, for what other servers name */

    { "fastcgi_cache_path", NULL, NULL },
    { "geo", NULL, NULL },
    { "limit_conn_zone", NULL, NULL },
    { "limit_req_zone", NULL, NULL },
    { "map", NULL, NULL },
    { "map_hash_bucket_size", NULL, NULL },
    { "map_hash_max_size", NULL, NULL },
    { "proxy_cache_path", NULL, NULL },
    { "scgi_cache_path", NULL, NULL },
    { "server", NULL, NULL },
    { "server_names_hash_bucket_size", NULL, NULL },
    { "server_names_hash_max_size", NULL, NULL },
    { "split_clients", NULL, NULL },
    { "upstream", NULL, NULL },
    { "uwsgi_cache_path", NULL, NULL },
    { "variables_hash_bucket_size", NULL, NULL },
    { "variables_hash_max_size", NULL, NULL },
};


/*
 * Before http is read.  Of the module's own directives each checks itself
 * where it is read.  If what follows fails, the cycle is dropped, and the
 * copies with it.
 */

ngx_int_t
ngx_agent_allowed_begin(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf)
{
    ngx_uint_t            i, k, n;
    ngx_module_t         *copy, **modules;
    ngx_command_t        *cmd, *commands;
    ngx_agent_allowed_t  *allowed;

    modules = cf->cycle->modules;

    for (n = 0; modules[n]; n++) { /* void */ }

    allowed = ngx_pcalloc(cf->pool, sizeof(ngx_agent_allowed_t));

    if (allowed == NULL
        || ngx_array_init(&allowed->seen, cf->pool, 64,
                          sizeof(ngx_agent_seen_t))
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    allowed->modules_count = n;
    allowed->modules = ngx_pcalloc(cf->pool, (n + 1) * sizeof(void *));

    if (allowed->modules == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(allowed->modules, modules, n * sizeof(void *));

    for (i = 0; i < n; i++) {

        if (modules[i]->type != NGX_HTTP_MODULE
            || modules[i]->commands == NULL
            || modules[i] == &ngx_agent_broker_module)
        {
            continue;
        }

        cmd = modules[i]->commands;

        for (k = 0; cmd[k].name.len; k++) { /* void */ }

        copy = ngx_palloc(cf->pool, sizeof(ngx_module_t));
        commands = ngx_palloc(cf->pool, (k + 1) * sizeof(ngx_command_t));

        if (copy == NULL || commands == NULL) {
            ngx_agent_allowed_restore(cf->cycle, allowed);
            return NGX_ERROR;
        }

        *copy = *modules[i];
        copy->commands = commands;

        ngx_memcpy(commands, cmd, (k + 1) * sizeof(ngx_command_t));

        while (k--) {
            commands[k].set = ngx_agent_allowed_see;
            commands[k].post = &cmd[k];
        }

        modules[i] = copy;
    }

    amcf->allowed = allowed;

    return NGX_OK;
}


static void
ngx_agent_allowed_restore(ngx_cycle_t *cycle, ngx_agent_allowed_t *allowed)
{
    ngx_memcpy(cycle->modules, allowed->modules,
               allowed->modules_count * sizeof(void *));
}


static char *
ngx_agent_allowed_see(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char                   *rv;
    ngx_str_t              *args;
    ngx_uint_t              first, block, servers, of_http;
    ngx_command_t          *own;
    ngx_agent_seen_t       *seen;
    ngx_agent_allowed_t    *allowed;
    ngx_agent_main_conf_t  *amcf;

    own = cmd->post;
    amcf = ngx_http_conf_get_module_main_conf(cf, ngx_agent_broker_module);
    allowed = amcf->allowed;

    if (cf->cmd_type == NGX_HTTP_UPS_CONF) {
        return own->set(cf, own, conf);
    }

    first = allowed->seen.nelts;
    servers = amcf->servers;
    of_http = (cf->cmd_type == NGX_HTTP_MAIN_CONF);

    /* its handler may change the words, and reads others over them */

    args = ngx_palloc(cf->temp_pool, cf->args->nelts * sizeof(ngx_str_t));
    seen = ngx_array_push(&allowed->seen);

    if (args == NULL || seen == NULL) {
        return NGX_CONF_ERROR;
    }

    ngx_memcpy(args, cf->args->elts, cf->args->nelts * sizeof(ngx_str_t));

    seen->args = args;
    seen->args_count = cf->args->nelts;
    seen->block = allowed->block;
    seen->of_http = of_http;
    seen->is_inherited = (own->conf != NGX_HTTP_MAIN_CONF_OFFSET);
    seen->file = (char *) cf->conf_file->file.name.data;
    seen->line = cf->conf_file->line;

    block = allowed->block;
    allowed->block = first + 1;

    rv = own->set(cf, own, conf);

    allowed->block = block;

    /* another server's are none of this module's business */

    if (of_http && amcf->servers == servers
        && ngx_strcmp(own->name.data, "server") == 0)
    {
        allowed->seen.nelts = first;
    }

    return rv;
}


ngx_int_t
ngx_agent_allowed_end(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf)
{
    ngx_uint_t                      i;
    ngx_str_t                      *name;
    const char                     *missing;
    ngx_agent_seen_t               *seen;
    const ngx_agent_allowed_row_t  *row;

    ngx_agent_allowed_restore(cf->cycle, amcf->allowed);

    seen = amcf->allowed->seen.elts;

    for (i = 0; amcf->servers && i < amcf->allowed->seen.nelts; i++) {

        name = &seen[i].args[0];
        row = ngx_agent_allowed_find(name);

        if (row && (row->judge == NULL
                    || row->judge(&seen[i].args[1], seen[i].args_count - 1,
                                  row->text)))
        {
            missing = ngx_strcmp(row->name, "proxy_pass") == 0
                      ? ngx_agent_allowed_missing(seen,
                                            amcf->allowed->seen.nelts, i)
                      : NULL;

            if (missing == NULL) {
                continue;
            }

            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "\"proxy_pass\" in the server with "
                          "\"agent_control\" needs \"%s\" beside it "
                          "in %s:%ui", missing, seen[i].file, seen[i].line);

            return NGX_ERROR;
        }

        if (row) {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "\"%V\" must be %s%s in the server with "
                          "\"agent_control\"%s in %s:%ui", name,
                          row->judge == WORDS ? "one of: "
                          : row->judge == BUFFERS ? "together at most "
                          : row->judge == NUMBER || row->judge == SIZE
                            || row->judge == TIME ? "in the range " : "",
                          row->text,
                          seen[i].of_http ? ", which inherits it from http"
                                          : "",
                          seen[i].file, seen[i].line);

        } else if (!seen[i].of_http) {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "\"%V\" is not allowed in the server with "
                          "\"agent_control\": it only passes on what a policy "
                          "allows; remove it in %s:%ui",
                          name, seen[i].file, seen[i].line);

        } else if (seen[i].is_inherited) {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "\"%V\" of http is inherited by the server with "
                          "\"agent_control\", where it is not allowed: write "
                          "it in the servers that need it in %s:%ui",
                          name, seen[i].file, seen[i].line);

        } else {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "\"%V\" is not allowed in the http of a broker, "
                          "whose workers hold the keys: run it in another "
                          "nginx in %s:%ui",
                          name, seen[i].file, seen[i].line);
        }

        return NGX_ERROR;
    }

    return NGX_OK;
}


/* A directive whose default is not safe, and which the i-th is without. */

static const char *
ngx_agent_allowed_missing(ngx_agent_seen_t *seen, ngx_uint_t count,
    ngx_uint_t i)
{
    /* nginx's default has TLSv1 in it, and in 1.22 no TLSv1.3 */

    if (!ngx_agent_allowed_inherits(seen, count, i, "proxy_ssl_protocols")) {
        return "proxy_ssl_protocols TLSv1.2 TLSv1.3;";
    }

    /* without one a line has all of the request line, for each request */

    if (!ngx_agent_allowed_inherits(seen, count, i, "access_log")) {
        return "access_log logs/access.log agent if=$agent_logged;";
    }

    return NULL;
}


/* Is a directive of this name where the i-th is, or around it? */

static ngx_uint_t
ngx_agent_allowed_inherits(ngx_agent_seen_t *seen, ngx_uint_t count,
    ngx_uint_t i, const char *name)
{
    ngx_uint_t  k, block;

    for (block = seen[i].block; ; block = seen[block - 1].block) {

        for (k = 0; k < count; k++) {
            if (seen[k].block == block
                && ngx_strcmp(seen[k].args[0].data, name) == 0)
            {
                return 1;
            }
        }

        if (block == 0) {
            return 0;
        }
    }
}


static const ngx_agent_allowed_row_t *
ngx_agent_allowed_find(const ngx_str_t *name)
{
    ngx_uint_t                      i;
    const ngx_agent_allowed_row_t  *row;

    for (i = 0;
         i < sizeof(ngx_agent_allowed_rows) / sizeof(ngx_agent_allowed_row_t);
         i++)
    {
        row = &ngx_agent_allowed_rows[i];

        if (ngx_strlen(row->name) == name->len
            && ngx_memcmp(row->name, name->data, name->len) == 0)
        {
            return row;
        }
    }

    return NULL;
}


/* each is in the text, between spaces */

static ngx_uint_t
ngx_agent_allowed_words(const ngx_str_t *words, ngx_uint_t count,
    const char *text)
{
    size_t       n;
    ngx_uint_t   i;
    const char  *p;

    for (i = 0; i < count; i++) {

        for (p = text; *p; p += n, p += (*p == ' ')) {

            n = strcspn(p, " ");

            if (n == words[i].len && ngx_memcmp(p, words[i].data, n) == 0) {
                break;
            }
        }

        if (*p == '\0') {
            return 0;
        }
    }

    return 1;
}


/* each is between the two of the text, read in the same way */

#define ngx_agent_allowed_between(parse)                                      \
                                                                              \
    ngx_str_t   least, most;                                                  \
    ngx_uint_t  i;                                                            \
                                                                              \
    least.data = (u_char *) text;                                             \
    least.len = strcspn(text, " ");                                           \
    most.data = least.data + least.len + 1;                                   \
    most.len = ngx_strlen(most.data);                                         \
                                                                              \
    for (i = 0; i < count; i++) {                                             \
        if (parse(&words[i]) < parse(&least)                                  \
            || parse(&words[i]) > parse(&most))                               \
        {                                                                     \
            return 0;                                                         \
        }                                                                     \
    }                                                                         \
                                                                              \
    return 1

#define ngx_agent_parse_number(word)  ngx_atoi((word)->data, (word)->len)
#define ngx_agent_parse_size(word)    ngx_parse_offset((ngx_str_t *) (word))
#define ngx_agent_parse_time(word)    ngx_parse_time((ngx_str_t *) (word), 0)


static ngx_uint_t
ngx_agent_allowed_number(const ngx_str_t *words, ngx_uint_t count,
    const char *text)
{
    ngx_agent_allowed_between(ngx_agent_parse_number);
}


static ngx_uint_t
ngx_agent_allowed_size(const ngx_str_t *words, ngx_uint_t count,
    const char *text)
{
    ngx_agent_allowed_between(ngx_agent_parse_size);
}


static ngx_uint_t
ngx_agent_allowed_time(const ngx_str_t *words, ngx_uint_t count,
    const char *text)
{
    ngx_agent_allowed_between(ngx_agent_parse_time);
}


/* NUMBER SIZE, whose product is at most the text's */

static ngx_uint_t
ngx_agent_allowed_buffers(const ngx_str_t *words, ngx_uint_t count,
    const char *text)
{
    off_t      size;
    ngx_int_t  n;
    ngx_str_t  most;

    most.data = (u_char *) text;
    most.len = ngx_strlen(text);

    n = ngx_agent_parse_number(&words[0]);
    size = ngx_agent_parse_size(&words[count - 1]);

    return n > 0 && size > 0 && size <= ngx_parse_offset(&most) / n;
}


/* what is evaluated for each request could be what a box chose */

static ngx_uint_t
ngx_agent_allowed_literal(const ngx_str_t *words, ngx_uint_t count,
    const char *text)
{
    return count && words[0].len && words[0].data[0] != '~'
           && ngx_strlchr(words[0].data, words[0].data + words[0].len, '$')
              == NULL;
}


static ngx_uint_t
ngx_agent_allowed_prefix(const ngx_str_t *words, ngx_uint_t count,
    const char *text)
{
    u_char  first;

    first = words[0].len ? words[0].data[0] : '\0';

    return count == 2 ? ngx_agent_allowed_words(words, 1, "= ^~")
                      : first != '~' && first != '@';
}


static ngx_uint_t
ngx_agent_allowed_header(const ngx_str_t *words, ngx_uint_t count,
    const char *text)
{
    return words[count - 1].len == 0
           && ngx_agent_allowed_words(words, 1, "Host Connection");
}


/* what a box makes the broker log is bounded by its task's log_bytes */

static ngx_uint_t
ngx_agent_allowed_logged(const ngx_str_t *words, ngx_uint_t count,
    const char *text)
{
    ngx_uint_t  i;

    if (count == 1 && ngx_agent_allowed_words(words, 1, "off")) {
        return 1;
    }

    for (i = 1; i < count; i++) {
        if (ngx_agent_allowed_words(&words[i], 1, "if=$agent_logged")) {
            return ngx_agent_allowed_literal(words, count, text);
        }
    }

    return 0;
}


static ngx_uint_t
ngx_agent_allowed_format(const ngx_str_t *words, ngx_uint_t count,
    const char *text)
{
    return count < 2 || words[1].len != sizeof("escape=none") - 1
           || ngx_memcmp(words[1].data, "escape=none", words[1].len) != 0;
}
