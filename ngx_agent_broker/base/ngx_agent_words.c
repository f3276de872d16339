/*
 * Checks the words of a directive before they are used as C strings.
 */


#include "base/ngx_agent_base.h"


/*
 * A NUL would end a word early: the broker would enforce something else than
 * the operator reads.
 */

ngx_int_t
ngx_agent_words_check(ngx_conf_t *cf, ngx_command_t *cmd)
{
    ngx_str_t   *value;
    ngx_uint_t   i;

    value = cf->args->elts;

    for (i = 0; i < cf->args->nelts; i++) {

        if (memchr(value[i].data, '\0', value[i].len)) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid value in \"%V\" directive: "
                               "it contains a NUL byte", &cmd->name);
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}
