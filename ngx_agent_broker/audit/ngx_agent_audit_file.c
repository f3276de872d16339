/*
 * The audit file.  Only the master opens it: it stays the master's, mode
 * 0640, and the workers, which cannot open it, append to the descriptor.  The
 * first one they inherit.  When the file is another one, because it was moved
 * away and nginx told to reopen or to reload, the master leaves the new
 * descriptor where all may fetch it (ngx_agent_audit_fd.c), and raises the
 * file's generation in shared memory.  Both, and each write, are done under
 * one lock, and a writer whose generation is old takes the new descriptor
 * first: so from that moment on nobody, draining workers of earlier
 * configurations included, writes to the old file, whether or not it has heard
 * of the signal.
 */


#include "audit/ngx_agent_audit_shared.h"


static ngx_fd_t ngx_agent_audit_file_descriptor(ngx_str_t *name, int flags,
    struct stat *st, ngx_log_t *log);
static ngx_uint_t ngx_agent_audit_file_is_torn(ngx_str_t *name, off_t size);
static ngx_uint_t ngx_agent_audit_file_is_same(ngx_fd_t a, ngx_fd_t b);
static void ngx_agent_audit_file_close(void *data);
static ngx_int_t ngx_agent_audit_file_hook(ngx_conf_t *cf,
    ngx_agent_main_conf_t *amcf);
static void ngx_agent_audit_file_reopen(ngx_open_file_t *file, ngx_log_t *log);


/* of the life of the master, whatever is reloaded */

static int  ngx_agent_audit_pipe[2] = { -1, -1 };


ngx_int_t
ngx_agent_audit_file_open(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf)
{
    int                  flags;
    ngx_fd_t             fd;
    ngx_uint_t           made;
    struct stat          st;
    ngx_pool_cleanup_t  *cln;

    amcf->audit_fd = NGX_INVALID_FILE;

    if (ngx_process == NGX_PROCESS_SIGNALLER) {
        return NGX_OK;
    }

    flags = 0;

    if (!ngx_test_config) {
        flags = O_CREAT;

    } else if (access((char *) amcf->audit_file.data, F_OK) == -1
               && ngx_errno == NGX_ENOENT)
    {
        /* can it be made?  A test leaves nothing behind */
        flags = O_CREAT|O_EXCL;
    }

    made = flags & O_EXCL;

    fd = ngx_agent_audit_file_descriptor(&amcf->audit_file, flags, &st,
                                         cf->log);

    if (fd == NGX_INVALID_FILE) {
        return NGX_ERROR;
    }

    if (ngx_test_config) {

        if (made) {
            (void) unlink((char *) amcf->audit_file.data);
        }

        (void) close(fd);
        return NGX_OK;
    }

    amcf->audit_torn = ngx_agent_audit_file_is_torn(&amcf->audit_file,
                                                    st.st_size);

    cln = ngx_pool_cleanup_add(cf->cycle->pool, 0);
    if (cln == NULL) {
        (void) close(fd);
        return NGX_ERROR;
    }

    amcf->audit_fd = fd;

    cln->handler = ngx_agent_audit_file_close;
    cln->data = (void *) (intptr_t) fd;

    return ngx_agent_audit_file_hook(cf, amcf);
}


/* The file's descriptor, and it is one that may be written to. */

