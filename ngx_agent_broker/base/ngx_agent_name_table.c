/* Lists of names that are looked up for each header of each request. */


#include "base/ngx_agent_base.h"


static ngx_uint_t ngx_agent_name_table_chain(const u_char *name, size_t len);


void
ngx_agent_name_table_init(ngx_agent_name_table_t *table)
{
    ngx_str_t   *known;
    ngx_uint_t   i, chain;

    ngx_memzero(table->first, sizeof(table->first));

    for (i = 0; table->list[i].len; i++) {

        known = &table->list[i];

        if (known->data[known->len - 1] == '-') {
            table->prefix = known;
            continue;
        }

        chain = ngx_agent_name_table_chain(known->data, known->len);

        table->next[i + 1] = table->first[chain];
        table->first[chain] = (u_char) (i + 1);
    }
}


/* The hash of a name, the same for upper and lower case. */

static ngx_uint_t
ngx_agent_name_table_chain(const u_char *name, size_t len)
{
    return (len + 7 * (name[0] & 0x1f) + 29 * (name[len - 1] & 0x1f))
           & (NGX_AGENT_TABLE_MAX - 1);
}


ngx_str_t *
ngx_agent_name_table_find(ngx_agent_name_table_t *table, const u_char *name,
    size_t len)
{
    ngx_str_t   *known;
    ngx_uint_t   i;

    if (len == 0) {
        return NULL;
    }

    for (i = table->first[ngx_agent_name_table_chain(name, len)];
         i;
         i = table->next[i])
    {
        known = &table->list[i - 1];

        if (known->len == len
            && ngx_strncasecmp((u_char *) name, known->data, len) == 0)
        {
            return known;
        }
    }

    known = table->prefix;

    return known && known->len <= len
           && (name[0] | 0x20) == known->data[0]
           && ngx_strncasecmp((u_char *) name, known->data, known->len) == 0
           ? known : NULL;
}
