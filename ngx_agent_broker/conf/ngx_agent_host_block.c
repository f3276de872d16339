/*
 * A `host` may end in ";" or open a block.  nginx wants to know before it
 * calls a handler which of the two its directive does, so the table has an
 * entry for each, and the one that the next `host` does not need is hidden:
 * each handler of agent_policy looks ahead when it ends.  So do the others, for
 * a token where a directive's name belongs.
 *
 * A list of hosts that a machine writes is long, and nginx searches the
 * directives of all modules for each line: plain ones are read here.
 */


#include "conf/ngx_agent_conf.h"
#include "jail/shared/secret.h"

#include <ctype.h>


#define NGX_AGENT_PEEK_WORDS  8
#define NGX_AGENT_PLAIN_MAX   300   /* bytes of a name; others are refused */


/* The lookahead: the parser's buffer first, then the file's next bytes. */

typedef struct {
    ngx_conf_t  *cf;
    u_char      *pos;
    u_char      *last;
    off_t        offset;
    int          back;                  /* a byte to be read again, or -1 */
    ngx_uint_t   line;                  /* of the last byte */
    ngx_uint_t   begin;                 /* of the last word */

    size_t       len;
    u_char       word[128];             /* the beginning of the last word */
    u_char       text[1024];
} ngx_agent_peek_t;


static char *ngx_agent_host_block_begin(ngx_conf_t *cf,
    ngx_agent_main_conf_t *amcf, const char *name);
static char *ngx_agent_host_block_end(ngx_conf_t *cf,
    ngx_agent_main_conf_t *amcf);
static ngx_int_t ngx_agent_host_block_effect(ngx_conf_t *cf,
    const policy_rule_t *rule);
static char *ngx_agent_host_block_plain(ngx_conf_t *cf,
    ngx_agent_main_conf_t *amcf);
static char *ngx_agent_host_block_peek(ngx_conf_t *cf);
static void ngx_agent_host_block_entries(void);
static int ngx_agent_host_block_word(ngx_agent_peek_t *peek);
static int ngx_agent_host_block_char(ngx_agent_peek_t *peek);


static ngx_command_t  *ngx_agent_host_entries[2];   /* ";", "{" */


char *
ngx_agent_host_block(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf)
{
    char        *rv;
    ngx_str_t   *value;
    ngx_conf_t   save;

    value = cf->args->elts;

    rv = ngx_agent_host_block_begin(cf, amcf, (char *) value[1].data);

    if (rv == NGX_CONF_OK && (cmd->type & NGX_CONF_BLOCK)) {
        save = *cf;
        cf->cmd_type = NGX_AGENT_HOST_CONF;

        rv = ngx_agent_host_block_next(cf, amcf);

        if (rv == NGX_CONF_OK) {
            rv = ngx_conf_parse(cf, NULL);
        }

        *cf = save;
    }

    return rv == NGX_CONF_OK ? ngx_agent_host_block_end(cf, amcf) : rv;
}


static char *
ngx_agent_host_block_begin(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf,
    const char *name)
{
    char                  err[POLICY_ERROR_MAX];
    const policy_rule_t  *first;

    amcf->rule = policy_add_rule(amcf->policy, name, err);

    if (amcf->rule == NULL) {
        first = amcf->policy->earlier;
        ngx_agent_host_block_duplicate(cf, first ? first->file : NULL,
                                       first ? first->line : 0,
                                       "invalid value in \"host\" directive",
                                       err);
        return NGX_CONF_ERROR;
    }

    amcf->rule_seen = 0;
    amcf->rule_trace = 0;
    amcf->rule->file = (char *) cf->conf_file->file.name.data;
    amcf->rule->line = (uint32_t) cf->conf_file->line;

    return NGX_CONF_OK;
}


static char *
ngx_agent_host_block_end(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf)
{
    char                err[POLICY_ERROR_MAX];
    ngx_agent_place_t  *place;

    if (policy_rule_check(amcf->rule, err) != 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "%s", err);
        return NGX_CONF_ERROR;
    }

    if (ngx_agent_host_block_effect(cf, amcf->rule) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    if (amcf->rule_trace) {
        place = amcf->places.elts;
        place += amcf->rule_trace - 1;

        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "host \"%s\" has the method TRACE, which nginx never "
                      "passes on: remove it in %V:%ui", amcf->rule->name,
                      &place->file, place->line);
        return NGX_CONF_ERROR;
    }

    amcf->rule = NULL;

    return NGX_CONF_OK;
}


