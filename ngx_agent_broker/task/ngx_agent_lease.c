/*
 * The lease's proof: what a launcher shows to resume its task on another
 * worker, or on a broker that was restarted.
 *
 *     1.EXPIRES.INSTANCE.POLICY.HMAC
 *
 * HMAC-SHA256 over task, uid, policy, net namespace, expiry and the start of
 * the broker that made it, under the key in agent_state.  The launcher need
 * not understand it and cannot change it; shown by another user, or with
 * sockets of another net namespace, it is worth nothing.  The instance tells
 * a task that has ended from one that a restarted broker does not know yet.
 */


#include "task/ngx_agent_task.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>


#define NGX_AGENT_INSTANCE_LEN  16          /* hex digits */


static ngx_int_t ngx_agent_lease_proof(ngx_agent_main_conf_t *amcf,
    const u_char *task, uid_t uid, const char *policy, uint64_t netns,
    time_t expires, uint64_t instance, u_char hex[65]);
static ngx_int_t ngx_agent_lease_key_make(ngx_conf_t *cf,
    ngx_agent_main_conf_t *amcf, u_char *path);
static ngx_int_t ngx_agent_lease_key_read(ngx_conf_t *cf,
    ngx_agent_main_conf_t *amcf, u_char *path);


size_t
ngx_agent_lease_make(ngx_agent_main_conf_t *amcf, const u_char *task,
    uid_t uid, const u_char *policy, uint64_t netns, time_t expires,
    char dst[PROTOCOL_LEASE_MAX + 1])
{
    u_char    *p, hex[65];
    uint64_t   instance;

    instance = ngx_agent_zone_instance();

    if (ngx_agent_lease_proof(amcf, task, uid, (const char *) policy, netns,
                              expires, instance, hex)
        != NGX_OK)
    {
        return 0;
    }

    p = ngx_snprintf((u_char *) dst, PROTOCOL_LEASE_MAX,
                     "1.%T.%016xL.%s.%s", expires, instance, policy, hex);
    *p = '\0';

    return p - (u_char *) dst;
}


ngx_int_t
ngx_agent_lease_check(ngx_agent_main_conf_t *amcf, const char *lease,
    const u_char *task, uid_t uid, uint64_t netns,
    u_char policy[POLICY_NAME_MAX + 1], time_t *expires, uint64_t *instance)
{
    size_t       len;
    time_t       t;
    u_char       hex[65];
    uint64_t     i;
    const char  *dot, *name, *proof;

    if (ngx_strncmp(lease, "1.", 2) != 0) {
        return NGX_DECLINED;
    }

    dot = strchr(lease + 2, '.');
    proof = strrchr(lease, '.');

    if (dot == NULL || proof - dot < NGX_AGENT_INSTANCE_LEN + 2
        || dot[NGX_AGENT_INSTANCE_LEN + 1] != '.'
        || ngx_strlen(proof + 1) != 64)
    {
        return NGX_DECLINED;
    }

    t = ngx_atotm((u_char *) lease + 2, dot - (lease + 2));
    i = 0;

    for (name = dot + 1; name < dot + 1 + NGX_AGENT_INSTANCE_LEN; name++) {

        /* not a digit: another text than was made, which the proof tells */

        i = i * 16 + (*name >= 'a' ? *name - 'a' + 10 : *name - '0');
    }

    name++;
    len = proof - name;

    if (t == (time_t) NGX_ERROR || len == 0 || len > POLICY_NAME_MAX) {
        return NGX_DECLINED;
    }

    ngx_memcpy(policy, name, len);
    policy[len] = '\0';

    if (ngx_agent_lease_proof(amcf, task, uid, (char *) policy, netns, t, i,
                              hex)
        != NGX_OK
        || CRYPTO_memcmp(hex, proof + 1, 64) != 0
        || t < ngx_time())
    {
        return NGX_DECLINED;
    }

    *expires = t;
    *instance = i;

    return NGX_OK;
}


