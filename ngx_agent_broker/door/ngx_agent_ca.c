/*
 * The boxes' authority: made or read when the configuration is, and renewed
 * before it ends.
 *
 * A renewed one has the key and the names of the one before, so that each of
 * them verifies every leaf: a box that was started with the old certificate
 * does not see the change.  So a worker renews it by itself, in memory, and
 * the master writes it with the next start or reload.  A certificate of the
 * operator's own is not renewed: its end is warned of, and past it no task
 * starts.
 */


#include "door/ngx_agent_door.h"

#include <openssl/pem.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>


#define NGX_AGENT_CA_DAY      (24 * 60 * 60)
#define NGX_AGENT_CA_RENEWED  (90 * NGX_AGENT_CA_DAY)   /* left, or less */
#define NGX_AGENT_CA_WARNED   (30 * NGX_AGENT_CA_DAY)


/* What the process that reads or makes the authority gives to the master. */

typedef struct {
    ngx_agent_secrets_t  secrets;
    int                  cert_len;          /* 0: there is none */
    u_char               cert[16384];
} ngx_agent_ca_apart_t;


static ngx_int_t ngx_agent_ca_apart(ngx_conf_t *cf,
    ngx_agent_main_conf_t *amcf);
static void ngx_agent_ca_give(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf,
    ngx_agent_ca_apart_t *apart);
static ngx_int_t ngx_agent_ca_auto(ngx_conf_t *cf,
    ngx_agent_main_conf_t *amcf);
static const char *ngx_agent_ca_read(ngx_agent_main_conf_t *amcf,
    ngx_fd_t fd);
static ngx_int_t ngx_agent_ca_write(ngx_conf_t *cf,
    ngx_agent_main_conf_t *amcf, u_char *path);
static ngx_int_t ngx_agent_ca_files(ngx_conf_t *cf,
    ngx_agent_main_conf_t *amcf);
static ngx_int_t ngx_agent_ca_text(ngx_pool_t *pool,
    ngx_agent_main_conf_t *amcf);
static ngx_int_t ngx_agent_ca_renew(ngx_agent_main_conf_t *amcf,
    ngx_log_t *log);
static void ngx_agent_ca_warn(ngx_agent_main_conf_t *amcf, ngx_log_t *log);


static time_t  ngx_agent_ca_warned;         /* when this process last did */


ngx_int_t
ngx_agent_ca_load(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf)
{
    if (ngx_process == NGX_PROCESS_SIGNALLER) {
        return NGX_OK;
    }

    if (ngx_agent_ca_apart(cf, amcf) != NGX_OK) {
        return NGX_ERROR;
    }

    amcf->ca_pool = cf->pool;

    ngx_agent_ca_warned = 0;
    ngx_agent_ca_warn(amcf, cf->log);

    return ngx_agent_ca_text(cf->pool, amcf);
}


/*
 * What reads a key's file leaves pieces of it in the memory that it frees.  So
 * a process of its own does that, and makes the authority where there is none;
 * it logs what is wrong, and ends.
 */

static ngx_int_t
ngx_agent_ca_apart(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf)
{
    int                    status = 0;
    pid_t                  pid;
    const u_char          *p;
    ngx_agent_ca_apart_t  *apart;

    apart = mmap(NULL, sizeof(ngx_agent_ca_apart_t), PROT_READ|PROT_WRITE,
                 MAP_SHARED|MAP_ANONYMOUS, -1, 0);

    if (apart == MAP_FAILED) {
        return NGX_ERROR;
    }

    (void) mlock(apart, sizeof(ngx_agent_ca_apart_t));
    (void) madvise(apart, sizeof(ngx_agent_ca_apart_t), MADV_DONTDUMP);

    pid = fork();

    if (pid == 0) {
        (void) prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        ngx_agent_ca_give(cf, amcf, apart);
        _exit(0);
    }

    if (pid == -1) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, ngx_errno, "fork() failed");

    } else {
        while (waitpid(pid, &status, 0) == -1 && ngx_errno == NGX_EINTR) {
            /* void */
        }

        if (WIFSIGNALED(status)) {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "the process that reads the boxes' authority was "
                          "ended by signal %d", WTERMSIG(status));
        }
    }

    if (apart->cert_len) {
        p = apart->cert;
        amcf->ca_cert = d2i_X509(NULL, &p, apart->cert_len);
        ngx_agent_secrets_take(amcf->secrets, &apart->secrets);
    }

    ngx_explicit_memzero(apart, sizeof(ngx_agent_ca_apart_t));
    (void) munmap(apart, sizeof(ngx_agent_ca_apart_t));

    return amcf->ca_cert ? NGX_OK : NGX_ERROR;
}


