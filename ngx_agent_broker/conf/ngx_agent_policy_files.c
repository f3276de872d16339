/*
 * The directives of a policy that name files of the host: `readable`,
 * `trusted_certificate` and `crl`.
 */


#include "conf/ngx_agent_conf.h"
#include "policy/policy_words.h"

#include <openssl/pem.h>
#include <openssl/x509.h>


#define NGX_AGENT_PEM_MAX   (1024 * 1024)


static char *ngx_agent_policy_files_pem(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_uint_t (*read_one)(ngx_conf_t *cf, BIO *bio, ngx_str_t *file),
    const char *const what[2]);
static ngx_uint_t ngx_agent_policy_files_certificate(ngx_conf_t *cf, BIO *bio,
    ngx_str_t *file);
static ngx_uint_t ngx_agent_policy_files_revoked(ngx_conf_t *cf, BIO *bio,
    ngx_str_t *file);


/*
 * The launcher judges what it finds when a task starts; what is not there now,
 * or is neither a file nor a directory, would stop every one.
 */

char *
ngx_agent_policy_files_readable(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf)
{
    char         *rv, real[PATH_MAX];
    ngx_str_t    *value;
    ngx_uint_t    i;
    const char   *why;
    struct stat   st;

    value = cf->args->elts;

    rv = ngx_agent_conf_field(cf, cmd, amcf);

    for (i = 1; rv == NGX_CONF_OK && ngx_process != NGX_PROCESS_SIGNALLER
                && i < cf->args->nelts; i++)
    {
        if (realpath((char *) value[i].data, real) == NULL
            || stat(real, &st) == -1)
        {
            /* the broker's own may not be there yet, which is worse */

            if (amcf->absent.what == NULL) {
                amcf->absent.what = value[i].data;
                amcf->absent.file = cf->conf_file->file.name;
                amcf->absent.line = cf->conf_file->line;
            }

            continue;
        }

        why = (S_ISDIR(st.st_mode) || S_ISREG(st.st_mode))
              ? policy_readable_refusal(real)
              : "is neither a file nor a directory";

        if (why) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"readable %V\" is \"%s\", which %s",
                               &value[i], real, why);
            return NGX_CONF_ERROR;
        }
    }

    return rv;
}


char *
ngx_agent_policy_files_trusted(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf)
{
    char  **pem;

    static const char *const  what[2] = {
        "holds no certificate that can be read",
        "holds a certificate that cannot be read"
    };

    pem = amcf->rule ? &amcf->rule->trusted_pem : &amcf->policy_pem;

    *pem = ngx_agent_policy_files_pem(cf, cmd,
                                      ngx_agent_policy_files_certificate, what);

    return *pem ? NGX_CONF_OK : NGX_CONF_ERROR;
}


char *
ngx_agent_policy_files_crl(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf)
{
    static const char *const  what[2] = {
        "holds no list of revoked certificates that can be read",
        "holds a list of revoked certificates that cannot be read"
    };

    amcf->rule->crl_pem = ngx_agent_policy_files_pem(cf, cmd,
                                      ngx_agent_policy_files_revoked, what);

    return amcf->rule->crl_pem ? NGX_CONF_OK : NGX_CONF_ERROR;
}


/* The file's text, which holds at least one of them and nothing broken. */

static char *
ngx_agent_policy_files_pem(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_uint_t (*read_one)(ngx_conf_t *cf, BIO *bio, ngx_str_t *file),
    const char *const what[2])
{
    int          n;
    BIO         *bio;
    char        *text;
    ssize_t      size;
    ngx_fd_t     fd;
    ngx_err_t    err;
    ngx_str_t   *value, name;
    const char  *how;

    value = cf->args->elts;
    name = value[1];

    if (ngx_conf_full_name(cf->cycle, &name, 1) != NGX_OK) {
        return NULL;
    }

    if (ngx_agent_paths_check(cf, &cmd->name, &name) != NGX_OK) {
        return NULL;
    }

    text = malloc(NGX_AGENT_PEM_MAX + 1);
    if (text == NULL) {
        return NULL;
    }

    size = -1;
    how = "cannot be read";

    fd = open((char *) name.data, O_RDONLY|O_CLOEXEC|O_NONBLOCK);

    if (fd == NGX_INVALID_FILE) {
        err = ngx_errno;

    } else {
        size = read(fd, text, NGX_AGENT_PEM_MAX + 1);
        err = (size < 0) ? ngx_errno : 0;
        (void) close(fd);
    }

    n = 0;

    if (size > NGX_AGENT_PEM_MAX) {
        how = "is larger than 1m";

    } else if (size >= 0) {

        text[size] = '\0';
        how = what[0];

        bio = BIO_new_mem_buf(text, (int) size);

        while (bio && read_one(cf, bio, &name)) {
            n++;
        }

        /* it ends where there is no more, not where one cannot be read */

        if (n && ERR_GET_REASON(ERR_peek_last_error())
                 != PEM_R_NO_START_LINE)
        {
            how = what[1];
            n = 0;
        }

        BIO_free(bio);
        ERR_clear_error();
    }

    if (n == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, err,
                           "\"%V\" file \"%V\" %s", &cmd->name, &name, how);
        free(text);
        return NULL;
    }

    return text;
}


static ngx_uint_t
ngx_agent_policy_files_certificate(ngx_conf_t *cf, BIO *bio, ngx_str_t *file)
{
    X509  *x509;

    x509 = PEM_read_bio_X509(bio, NULL, NULL, NULL);

    X509_free(x509);

    return x509 != NULL;
}


static ngx_uint_t
ngx_agent_policy_files_revoked(ngx_conf_t *cf, BIO *bio, ngx_str_t *file)
{
    X509_CRL         *crl;
    const ASN1_TIME  *next;

    crl = PEM_read_bio_X509_CRL(bio, NULL, NULL, NULL);

    if (crl == NULL) {
        return 0;
    }

    next = X509_CRL_get0_nextUpdate(crl);

    if (next && X509_cmp_current_time(next) < 0) {
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "\"crl\" file \"%V\" has a list that has expired: "
                           "requests to this host fail until it is renewed",
                           file);
    }

    X509_CRL_free(crl);

    return 1;
}