static ngx_int_t
ngx_agent_lease_proof(ngx_agent_main_conf_t *amcf, const u_char *task,
    uid_t uid, const char *policy, uint64_t netns, time_t expires,
    uint64_t instance, u_char hex[65])
{
    u_char        *p, text[256], digest[EVP_MAX_MD_SIZE];
    unsigned int   n;

    p = ngx_snprintf(text, sizeof(text), "%*s|%uL|%s|%uL|%T|%xL",
                     (size_t) PROTOCOL_ID_LEN, task, (uint64_t) uid, policy,
                     netns, expires, instance);

    if (HMAC(EVP_sha256(), amcf->secrets->lease_key,
             sizeof(amcf->secrets->lease_key), text, p - text, digest, &n)
        == NULL)
    {
        return NGX_ERROR;
    }

    (void) ngx_hex_dump(hex, digest, 32);
    hex[64] = '\0';

    return NGX_OK;
}


/*
 * The key: agent_state/lease.key, 32 bytes, made by the master when it is
 * not there.  nginx -t and nginx -s leave nothing behind and need no key.
 */

ngx_int_t
ngx_agent_lease_key(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf)
{
    u_char     *path;
    ngx_int_t   rc;

    path = ngx_pnalloc(cf->pool, amcf->state_dir.len + sizeof("/lease.key"));
    if (path == NULL) {
        return NGX_ERROR;
    }

    (void) ngx_sprintf(path, "%V/lease.key%Z", &amcf->state_dir);

    if (ngx_process == NGX_PROCESS_SIGNALLER) {
        return NGX_OK;
    }

    /* locked before, but on a reload */

    rc = ngx_agent_state_lock(cf, amcf);

    if (rc == NGX_BUSY) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "another broker is running with \"agent_state\" "
                      "\"%V\": give this one a directory of its own",
                      &amcf->state_dir);
    }

    if (rc != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_test_config) {
        return NGX_OK;                      /* a start makes the key */
    }

    rc = ngx_agent_lease_key_make(cf, amcf, path);

    return rc == NGX_DECLINED ? ngx_agent_lease_key_read(cf, amcf, path) : rc;
}


/* NGX_DECLINED: there is one, or none can be made: reading it says which. */

static ngx_int_t
ngx_agent_lease_key_make(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf,
    u_char *path)
{
    ngx_fd_t   fd;
    ngx_int_t  rc;

    fd = open((char *) path, O_WRONLY|O_CREAT|O_EXCL|O_CLOEXEC|O_NOFOLLOW,
              0600);

    if (fd == NGX_INVALID_FILE) {
        return NGX_DECLINED;
    }

    rc = NGX_OK;

    if (ngx_agent_random(amcf->secrets->lease_key,
                         sizeof(amcf->secrets->lease_key))
        != NGX_OK
        || write(fd, amcf->secrets->lease_key,
                 sizeof(amcf->secrets->lease_key))
           != (ssize_t) sizeof(amcf->secrets->lease_key)
        || fsync(fd) == -1)
    {
        ngx_log_error(NGX_LOG_EMERG, cf->log, ngx_errno,
                      "the lease key cannot be written to \"%s\"", path);
        (void) unlink((char *) path);
        rc = NGX_ERROR;
    }

    (void) close(fd);

    return rc;
}


static ngx_int_t
ngx_agent_lease_key_read(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf,
    u_char *path)
{
    ssize_t       n;
    ngx_fd_t      fd;
    const char   *what;
    struct stat   st;

    what = "cannot be read";
    n = 0;

    fd = open((char *) path, O_RDONLY|O_CLOEXEC|O_NOFOLLOW|O_NONBLOCK);

    if (fd != NGX_INVALID_FILE) {

        if (fstat(fd, &st) == -1 || !S_ISREG(st.st_mode)
            || (st.st_mode & 077))
        {
            what = "must be a file that only its owner can read (chmod 600)";

        } else {
            what = "is not 32 bytes long: remove it, a new one is made";
            n = read(fd, amcf->secrets->lease_key,
                     sizeof(amcf->secrets->lease_key));

            if (st.st_size != sizeof(amcf->secrets->lease_key)) {
                n = 0;
            }
        }

        (void) close(fd);
    }

    if (n != (ssize_t) sizeof(amcf->secrets->lease_key)) {
        ngx_log_error(NGX_LOG_EMERG, cf->log,
                      fd == NGX_INVALID_FILE ? ngx_errno : 0,
                      "the lease key \"%s\" %s", path, what);
        return NGX_ERROR;
    }

    return NGX_OK;
}
