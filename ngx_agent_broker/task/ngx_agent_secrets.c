/*
 * The broker's own keys: the lease key and that of the boxes' authority.  They
 * are in pages of their own, locked into memory and left out of core dumps,
 * and nowhere else: whoever signs opens the authority's key for that moment.
 *
 * The pages are private, not shared: fork() leaves a worker the same ones, and
 * the helper wipes only its copy.
 */


#include "task/ngx_agent_task.h"

#include <sys/mman.h>


ngx_agent_secrets_t *
ngx_agent_secrets_new(void)
{
    ngx_agent_secrets_t  *secrets;

    secrets = mmap(NULL, sizeof(ngx_agent_secrets_t), PROT_READ|PROT_WRITE,
                   MAP_PRIVATE|MAP_ANONYMOUS, -1, 0);

    if (secrets == MAP_FAILED) {
        return NULL;
    }

    ngx_agent_secrets_lock(secrets);

    return secrets;
}


/* A lock is not inherited.  The vault's, which is larger, is required. */

void
ngx_agent_secrets_lock(ngx_agent_secrets_t *secrets)
{
    (void) mlock(secrets, sizeof(ngx_agent_secrets_t));
    (void) madvise(secrets, sizeof(ngx_agent_secrets_t), MADV_DONTDUMP);
}


void
ngx_agent_secrets_free(ngx_agent_secrets_t **secrets)
{
    if (*secrets) {
        ngx_explicit_memzero(*secrets, sizeof(ngx_agent_secrets_t));
        (void) munmap(*secrets, sizeof(ngx_agent_secrets_t));
        *secrets = NULL;
    }
}


ngx_int_t
ngx_agent_secrets_keep(ngx_agent_secrets_t *secrets, EVP_PKEY *key)
{
    u_char       *p, *last;
    size_t        len;
    ngx_uint_t    i;
    OSSL_PARAM   *params, *from, *to;
    const char   *type;

    type = EVP_PKEY_get0_type_name(key);

    if (type == NULL || ngx_strlen(type) >= sizeof(secrets->ca_type)
        || EVP_PKEY_todata(key, EVP_PKEY_KEYPAIR, &params) != 1)
    {
        return NGX_ERROR;
    }

    ngx_memcpy(secrets->ca_type, type, ngx_strlen(type) + 1);

    p = secrets->ca_data;
    last = p + sizeof(secrets->ca_data);

    for (i = 0; params[i].key; i++) {

        from = &params[i];
        to = &secrets->ca_params[i];
        len = ngx_strlen(from->key) + 1;

        if (i + 1 == sizeof(secrets->ca_params) / sizeof(OSSL_PARAM)
            || (size_t) (last - p) < len + from->data_size + 2 * NGX_ALIGNMENT)
        {
            OSSL_PARAM_free(params);
            return NGX_ERROR;
        }

        *to = *from;

        to->key = (char *) p;
        p = ngx_align_ptr(ngx_cpymem(p, from->key, len), NGX_ALIGNMENT);

        if (from->data) {
            to->data = p;
            p = ngx_align_ptr(ngx_cpymem(p, from->data, from->data_size),
                              NGX_ALIGNMENT);
        }
    }

    secrets->ca_params[i] = OSSL_PARAM_construct_end();
    secrets->ca_len = p - secrets->ca_data;

    OSSL_PARAM_free(params);

    return NGX_OK;
}


void
ngx_agent_secrets_take(ngx_agent_secrets_t *secrets,
    const ngx_agent_secrets_t *from)
{
    ngx_uint_t   i;
    OSSL_PARAM  *param;

    ngx_memcpy(secrets->ca_type, from->ca_type, sizeof(secrets->ca_type));
    ngx_memcpy(secrets->ca_params, from->ca_params,
               sizeof(secrets->ca_params));
    ngx_memcpy(secrets->ca_data, from->ca_data, from->ca_len);
    secrets->ca_len = from->ca_len;

    for (i = 0; secrets->ca_params[i].key; i++) {

        param = &secrets->ca_params[i];

        param->key = (char *) secrets->ca_data
                     + ((u_char *) param->key - from->ca_data);

        if (param->data) {
            param->data = secrets->ca_data
                          + ((u_char *) param->data - from->ca_data);
        }
    }
}


EVP_PKEY *
ngx_agent_secrets_open(void *data)
{
    ngx_agent_secrets_t *secrets = data;

    EVP_PKEY      *key;
    EVP_PKEY_CTX  *ctx;

    key = NULL;
    ctx = EVP_PKEY_CTX_new_from_name(NULL, secrets->ca_type, NULL);

    if (ctx == NULL || EVP_PKEY_fromdata_init(ctx) != 1
        || EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_KEYPAIR, secrets->ca_params)
           != 1)
    {
        key = NULL;
    }

    EVP_PKEY_CTX_free(ctx);

    return key;
}
