/*
 * A `host` may end in ";" or open a block.  nginx wants to know before it
 * calls a handler which of the two its directive does, so the table has an
 * entry for each, and the one that the next `host` does not need is hidden:
 * each handler of agent_policy looks ahead when it ends.
 */


#include "conf/ngx_agent_conf.h"


#define NGX_AGENT_PEEK_WORDS  8


/* The lookahead: the parser's buffer first, then the file's next bytes. */

typedef struct {
    ngx_conf_t  *cf;
    u_char      *pos;
    u_char      *last;
    off_t        offset;
    int          back;                  /* a byte to be read again, or -1 */

    size_t       len;
    u_char       word[8];               /* the beginning of the last word */
    u_char       text[1024];
} ngx_agent_peek_t;


static void ngx_agent_host_block_entries(void);
static int ngx_agent_host_block_word(ngx_agent_peek_t *peek);
static int ngx_agent_host_block_char(ngx_agent_peek_t *peek);


static ngx_command_t  *ngx_agent_host_entries[2];   /* ";", "{" */


/*
 * Looks at the next directive without reading it: at what the parser has in
 * its buffer, and then in the file, by the parser's own rules for comments,
 * quotes and backslashes.  A "host" shows the entry that fits it.
 */

void
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

    block = 1;

    end = ngx_agent_host_block_word(&peek);

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
