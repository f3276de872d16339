/*
 * What the writers of the audit know of each other, in shared memory: which
 * file is written to and how long it is, the write that has begun, and who
 * writes.
 *
 * A write is noted before it is done.  When its writer is killed in it,
 * whoever comes next sees by the file's length what arrived: whether the file
 * ends within a line, and how far that writer's numbers go.
 */


#include "audit/ngx_agent_audit_shared.h"

#include <sys/wait.h>


#define NGX_AGENT_AUDIT_NOBODY  NGX_MAX_PROCESSES
#define NGX_AGENT_AUDIT_ZONE    (2 * sizeof(ngx_agent_audit_shared_t))


static ngx_int_t ngx_agent_audit_shared_init(ngx_shm_zone_t *shm_zone,
    void *data);
static ngx_uint_t ngx_agent_audit_shared_note(ngx_agent_audit_shared_t *shared,
    size_t n);
static ngx_uint_t ngx_agent_audit_shared_entry(ngx_agent_audit_shared_t *shared,
    u_char *name);
static ngx_uint_t ngx_agent_audit_shared_is_gone(ngx_pid_t pid);


ngx_slab_pool_t   *ngx_agent_audit_pool;

static ngx_uint_t  ngx_agent_audit_locked;      /* how often, by this process */
static off_t       ngx_agent_audit_bytes_cut;
static ngx_uint_t  ngx_agent_audit_serving;     /* this is a worker, started */
static ngx_pid_t   ngx_agent_audit_entry_pid;
static ngx_uint_t  ngx_agent_audit_entry_of;


ngx_int_t
ngx_agent_audit_shared_add(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf)
{
    amcf->audit_zone = ngx_agent_zone_add_one(cf, "agent_audit",
                                              NGX_AGENT_AUDIT_ZONE,
                                              ngx_agent_audit_shared_init,
                                              amcf);

    return amcf->audit_zone ? NGX_OK : NGX_ERROR;
}


static ngx_int_t
ngx_agent_audit_shared_init(ngx_shm_zone_t *shm_zone, void *data)
{
    ngx_slab_pool_t  *pool;

    pool = (ngx_slab_pool_t *) shm_zone->shm.addr;

    if (data == NULL) {
        pool->data = ngx_slab_calloc(pool, sizeof(ngx_agent_audit_shared_t));
    }

    return pool->data ? NGX_OK : NGX_ERROR;
}


void
ngx_agent_audit_shared_serve(void)
{
    ngx_agent_audit_serving = 1;
    ngx_agent_audit_fd_close();
}


ngx_uint_t
ngx_agent_audit_shared_append(ngx_agent_audit_batch_t *batch, ngx_err_t *err)
{
    u_char                     newline;
    size_t                     len;
    ssize_t                    n;
    ngx_uint_t                 whole;
    ngx_agent_audit_shared_t  *shared;

    *err = 0;

    if (batch->count == 0 || ngx_agent_audit_fd == NGX_INVALID_FILE) {
        return 0;
    }

    len = batch->ends[batch->count - 1];
    shared = ngx_agent_audit_pool->data;
    whole = 0;

    ngx_agent_audit_shared_lock();

    if (ngx_agent_audit_fd_receive(shared, err) != NGX_OK
        || ngx_agent_audit_shared_settle(shared, err) != NGX_OK)
    {
        goto done;
    }

    if (shared->torn) {
        newline = '\n';

        if (write(ngx_agent_audit_fd, &newline, 1) != 1) {
            *err = ngx_errno;
            goto done;
        }

        shared->size++;
        shared->torn = 0;
    }

    shared->writer = ngx_agent_audit_shared_entry(shared, batch->writer);
    shared->is_end = batch->is_end;
    shared->start = shared->size;
    shared->sequence = batch->sequence;
    ngx_memcpy(shared->ends, batch->ends, batch->count * sizeof(size_t));

    ngx_memory_barrier();

    shared->writing = batch->count;

    ngx_memory_barrier();

    do {
        n = write(ngx_agent_audit_fd, batch->text, len);
    } while (n == -1 && ngx_errno == NGX_EINTR);

    if (n == -1) {
        *err = ngx_errno;
        n = 0;

    } else if ((size_t) n < len) {
        *err = NGX_ENOSPC;
    }

    whole = ngx_agent_audit_shared_note(shared, n);

done:

    shared->failing = (whole < batch->count);

    ngx_agent_audit_shared_unlock();

    return whole;
}


ngx_uint_t
ngx_agent_audit_shared_is_failing(void)
{
    ngx_agent_audit_shared_t  *shared;

    shared = ngx_agent_audit_pool->data;

    return shared->failing;
}


/*
 * Whoever waits for a lock whose holder was killed is woken when the master
 * has seen that process end.  The master itself, which hears of it only when
 * it is back at its loop, must not wait so.
 */

void
ngx_agent_audit_shared_lock(void)
{
    siginfo_t     info;
    ngx_pid_t     holder;
    ngx_shmtx_t  *mutex;

    mutex = &ngx_agent_audit_pool->mutex;

    if (ngx_agent_audit_locked++) {
        return;
    }

    if (ngx_process == NGX_PROCESS_WORKER) {
        ngx_shmtx_lock(mutex);
        return;
    }

    while (!ngx_shmtx_trylock(mutex)) {

        holder = (ngx_pid_t) *mutex->lock;
        info.si_pid = 0;

        if (holder > 0
            && waitid(P_PID, holder, &info, WEXITED|WNOHANG|WNOWAIT) == 0
            && info.si_pid == holder)
        {
            (void) ngx_shmtx_force_unlock(mutex, holder);
            continue;
        }

        ngx_msleep(1);
    }
}


