/*
 * agent_state: the master's own directory, with the lease key and the boxes'
 * authority.  It is locked from before the control socket is looked at until
 * the master ends, so that of two starts one wins, whatever a pid file or a
 * socket of an earlier broker says: both would find that socket dead, and the
 * slower would remove the faster one's.
 *
 * The lock is of the open file (flock).  A fork into the background keeps it,
 * and so does a new binary (USR2), which finds the descriptor by what it is:
 * until the old master ends both have it.  No worker does: one that outlives
 * its master must not hold up the next start.
 */


#include "task/ngx_agent_task.h"

#include <sys/file.h>


static ngx_int_t ngx_agent_state_open(ngx_conf_t *cf,
    ngx_agent_main_conf_t *amcf);
static ngx_fd_t ngx_agent_state_find(const char *name, struct stat *st,
    ngx_fd_t but);
static void ngx_agent_state_close(void *data);


/* NGX_BUSY: it is another's, who may be about to end. */

ngx_int_t
ngx_agent_state_lock(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf)
{
    if (amcf->state_locked || ngx_process == NGX_PROCESS_SIGNALLER) {
        return NGX_OK;
    }

    if (amcf->state_fd == NGX_INVALID_FILE
        && ngx_agent_state_open(cf, amcf) != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (ngx_test_config) {
        return NGX_OK;                      /* a running broker has it */
    }

    if (flock(amcf->state_fd, LOCK_EX|LOCK_NB) == 0) {
        amcf->state_locked = 1;
        return NGX_OK;
    }

    if (ngx_errno == EWOULDBLOCK) {
        return NGX_BUSY;
    }

    ngx_log_error(NGX_LOG_EMERG, cf->log, ngx_errno,
                  "flock() \"%V\" of \"agent_state\" failed",
                  &amcf->state_dir);

    return NGX_ERROR;
}


/*
 * Made where it is not there; nobody but the master's user may be in it.  On a
 * reload it is this master's already, with its lock.  In a new binary it is
 * the old one's, and nobody else leaves it to a process at its start.
 */

static ngx_int_t
ngx_agent_state_open(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf)
{
    ngx_fd_t                fd, inherited;
    ngx_cycle_t            *old;
    struct stat             st, ost;
    ngx_pool_cleanup_t     *cln;
    ngx_agent_main_conf_t  *oamcf;

    cln = ngx_pool_cleanup_add(cf->cycle->pool, 0);
    if (cln == NULL) {
        return NGX_ERROR;
    }

    if (!ngx_test_config
        && mkdir((char *) amcf->state_dir.data, 0700) == -1
        && ngx_errno != EEXIST)
    {
        ngx_log_error(NGX_LOG_EMERG, cf->log, ngx_errno,
                      "mkdir() \"%V\" of \"agent_state\" failed",
                      &amcf->state_dir);
        return NGX_ERROR;
    }

    fd = open((char *) amcf->state_dir.data,
              O_RDONLY|O_DIRECTORY|O_NOFOLLOW);

    if (fd == NGX_INVALID_FILE && ngx_test_config && ngx_errno == NGX_ENOENT) {
        return NGX_OK;                      /* the start makes it */
    }

    if (fd == NGX_INVALID_FILE || fstat(fd, &st) == -1 || (st.st_mode & 077)
        || (st.st_uid != geteuid() && st.st_uid != 0))
    {
        if (fd != NGX_INVALID_FILE) {
            (void) close(fd);
        }

        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"agent_state\" \"%V\" must be a directory that only "
                      "the user who starts nginx can use: name one of the "
                      "broker's own, and chmod 700 it", &amcf->state_dir);
        return NGX_ERROR;
    }

    old = cf->cycle->old_cycle;
    oamcf = NULL;

    if (old && old->conf_ctx && old->conf_ctx[ngx_http_module.index]) {
        oamcf = ngx_http_cycle_get_module_main_conf(old,
                                                    ngx_agent_broker_module);
    }

    if (oamcf && oamcf->state_fd != NGX_INVALID_FILE
        && fstat(oamcf->state_fd, &ost) == 0
        && ost.st_dev == st.st_dev && ost.st_ino == st.st_ino)
    {
        (void) close(fd);

        fd = dup(oamcf->state_fd);

        if (fd == NGX_INVALID_FILE) {
            return NGX_ERROR;
        }

    } else if (oamcf == NULL) {
        inherited = ngx_agent_state_find("/proc/self/fd", &st, fd);

        if (inherited != NGX_INVALID_FILE) {
            (void) close(fd);
            fd = inherited;
        }
    }

    amcf->state_fd = fd;

    cln->handler = ngx_agent_state_close;
    cln->data = amcf;

    return NGX_OK;
}