static void
ngx_agent_ca_give(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf,
    ngx_agent_ca_apart_t *apart)
{
    int      n;
    u_char  *p;

    if ((amcf->ca_file.len ? ngx_agent_ca_files(cf, amcf)
                           : ngx_agent_ca_auto(cf, amcf))
        != NGX_OK)
    {
        return;
    }

    n = i2d_X509(amcf->ca_cert, NULL);

    if (n <= 0 || n > (int) sizeof(apart->cert)
        || ngx_agent_secrets_keep(&apart->secrets, amcf->ca_key) != NGX_OK)
    {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "the boxes' authority cannot be used: its key or "
                      "certificate is too large");
        return;
    }

    p = apart->cert;
    apart->cert_len = i2d_X509(amcf->ca_cert, &p);
}


ngx_int_t
ngx_agent_ca_ready(ngx_agent_main_conf_t *amcf, ngx_log_t *log)
{
    int64_t  left;

    left = mint_left(amcf->ca_cert);

    if (left > NGX_AGENT_CA_RENEWED) {
        return NGX_OK;
    }

    if (amcf->ca_file.len == 0
        && ngx_agent_ca_renew(amcf, log) == NGX_OK
        && ngx_agent_ca_text(amcf->ca_pool, amcf) == NGX_OK)
    {
        return NGX_OK;
    }

    ngx_agent_ca_warn(amcf, log);

    return left > 0 ? NGX_OK : NGX_DECLINED;
}


/* Once a day and process: its end is near, or past. */

static void
ngx_agent_ca_warn(ngx_agent_main_conf_t *amcf, ngx_log_t *log)
{
    int64_t  left;

    left = mint_left(amcf->ca_cert);

    if (left > NGX_AGENT_CA_WARNED
        || (ngx_agent_ca_warned
            && ngx_time() - ngx_agent_ca_warned < NGX_AGENT_CA_DAY
            && left > 0))
    {
        return;
    }

    if (left > 0) {
        ngx_log_error(NGX_LOG_WARN, log, 0,
                      "the boxes' authority \"%V\" ends in %L days: no task "
                      "can start after that; replace certificate and key and "
                      "reload", &amcf->ca_file, left / NGX_AGENT_CA_DAY);

    } else {
        ngx_log_error(NGX_LOG_ERR, log, 0,
                      "the boxes' authority \"%V\" has ended, and no task "
                      "can start: replace certificate and key and reload",
                      &amcf->ca_file);
    }

    ngx_agent_ca_warned = ngx_time();
}


/* The same key and names, a new time; the certificate is another object. */

static ngx_int_t
ngx_agent_ca_renew(ngx_agent_main_conf_t *amcf, ngx_log_t *log)
{
    X509      *renewed;
    EVP_PKEY  *key;

    key = amcf->ca_key ? NULL : ngx_agent_secrets_open(amcf->secrets);

    renewed = mint_renewed(amcf->ca_cert, key ? key : amcf->ca_key);

    EVP_PKEY_free(key);

    if (renewed == NULL) {
        ngx_ssl_error(NGX_LOG_ERR, log, 0,
                      "the boxes' authority cannot be renewed");
        return NGX_ERROR;
    }

    ngx_log_error(NGX_LOG_NOTICE, log, 0,
                  "the boxes' authority is renewed, with the key it has");

    X509_free(amcf->ca_cert);
    amcf->ca_cert = renewed;

    return NGX_OK;
}


/*
 * agent_ca auto: ca.pem in agent_state has key and certificate in one file, so
 * that they always match.
 */

static ngx_int_t
ngx_agent_ca_auto(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf)
{
    u_char      *path;
    ngx_fd_t     fd;
    const char  *why;

    path = ngx_pnalloc(cf->pool, amcf->state_dir.len + sizeof("/ca.pem"));

    if (path == NULL) {
        return NGX_ERROR;
    }

    (void) ngx_sprintf(path, "%V/ca.pem%Z", &amcf->state_dir);

    fd = open((char *) path, O_RDONLY|O_CLOEXEC|O_NOFOLLOW|O_NONBLOCK);

    if (fd != NGX_INVALID_FILE) {

        why = ngx_agent_ca_read(amcf, fd);

        (void) close(fd);
        ERR_clear_error();

        if (why) {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "the boxes' authority \"%s\" %s", path, why);
            return NGX_ERROR;
        }

        if (mint_is_current(amcf->ca_cert)
            && mint_left(amcf->ca_cert) > NGX_AGENT_CA_RENEWED)
        {
            return NGX_OK;
        }

        if (ngx_agent_ca_renew(amcf, cf->log) != NGX_OK) {
            return NGX_ERROR;
        }

        return ngx_agent_ca_write(cf, amcf, path);
    }

    if (ngx_errno != NGX_ENOENT) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, ngx_errno,
                      "the boxes' authority \"%s\" cannot be opened", path);
        return NGX_ERROR;
    }

    if (mint_authority(&amcf->ca_cert, &amcf->ca_key) != 0) {
        ngx_ssl_error(NGX_LOG_EMERG, cf->log, 0,
                      "the boxes' authority cannot be made");
        return NGX_ERROR;
    }

    return ngx_agent_ca_write(cf, amcf, path);
}