/*
 * What does not go together, beside policy_rule_check()'s: an operator who
 * wrote it would believe that it holds.  Only here is it known what the block
 * itself says, before the policy's values are filled in.  `http` URLs of a host
 * with a tunnel are judged as any request, so for these the policy's values are
 * enough.
 */

static ngx_int_t
ngx_agent_host_block_effect(ngx_conf_t *cf, const policy_rule_t *rule)
{
    ngx_uint_t  i;

    static const char  tunnel[] = "\"tunnel\", which passes TLS on unread";
    static const char  plain[] = "\"plaintext\", which uses no TLS";

    const struct {
        const char  *has;
        const char  *name;
        ngx_uint_t   is_vain;
    } rows[] = {
        { tunnel, "methods", rule->tunnel && rule->methods_count },
        { tunnel, "websocket", rule->tunnel && rule->websocket },
        { tunnel, "request_body", rule->tunnel && rule->request_body },
        { tunnel, "reuse_after_body", rule->tunnel && rule->reuse_after_body },
        { tunnel, "trusted_certificate", rule->tunnel && rule->trusted_pem },
        { tunnel, "crl", rule->tunnel && rule->crl_pem },
        { plain, "trusted_certificate", rule->plaintext && rule->trusted_pem },
        { plain, "crl", rule->plaintext && rule->crl_pem },
    };

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {

        if (rows[i].is_vain) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "host \"%s\" has %s: no \"%s\" goes with it",
                               rule->name, rows[i].has, rows[i].name);
            return NGX_ERROR;
        }
    }

    if (rule->idle && !rule->tunnel && !rule->websocket) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "host \"%s\" has \"idle\", which has no effect "
                           "without \"tunnel on\" or \"websocket on\": remove "
                           "it, or add one of them", rule->name);
        return NGX_ERROR;
    }

    if (rule->websocket && !policy_rule_allows_method(rule, "GET", 3)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "host \"%s\" has \"websocket\", which needs the "
                           "method GET: add it to \"methods\"", rule->name);
        return NGX_ERROR;
    }

    return NGX_OK;
}


void
ngx_agent_host_block_duplicate(ngx_conf_t *cf, const char *file,
    ngx_uint_t line, const char *directive, const char *err)
{
    if (file) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "%s: %s; the first is in %s:%ui,", directive, err,
                           file, line);
        return;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "%s: %s", directive, err);
}


char *
ngx_agent_host_block_next(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf)
{
    char  *rv;

    rv = (cf->cmd_type == NGX_AGENT_POLICY_CONF)
         ? ngx_agent_host_block_plain(cf, amcf) : NGX_CONF_OK;

    return rv == NGX_CONF_OK ? ngx_agent_host_block_peek(cf) : rv;
}


/*
 * Reads each "host NAME;" that is next and whole in the parser's buffer, on one
 * line, and of bytes that mean themselves wherever they stand.  The parser
 * reads on behind it: it has all else, and so the one grammar there is.
 */

static char *
ngx_agent_host_block_plain(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf)
{
    char        *rv, name[NGX_AGENT_PLAIN_MAX + 1];
    u_char      *p, *last;
    size_t       n;
    ngx_buf_t   *b;
    ngx_uint_t   line;

    b = cf->conf_file->buffer;
    last = b->last;

    for ( ;; ) {

        line = cf->conf_file->line;

        for (p = b->pos;
             p < last && (*p == ' ' || *p == '\t' || *p == CR || *p == LF);
             p++)
        {
            line += (*p == LF);
        }

        if (last - p < (ssize_t) sizeof("host ") - 1
            || ngx_memcmp(p, "host", 4) != 0 || (p[4] != ' ' && p[4] != '\t'))
        {
            return NGX_CONF_OK;
        }

        for (p += 5; p < last && (*p == ' ' || *p == '\t'); p++) { /* void */ }

        for (n = 0;
             p < last && n < NGX_AGENT_PLAIN_MAX
             && (isalnum(*p) || *p == '.' || *p == '-' || *p == ':'
                 || *p == '*');
             p++)
        {
            name[n++] = (char) *p;
        }

        if (n == 0 || p == last || *p != ';') {
            return NGX_CONF_OK;
        }

        name[n] = '\0';

        b->pos = p + 1;
        cf->conf_file->line = line;

        rv = ngx_agent_host_block_begin(cf, amcf, name);

        if (rv == NGX_CONF_OK) {
            rv = ngx_agent_host_block_end(cf, amcf);
        }

        if (rv != NGX_CONF_OK) {
            return rv;
        }
    }
}