/*
 * At the end of the configuration; in a worker at its start, and not again: by
 * then the number is another's.
 */

static void
ngx_agent_state_close(void *data)
{
    ngx_agent_main_conf_t *amcf = data;

    if (amcf->state_fd != NGX_INVALID_FILE) {
        (void) close(amcf->state_fd);
        amcf->state_fd = NGX_INVALID_FILE;
    }
}


void
ngx_agent_state_worker(ngx_agent_main_conf_t *amcf)
{
    ngx_agent_state_close(amcf);
}


/*
 * nginx -s sends a signal to whatever process has the number in the pid file:
 * after a crash, or a reboot, that may be any.  The broker's master is the one
 * that has agent_state open.
 */

ngx_int_t
ngx_agent_state_signalled(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf)
{
    u_char            text[NGX_INT64_LEN + 2];
    ssize_t           n;
    ngx_fd_t          fd;
    u_char            path[64];
    ngx_int_t         pid;
    ngx_str_t         name;
    struct stat       st;
    ngx_core_conf_t  *ccf;

    if (ngx_process != NGX_PROCESS_SIGNALLER) {
        return NGX_OK;
    }

    ccf = (ngx_core_conf_t *) ngx_get_conf(cf->cycle->conf_ctx,
                                           ngx_core_module);

    /* core names its default later, and is left to it */

    name = ccf->pid;

    if (name.len == 0 || ngx_conf_full_name(cf->cycle, &name, 0) != NGX_OK) {
        return NGX_OK;
    }

    fd = open((char *) name.data, O_RDONLY|O_CLOEXEC|O_NONBLOCK);

    if (fd == NGX_INVALID_FILE) {
        return NGX_OK;                      /* core says why, and ends */
    }

    n = read(fd, text, sizeof(text));

    (void) close(fd);

    while (n > 0 && (text[n - 1] == CR || text[n - 1] == LF)) {
        n--;
    }

    pid = (n > 0) ? ngx_atoi(text, n) : NGX_ERROR;

    if (pid == NGX_ERROR || kill((ngx_pid_t) pid, 0) == -1) {
        return NGX_OK;                      /* core says why, too */
    }

    (void) ngx_sprintf(path, "/proc/%i/fd%Z", pid);

    if (pid > 0 && stat((char *) amcf->state_dir.data, &st) == 0
        && ngx_agent_state_find((char *) path, &st, NGX_INVALID_FILE)
           != NGX_INVALID_FILE)
    {
        return NGX_OK;
    }

    ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                  "process %i, which the pid file \"%V\" names, is not this "
                  "broker's master, so no signal was sent; remove the file",
                  pid, &name);

    return NGX_ERROR;
}


/* By what it is open on, in a directory of descriptors; and not `but`. */

static ngx_fd_t
ngx_agent_state_find(const char *name, struct stat *st, ngx_fd_t but)
{
    DIR            *dir;
    ngx_fd_t        fd, found;
    struct stat     fst;
    struct dirent  *entry;

    dir = opendir(name);
    if (dir == NULL) {
        return NGX_INVALID_FILE;
    }

    found = NGX_INVALID_FILE;

    while (found == NGX_INVALID_FILE && (entry = readdir(dir)) != NULL) {

        fd = (ngx_fd_t) ngx_atoi((u_char *) entry->d_name,
                                 ngx_strlen(entry->d_name));

        if (fd != NGX_ERROR && fd != but
            && fstatat(dirfd(dir), entry->d_name, &fst, 0) == 0
            && fst.st_dev == st->st_dev && fst.st_ino == st->st_ino)
        {
            found = fd;
        }
    }

    (void) closedir(dir);

    return found;
}