/* NULL, or why it cannot be the authority; its times are not looked at. */

static const char *
ngx_agent_ca_read(ngx_agent_main_conf_t *amcf, ngx_fd_t fd)
{
    BIO          *bio;
    struct stat   st;

    if (fstat(fd, &st) == -1 || !S_ISREG(st.st_mode)
        || (st.st_mode & 077)
        || (st.st_uid != geteuid() && st.st_uid != 0))
    {
        return "must be a file that only its owner can read (chmod 600)";
    }

    bio = BIO_new_fd(fd, BIO_NOCLOSE);
    amcf->ca_key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
    amcf->ca_cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    BIO_free(bio);

    if (amcf->ca_key == NULL || amcf->ca_cert == NULL) {
        return "cannot be read: remove it, and a new one is made";
    }

    return mint_refuses_pair(amcf->ca_cert, amcf->ca_key);
}


static ngx_int_t
ngx_agent_ca_write(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf, u_char *path)
{
    int        rc;
    BIO       *bio;
    u_char    *temp;
    ngx_fd_t   fd;

    if (ngx_test_config) {
        return NGX_OK;                      /* nginx -t writes no file */
    }

    temp = ngx_pnalloc(cf->pool, ngx_strlen(path) + sizeof(".new"));

    if (temp == NULL) {
        return NGX_ERROR;
    }

    (void) ngx_sprintf(temp, "%s.new%Z", path);

    rc = 0;

    (void) unlink((char *) temp);

    fd = open((char *) temp, O_WRONLY|O_CREAT|O_EXCL|O_CLOEXEC|O_NOFOLLOW,
              0600);

    if (fd != NGX_INVALID_FILE) {
        bio = BIO_new_fd(fd, BIO_NOCLOSE);

        rc = bio
             && PEM_write_bio_PrivateKey(bio, amcf->ca_key, NULL, NULL, 0,
                                         NULL, NULL) == 1
             && PEM_write_bio_X509(bio, amcf->ca_cert) == 1
             && fsync(fd) == 0
             && rename((char *) temp, (char *) path) == 0;

        BIO_free(bio);
        (void) close(fd);
    }

    if (!rc) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, ngx_errno,
                      "the boxes' authority cannot be written to \"%s\"",
                      path);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* agent_ca CERT KEY */

static ngx_int_t
ngx_agent_ca_files(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf)
{
    FILE         *f;
    const char   *why, *name;
    struct stat   st;

    why = NULL;
    name = (char *) amcf->ca_file.data;

    f = fopen(name, "re");

    if (f) {
        amcf->ca_cert = PEM_read_X509(f, NULL, NULL, NULL);
        (void) fclose(f);
    }

    if (amcf->ca_cert == NULL) {
        why = "holds no certificate that can be read";

    } else {
        name = (char *) amcf->ca_key_file.data;

        f = fopen(name, "re");

        if (f) {

            if (fstat(fileno(f), &st) == -1 || (st.st_mode & 077)) {
                why = "must be a file that only its owner can read "
                      "(chmod 600)";
            } else {
                amcf->ca_key = PEM_read_PrivateKey(f, NULL, NULL, NULL);
            }

            (void) fclose(f);
        }

        if (why == NULL && amcf->ca_key == NULL) {
            why = "holds no key that can be read";
        }
    }

    if (why == NULL) {
        name = (char *) amcf->ca_file.data;
        why = mint_refuses(amcf->ca_cert, amcf->ca_key);
    }

    if (why == NULL && mint_is_system_trusted(amcf->ca_cert)) {
        why = "is trusted by this system: the boxes' authority must be "
              "trusted only by the boxes";
    }

    ERR_clear_error();

    if (why) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0, "\"agent_ca\" file \"%s\" %s",
                      name, why);
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* Sets the certificate's PEM text, and the name of its file. */

static ngx_int_t
ngx_agent_ca_text(ngx_pool_t *pool, ngx_agent_main_conf_t *amcf)
{
    BIO   *bio;
    char  *text;
    long   len;

    bio = BIO_new(BIO_s_mem());

    if (bio == NULL || PEM_write_bio_X509(bio, amcf->ca_cert) != 1) {
        BIO_free(bio);
        return NGX_ERROR;
    }

    len = BIO_get_mem_data(bio, &text);

    amcf->ca_pem = ngx_pnalloc(pool, len + 1);

    if (amcf->ca_pem) {
        ngx_memcpy(amcf->ca_pem, text, len);
        amcf->ca_pem[len] = '\0';
    }

    BIO_free(bio);

    (void) ngx_sprintf((u_char *) amcf->ca_hash, "%08xL%Z",
                       (uint64_t) X509_subject_name_hash(amcf->ca_cert));

    return amcf->ca_pem ? NGX_OK : NGX_ERROR;
}