/*
 * Looks at the next directive without reading it: at what the parser has in
 * its buffer, and then in the file, by the parser's own rules for comments,
 * quotes and backslashes.  A "host" shows the entry that fits it.
 *
 * A token where a directive's name belongs is refused here: the parser would
 * print it.
 */

static char *
ngx_agent_host_block_peek(ngx_conf_t *cf)
{
    int               end;
    ngx_uint_t        block, i;
    ngx_agent_peek_t  peek;

    if (ngx_agent_host_entries[0] == NULL) {
        ngx_agent_host_block_entries();
    }

    ngx_memzero(&peek, sizeof(ngx_agent_peek_t));

    peek.cf = cf;
    peek.pos = cf->conf_file->buffer->pos;
    peek.last = cf->conf_file->buffer->last;
    peek.offset = cf->conf_file->file.offset;
    peek.back = -1;
    peek.line = cf->conf_file->line;

    block = 1;

    end = ngx_agent_host_block_word(&peek);

    if (end == 0 && secret_is_in((char *) peek.word, peek.len)) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "what looks like a token is in the place of a "
                      "directive: put it into the vault, \"NAME = TOKEN\", "
                      "and write \"bearer NAME;\" in %s:%ui",
                      cf->conf_file->file.name.data, peek.begin);
        return NGX_CONF_ERROR;
    }

    if (cf->cmd_type != NGX_AGENT_POLICY_CONF) {
        return NGX_CONF_OK;
    }

    if (end == 0 && peek.len == 4 && ngx_memcmp(peek.word, "host", 4) == 0) {

        /* its words, of which more than one are refused later */

        for (i = 0; i < NGX_AGENT_PEEK_WORDS && end == 0; i++) {
            end = ngx_agent_host_block_word(&peek);
        }

        block = (end != ';');
    }

    ngx_agent_host_entries[block]->type |= NGX_AGENT_POLICY_CONF;
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): both were found */
    ngx_agent_host_entries[!block]->type &= ~NGX_AGENT_POLICY_CONF;

    return NGX_CONF_OK;
}


/* 0: a word was read; else what ended the directive, or -1 with the file. */

static int
ngx_agent_host_block_word(ngx_agent_peek_t *peek)
{
    int  c, quote, variable;

    do {
        c = ngx_agent_host_block_char(peek);

        if (c == '#') {
            while (c != LF && c != -1) {
                c = ngx_agent_host_block_char(peek);
            }
        }

    } while (c == ' ' || c == '\t' || c == CR || c == LF);

    if (c == -1 || c == ';' || c == '{' || c == '}') {
        return c;
    }

    quote = (c == '"' || c == '\'') ? c : 0;
    variable = 0;
    peek->len = 0;
    peek->begin = peek->line;

    if (quote) {
        c = ngx_agent_host_block_char(peek);
    }

    for ( ;; ) {

        if (c == -1) {
            return -1;
        }

        if (quote ? c == quote
                  : (c == ' ' || c == '\t' || c == CR || c == LF || c == ';'
                     || (c == '{' && !variable)))
        {
            peek->back = quote ? -1 : c;
            return 0;
        }

        variable = (c == '$');

        if (peek->len < sizeof(peek->word)) {
            peek->word[peek->len++] = (u_char) c;
        }

        if (c == '\\') {
            (void) ngx_agent_host_block_char(peek);
        }

        c = ngx_agent_host_block_char(peek);
    }
}


static int
ngx_agent_host_block_char(ngx_agent_peek_t *peek)
{
    int      c;
    ssize_t  n;

    if (peek->back != -1) {
        c = peek->back;
        peek->back = -1;
        return c;
    }

    if (peek->pos == peek->last) {

        if (peek->cf->conf_file->file.fd == NGX_INVALID_FILE) {
            return -1;
        }

        n = pread(peek->cf->conf_file->file.fd, peek->text,
                  sizeof(peek->text), peek->offset);

        if (n <= 0) {
            return -1;
        }

        peek->offset += n;
        peek->pos = peek->text;
        peek->last = peek->text + n;
    }

    peek->line += (*peek->pos == LF);

    return *peek->pos++;
}


static void
ngx_agent_host_block_entries(void)
{
    ngx_command_t  *c;

    for (c = ngx_agent_broker_module.commands; c->name.len; c++) {

        if (ngx_strcmp(c->name.data, "host") == 0) {
            ngx_agent_host_entries[(c->type & NGX_CONF_BLOCK) ? 1 : 0] = c;
        }
    }
}