static ngx_fd_t
ngx_agent_audit_file_descriptor(ngx_str_t *name, int flags, struct stat *st,
    ngx_log_t *log)
{
    ngx_fd_t  fd;

    fd = open((char *) name->data,
              O_WRONLY|O_APPEND|O_NOFOLLOW|O_CLOEXEC|O_NONBLOCK|flags, 0640);

    if (fd == NGX_INVALID_FILE) {
        ngx_log_error(NGX_LOG_EMERG, log, ngx_errno,
                      "\"agent_audit\" file \"%V\" cannot be opened", name);
        return NGX_INVALID_FILE;
    }

    if (fstat(fd, st) == -1 || !S_ISREG(st->st_mode)) {
        ngx_log_error(NGX_LOG_EMERG, log, 0,
                      "\"agent_audit\" file \"%V\" is not a regular file",
                      name);
        goto failed;
    }

    /* who owns it could cut it, or take the master's mode away again */

    if (st->st_uid != geteuid() && st->st_uid != 0) {
        ngx_log_error(NGX_LOG_EMERG, log, 0,
                      "\"agent_audit\" file \"%V\" belongs to uid %uD, which "
                      "could change the record: chown %uD %V",
                      name, st->st_uid, geteuid(), name);
        goto failed;
    }

    if (!ngx_test_config && (st->st_mode & 0777) != 0640
        && st->st_uid == geteuid() && fchmod(fd, 0640) == -1)
    {
        ngx_log_error(NGX_LOG_EMERG, log, ngx_errno,
                      "fchmod() \"%V\" failed", name);
        goto failed;
    }

    return fd;

failed:

    (void) close(fd);

    return NGX_INVALID_FILE;
}


/*
 * A writer that was killed, or a power cut, can leave half a line at the end:
 * what comes next must not be glued to it.
 */

static ngx_uint_t
ngx_agent_audit_file_is_torn(ngx_str_t *name, off_t size)
{
    u_char    last;
    ssize_t   n;
    ngx_fd_t  fd;

    if (size == 0) {
        return 0;
    }

    fd = open((char *) name->data, O_RDONLY|O_NOFOLLOW|O_CLOEXEC|O_NONBLOCK);

    if (fd == NGX_INVALID_FILE) {
        return 1;                           /* an empty line harms nobody */
    }

    n = pread(fd, &last, 1, size - 1);

    (void) close(fd);

    return n != 1 || last != '\n';
}


static ngx_uint_t
ngx_agent_audit_file_is_same(ngx_fd_t a, ngx_fd_t b)
{
    struct stat  one, other;

    return fstat(a, &one) == 0 && fstat(b, &other) == 0
           && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}


/* A file that is reopened keeps its number: it is the configuration's. */

static void
ngx_agent_audit_file_close(void *data)
{
    ngx_fd_t  fd;

    fd = (ngx_fd_t) (intptr_t) data;

    if (fd == ngx_agent_audit_fd) {
        ngx_agent_audit_fd = NGX_INVALID_FILE;      /* no broker any more */
    }

    (void) close(fd);
}


/*
 * Core calls the flush handler of each file it has opened when it is told to
 * reopen them, in the master first: the one moment of a master's life in which
 * a module can do something.  The audit cannot be that file itself, since core
 * gives what it reopens to the workers' user.  So it is a pipe, of which
 * nothing but its handler is used; everybody may open it, the workers too.
 */

static ngx_int_t
ngx_agent_audit_file_hook(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf)
{
    ngx_str_t         name;
    ngx_open_file_t  *file;

    if (ngx_agent_audit_fd_init(cf->log) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_agent_audit_pipe[0] == -1
        && (pipe2(ngx_agent_audit_pipe, O_CLOEXEC|O_NONBLOCK) == -1
            || fchmod(ngx_agent_audit_pipe[0], 0666) == -1))
    {
        ngx_log_error(NGX_LOG_EMERG, cf->log, ngx_errno,
                      "a pipe for \"agent_audit\" cannot be made");
        return NGX_ERROR;
    }

    name.data = ngx_pnalloc(cf->pool, sizeof("/proc/self/fd/")
                                      + NGX_INT_T_LEN);
    if (name.data == NULL) {
        return NGX_ERROR;
    }

    name.len = ngx_sprintf(name.data, "/proc/self/fd/%d%Z",
                           ngx_agent_audit_pipe[0])
               - name.data - 1;

    file = ngx_conf_open_file(cf->cycle, &name);
    if (file == NULL) {
        return NGX_ERROR;
    }

    file->flush = ngx_agent_audit_file_reopen;
    file->data = amcf;

    return NGX_OK;
}


