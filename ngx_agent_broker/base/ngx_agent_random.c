/*
 * Random bytes, for identifiers and keys that must not be guessed.
 */


#include "base/ngx_agent_base.h"

#include <openssl/rand.h>


ngx_int_t
ngx_agent_random(u_char *dst, size_t n)
{
    return RAND_bytes(dst, (int) n) == 1 ? NGX_OK : NGX_ERROR;
}