void
ngx_agent_audit_shared_unlock(void)
{
    if (--ngx_agent_audit_locked == 0) {
        ngx_shmtx_unlock(&ngx_agent_audit_pool->mutex);
    }
}


ngx_int_t
ngx_agent_audit_shared_settle(ngx_agent_audit_shared_t *shared, ngx_err_t *err)
{
    struct stat  st;

    if (fstat(ngx_agent_audit_fd, &st) == -1) {
        *err = ngx_errno;
        return NGX_ERROR;
    }

    if (shared->writing) {
        (void) ngx_agent_audit_shared_note(shared,
                                           st.st_size > shared->start
                                           ? st.st_size - shared->start : 0);
    }

    if (st.st_size < shared->size) {

        /* O_APPEND goes on at the new end, which may be within a line */

        ngx_agent_audit_bytes_cut += shared->size - st.st_size;
        shared->torn = (st.st_size != 0);
    }

    shared->size = st.st_size;

    return NGX_OK;
}


/*
 * The outcome of the write that was begun: so many bytes of it are in the
 * file.  May be done twice, should this process be killed in it.
 */

static ngx_uint_t
ngx_agent_audit_shared_note(ngx_agent_audit_shared_t *shared, size_t n)
{
    ngx_uint_t                 whole;
    ngx_agent_audit_writer_t  *writer;

    whole = 0;

    while (whole < shared->writing && shared->ends[whole] <= n) {
        whole++;
    }

    if (shared->writer != NGX_AGENT_AUDIT_NOBODY) {

        writer = &shared->writers[shared->writer];
        writer->sequence = shared->sequence + whole;

        if (shared->is_end && whole == shared->writing) {
            writer->pid = 0;
        }
    }

    shared->torn = (n != (whole ? shared->ends[whole - 1] : 0));
    shared->size = shared->start + n;

    ngx_memory_barrier();

    shared->writing = 0;

    return whole;
}


/* This worker's entry: made with its first line, gone with its last. */

static ngx_uint_t
ngx_agent_audit_shared_entry(ngx_agent_audit_shared_t *shared, u_char *name)
{
    ngx_uint_t                 i;
    ngx_agent_audit_writer_t  *writer;

    if (!ngx_agent_audit_serving) {
        return NGX_AGENT_AUDIT_NOBODY;
    }

    if (ngx_agent_audit_entry_pid == ngx_pid) {
        return ngx_agent_audit_entry_of;
    }

    for (i = 0; i < shared->used && shared->writers[i].pid; i++) { /* void */ }

    ngx_agent_audit_entry_pid = ngx_pid;
    ngx_agent_audit_entry_of = i;

    if (i == NGX_MAX_PROCESSES) {
        return NGX_AGENT_AUDIT_NOBODY;
    }

    writer = &shared->writers[i];
    writer->teller = 0;
    writer->sequence = 0;
    ngx_memcpy(writer->name, name, NGX_AGENT_AUDIT_WRITER);

    ngx_memory_barrier();

    writer->pid = ngx_pid;

    if (i == shared->used) {
        shared->used++;
    }

    return i;
}


ngx_int_t
ngx_agent_audit_shared_lost(u_char name[NGX_AGENT_AUDIT_WRITER],
    uint64_t *sequence, ngx_uint_t *entry)
{
    ngx_err_t                  err;
    ngx_int_t                  rc;
    ngx_uint_t                 i;
    ngx_agent_audit_shared_t  *shared;
    ngx_agent_audit_writer_t  *writer;

    rc = NGX_DECLINED;
    shared = ngx_agent_audit_pool->data;

    ngx_agent_audit_shared_lock();

    if (ngx_agent_audit_fd_receive(shared, &err) != NGX_OK
        || ngx_agent_audit_shared_settle(shared, &err) != NGX_OK)
    {
        goto done;
    }

    for (i = 0; i < shared->used; i++) {

        writer = &shared->writers[i];

        if (writer->pid == 0
            || (ngx_agent_audit_entry_pid == ngx_pid
                && ngx_agent_audit_entry_of == i))
        {
            continue;
        }

        if (!ngx_agent_audit_shared_is_gone(writer->pid)
            || (writer->teller
                && !ngx_agent_audit_shared_is_gone(writer->teller)))
        {
            continue;
        }

        writer->teller = ngx_pid;

        ngx_memcpy(name, writer->name, NGX_AGENT_AUDIT_WRITER);
        *sequence = writer->sequence;
        *entry = i;

        rc = NGX_OK;
        break;
    }

done:

    ngx_agent_audit_shared_unlock();

    return rc;
}


static ngx_uint_t
ngx_agent_audit_shared_is_gone(ngx_pid_t pid)
{
    /* this process may have the number of one that was killed */

    return pid == ngx_pid || (kill(pid, 0) == -1 && ngx_errno == NGX_ESRCH);
}


void
ngx_agent_audit_shared_lost_recorded(ngx_uint_t entry, ngx_uint_t is_written)
{
    ngx_agent_audit_shared_t  *shared;

    shared = ngx_agent_audit_pool->data;

    ngx_agent_audit_shared_lock();

    if (is_written) {
        shared->writers[entry].pid = 0;
    }

    shared->writers[entry].teller = 0;

    ngx_agent_audit_shared_unlock();
}


off_t
ngx_agent_audit_shared_bytes_cut(void)
{
    off_t  cut;

    cut = ngx_agent_audit_bytes_cut;
    ngx_agent_audit_bytes_cut = 0;

    return cut;
}