static void
ngx_agent_audit_file_reopen(ngx_open_file_t *file, ngx_log_t *log)
{
    ngx_err_t                  err;
    ngx_fd_t                   fd;
    ngx_int_t                  rc;
    ngx_uint_t                 torn;
    struct stat                st;
    ngx_agent_main_conf_t     *amcf;
    ngx_agent_audit_shared_t  *shared;

    amcf = file->data;

    if (!amcf->started || ngx_agent_audit_fd == NGX_INVALID_FILE) {
        return;
    }

    shared = ngx_agent_audit_pool->data;

    if (ngx_process == NGX_PROCESS_WORKER) {

        /* one that has nothing to write lets go of the old file, too */

        ngx_agent_audit_shared_lock();
        (void) ngx_agent_audit_fd_receive(shared, &err);
        ngx_agent_audit_shared_unlock();

        return;
    }

    if ((ngx_process != NGX_PROCESS_MASTER
         && ngx_process != NGX_PROCESS_SINGLE)
        || ngx_terminate || ngx_quit)
    {
        return;
    }

    fd = ngx_agent_audit_file_descriptor(&amcf->audit_file, O_CREAT, &st, log);

    if (fd == NGX_INVALID_FILE) {
        ngx_log_error(NGX_LOG_EMERG, log, 0,
                      "the audit stays in its old file: fix \"%V\", then "
                      "reopen again", &amcf->audit_file);
        return;
    }

    torn = ngx_agent_audit_file_is_torn(&amcf->audit_file, st.st_size);

    ngx_agent_audit_shared_lock();

    (void) ngx_agent_audit_shared_settle(shared, &err);

    rc = NGX_DECLINED;                      /* it was not moved */

    if (!ngx_agent_audit_file_is_same(fd, ngx_agent_audit_fd)) {

        rc = ngx_agent_audit_fd_send(shared, fd);
        err = ngx_errno;

        if (rc == NGX_OK) {
            (void) dup3(fd, ngx_agent_audit_fd, O_CLOEXEC);
            shared->torn = torn;
            shared->size = st.st_size;

            /* still under the lock: the new file begins with this */

            ngx_agent_audit_broker_config((ngx_cycle_t *) ngx_cycle, amcf,
                                          "reopen");
        }
    }

    ngx_agent_audit_shared_unlock();

    (void) close(fd);

    if (rc == NGX_ERROR) {
        ngx_log_error(NGX_LOG_EMERG, log, err,
                      "the new audit file cannot be passed to the workers, "
                      "the audit stays in its old file: reopen again");
    }
}


void
ngx_agent_audit_file_start(ngx_agent_main_conf_t *amcf, ngx_log_t *log)
{
    ngx_err_t                  err;
    struct stat                st;
    ngx_agent_audit_shared_t  *shared;

    ngx_agent_audit_pool = (ngx_slab_pool_t *) amcf->audit_zone->shm.addr;
    shared = ngx_agent_audit_pool->data;

    /* a limit of the file's size is an error of a write, and no end of all */

    (void) signal(SIGXFSZ, SIG_IGN);

    ngx_agent_audit_shared_lock();

    if (shared->generation) {
        (void) ngx_agent_audit_shared_settle(shared, &err);
    }

    if (shared->generation == 0
        || !ngx_agent_audit_file_is_same(amcf->audit_fd, ngx_agent_audit_fd))
    {
        if (ngx_agent_audit_fd_send(shared, amcf->audit_fd) != NGX_OK) {

            /* too late to refuse the reload: the old workers record nothing */

            ngx_log_error(NGX_LOG_EMERG, log, ngx_errno,
                          "the new audit file cannot be passed to workers "
                          "that are shutting down: their requests are refused");

            ngx_agent_audit_fd_skip(shared);
        }

        shared->torn = amcf->audit_torn;
        shared->size = (fstat(amcf->audit_fd, &st) == 0) ? st.st_size : 0;
    }

    /* only now: a configuration that does not start leaves nothing of it */

    ngx_agent_audit_fd = amcf->audit_fd;

    ngx_agent_audit_shared_unlock();
}


ngx_uint_t
ngx_agent_audit_file_is_open(void)
{
    return ngx_agent_audit_fd != NGX_INVALID_FILE;
}
