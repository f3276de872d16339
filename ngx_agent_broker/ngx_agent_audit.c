/*
 * The audit file.  The master opens it (its own file, mode 0640) and the
 * workers inherit the descriptor, so they can append and nothing else.  Whole
 * lines are written, under one lock, so that those of many workers never mix;
 * after a short write, or one whose worker was killed in it, the next line
 * begins on a new one.  A line that cannot be written is an error for the
 * caller: what it would have recorded does not happen.
 *
 * Lines are gathered for one pass of the event loop, and then go out in one
 * write(2); or before it, with one that cannot wait.  A request whose decision
 * is in it goes on only when the write is done: so what a worker that is
 * killed takes with it is one pass of ends, and decisions of which nothing has
 * been sent.
 */


#include "ngx_agent_broker.h"


#define NGX_AGENT_AUDIT_LINES  64           /* gathered */
#define NGX_AGENT_AUDIT_BYTES  (8 * AUDIT_LINE_MAX)


typedef struct {
    ngx_uint_t    torn;         /* the file may end within a line */
} ngx_agent_audit_shared_t;


typedef struct {
    u_char        task[NGX_AGENT_ID_LEN];   /* zeros: of none */
    size_t        end;                      /* in the text gathered */
    ngx_uint_t    allowed;                  /* it is a request's decision */
} ngx_agent_audit_line_t;


/* What stands in each line of a task, as it was in the last one. */

typedef struct {
    u_char        task[NGX_AGENT_ID_LEN];
    u_char        policy_hash[POLICY_HASH_LEN + 1];
    size_t        len;
    char          text[512];
} ngx_agent_audit_whose_t;


static ngx_int_t ngx_agent_audit_zone_init(ngx_shm_zone_t *shm_zone,
    void *data);
static ngx_uint_t ngx_agent_audit_ends_torn(ngx_agent_main_conf_t *amcf,
    off_t size);
static void ngx_agent_audit_close(void *data);
static void ngx_agent_audit_name(struct timespec *ts);
static void ngx_agent_audit_add(audit_line_t *line, const u_char *task);
static ngx_uint_t ngx_agent_audit_append(ngx_err_t *err);
static void ngx_agent_audit_tell(void);
static void ngx_agent_audit_posted(ngx_event_t *ev);


static ngx_slab_pool_t *ngx_agent_audit_pool;
static ngx_fd_t         ngx_agent_audit_fd = NGX_INVALID_FILE;
static ngx_uint_t       ngx_agent_audit_torn;    /* found when opened */
static uint64_t         ngx_agent_audit_sequence;    /* of the last written */
static ngx_pid_t        ngx_agent_audit_pid;
static char             ngx_agent_audit_writer[64];  /* with its key */
static size_t           ngx_agent_audit_writer_len;
static uint64_t         ngx_agent_audit_lost;
static time_t           ngx_agent_audit_said;

static u_char                  ngx_agent_audit_text[NGX_AGENT_AUDIT_BYTES];
static ngx_agent_audit_line_t  ngx_agent_audit_lines[NGX_AGENT_AUDIT_LINES];
static ngx_uint_t              ngx_agent_audit_count;
static size_t                  ngx_agent_audit_len;
static ngx_event_t             ngx_agent_audit_event;
static ngx_queue_t             ngx_agent_audit_waits;

static ngx_agent_audit_whose_t  ngx_agent_audit_whose;


ngx_int_t
ngx_agent_audit_open(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf)
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

    flags = O_WRONLY|O_APPEND|O_NOFOLLOW|O_CLOEXEC|O_NONBLOCK;
    made = 0;

    fd = open((char *) amcf->audit_file.data,
              flags | (ngx_test_config ? 0 : O_CREAT), 0640);

    if (fd == NGX_INVALID_FILE && ngx_test_config && ngx_errno == NGX_ENOENT)
    {
        /* can it be made?  A test leaves nothing behind */

        fd = open((char *) amcf->audit_file.data, flags|O_CREAT|O_EXCL, 0640);
        made = (fd != NGX_INVALID_FILE);
    }

    if (fd == NGX_INVALID_FILE) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, ngx_errno,
                      "\"agent_audit\" file \"%V\" cannot be opened",
                      &amcf->audit_file);
        return NGX_ERROR;
    }

    if (fstat(fd, &st) == -1 || !S_ISREG(st.st_mode)) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"agent_audit\" file \"%V\" is not a regular file",
                      &amcf->audit_file);
        (void) close(fd);
        return NGX_ERROR;
    }

    if (st.st_uid != 0 && st.st_uid != geteuid()) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"agent_audit\" file \"%V\" belongs to uid %ui, who "
                      "could change what is written: chown it to root, or "
                      "move it away", &amcf->audit_file,
                      (ngx_uint_t) st.st_uid);
        (void) close(fd);
        return NGX_ERROR;
    }

    if (ngx_test_config) {

        if (made) {
            (void) unlink((char *) amcf->audit_file.data);
        }

        (void) close(fd);
        return NGX_OK;
    }

    if ((st.st_mode & 0777) != 0640 && st.st_uid == geteuid()
        && fchmod(fd, 0640) == -1)
    {
        ngx_log_error(NGX_LOG_EMERG, cf->log, ngx_errno,
                      "fchmod() \"%V\" failed", &amcf->audit_file);
        (void) close(fd);
        return NGX_ERROR;
    }

    ngx_agent_audit_torn = ngx_agent_audit_ends_torn(amcf, st.st_size);

    cln = ngx_pool_cleanup_add(cf->cycle->pool, 0);
    if (cln == NULL) {
        (void) close(fd);
        return NGX_ERROR;
    }

    amcf->audit_fd = fd;

    cln->handler = ngx_agent_audit_close;
    cln->data = (void *) (intptr_t) fd;

    return NGX_OK;
}


/*
 * A writer that was killed, or a power cut, can leave half a line at the end:
 * what comes next must not be glued to it.
 */

static ngx_uint_t
ngx_agent_audit_ends_torn(ngx_agent_main_conf_t *amcf, off_t size)
{
    u_char    last;
    ssize_t   n;
    ngx_fd_t  fd;

    if (size == 0) {
        return 0;
    }

    fd = open((char *) amcf->audit_file.data,
              O_RDONLY|O_NOFOLLOW|O_CLOEXEC|O_NONBLOCK);

    if (fd == NGX_INVALID_FILE) {
        return 1;                           /* an empty line harms nobody */
    }

    n = pread(fd, &last, 1, size - 1);

    (void) close(fd);

    return n != 1 || last != '\n';
}


static void
ngx_agent_audit_close(void *data)
{
    (void) close((int) (intptr_t) data);
}


ngx_int_t
ngx_agent_audit_zone_add(ngx_conf_t *cf)
{
    ngx_str_t               name;
    ngx_shm_zone_t         *zone;
    ngx_agent_main_conf_t  *amcf;

    ngx_str_set(&name, "agent_audit");

    zone = ngx_shared_memory_add(cf, &name, 8 * ngx_pagesize,
                                 &ngx_agent_broker_module);
    if (zone == NULL) {
        return NGX_ERROR;
    }

    zone->init = ngx_agent_audit_zone_init;
    zone->data = zone;

    amcf = ngx_http_conf_get_module_main_conf(cf, ngx_agent_broker_module);
    amcf->audit_zone = zone;

    return NGX_OK;
}


static ngx_int_t
ngx_agent_audit_zone_init(ngx_shm_zone_t *shm_zone, void *data)
{
    ngx_slab_pool_t           *pool;
    ngx_agent_audit_shared_t  *shared;

    pool = (ngx_slab_pool_t *) shm_zone->shm.addr;

    if (data == NULL) {
        shared = ngx_slab_calloc(pool, sizeof(ngx_agent_audit_shared_t));
        if (shared == NULL) {
            return NGX_ERROR;
        }

        shared->torn = ngx_agent_audit_torn;
        pool->data = shared;
    }

    return NGX_OK;
}


void
ngx_agent_audit_start(ngx_cycle_t *cycle, ngx_agent_main_conf_t *amcf)
{
    /* only now: a configuration that does not start leaves nothing of it */

    ngx_agent_audit_fd = amcf->audit_fd;
    ngx_agent_audit_pool = (ngx_slab_pool_t *) amcf->audit_zone->shm.addr;

    ngx_agent_audit_event.handler = ngx_agent_audit_posted;
    ngx_agent_audit_event.log = cycle->log;

    if (ngx_agent_audit_waits.next == NULL) {
        ngx_queue_init(&ngx_agent_audit_waits);
    }
}


ngx_uint_t
ngx_agent_audit_ready(void)
{
    return ngx_agent_audit_fd != NGX_INVALID_FILE;
}


uint64_t
ngx_agent_audit_last(void)
{
    return ngx_agent_audit_sequence;
}


void
ngx_agent_audit_begin(audit_line_t *line, const char *event,
    const u_char *task, const u_char *policy, const u_char *policy_hash,
    uid_t uid)
{
    char                     *text;
    size_t                    start;
    ngx_uint_t                ms;
    struct timespec           ts;
    ngx_agent_audit_whose_t  *whose;

    static char    head[] = "\"@timestamp\":\"2026-11-29T12:00:00.123Z\","
                            "\"schema\":1";
    static time_t  second;                  /* that head is of */

    /*
     * The clock is read here: nginx's cached time is that of the last pass
     * of the event loop, and a line says when it was written.
     */

    (void) clock_gettime(CLOCK_REALTIME, &ts);

    /* the number of this line is settled once there is room for it */

    if (ngx_agent_audit_count == NGX_AGENT_AUDIT_LINES
        || ngx_agent_audit_len + AUDIT_LINE_MAX > NGX_AGENT_AUDIT_BYTES)
    {
        (void) ngx_agent_audit_flush();
    }

    if (ngx_agent_audit_pid != ngx_pid) {
        /* a process numbers its own lines: master and workers apart */
        ngx_agent_audit_pid = ngx_pid;
        ngx_agent_audit_sequence = 0;

        ngx_agent_audit_name(&ts);
    }

    text = head + sizeof("\"@timestamp\":\"") - 1;

    if (ts.tv_sec != second) {
        second = ts.tv_sec;
        audit_line_time((int64_t) second * 1000, text);
        text[24] = '"';
    }

    ms = ts.tv_nsec / 1000000;

    text[20] = '0' + ms / 100;
    text[21] = '0' + ms / 10 % 10;
    text[22] = '0' + ms % 10;

    audit_line_begin(line);
    audit_line_copy(line, head, sizeof(head) - 1);
    audit_line_own(line, "event", event, ngx_strlen(event));
    audit_line_copy(line, ngx_agent_audit_writer, ngx_agent_audit_writer_len);
    audit_line_number(line, "seq", (int64_t) (ngx_agent_audit_sequence
                                              + ngx_agent_audit_count + 1));

    if (task == NULL) {
        return;
    }

    whose = &ngx_agent_audit_whose;

    if (ngx_memcmp(whose->task, task, NGX_AGENT_ID_LEN) == 0
        && ngx_strcmp(whose->policy_hash, policy_hash) == 0)
    {
        audit_line_copy(line, whose->text, whose->len);
        return;
    }

    start = line->len;

    audit_line_text(line, "task", task, NGX_AGENT_ID_LEN, NGX_AGENT_ID_LEN);
    audit_line_word(line, "policy", (char *) policy);
    audit_line_word(line, "policy_hash", (char *) policy_hash);
    audit_line_number(line, "uid", (int64_t) uid);

    whose->len = line->len - start;

    ngx_memcpy(whose->task, task, NGX_AGENT_ID_LEN);
    (void) ngx_cpystrn(whose->policy_hash, (u_char *) policy_hash,
                       sizeof(whose->policy_hash));
    ngx_memcpy(whose->text, line->text + start, whose->len);
}


/* What this process is called in its lines: when it began, and its pid. */

static void
ngx_agent_audit_name(struct timespec *ts)
{
    char    *writer;
    u_char  *end;

    writer = ngx_agent_audit_writer;

    end = ngx_snprintf((u_char *) writer, sizeof(ngx_agent_audit_writer),
                       ",\"writer\":\"%xL.%P\"",
                       ((uint64_t) ts->tv_sec * 1000 + ts->tv_nsec / 1000000)
                       & 0xffffffffff, ngx_pid);

    ngx_agent_audit_writer_len = end - (u_char *) writer;
}


void
ngx_agent_audit_gather(audit_line_t *line, const u_char *task)
{
    ngx_agent_audit_add(line, task);

    ngx_post_event(&ngx_agent_audit_event, &ngx_posted_events);
}


void
ngx_agent_audit_await(audit_line_t *line, const u_char *task,
    ngx_agent_audit_wait_t *wait)
{
    ngx_agent_audit_gather(line, task);

    wait->sequence = ngx_agent_audit_sequence + ngx_agent_audit_count;
    wait->rc = NGX_AGAIN;

    ngx_agent_audit_lines[ngx_agent_audit_count - 1].allowed = 1;

    ngx_queue_insert_tail(&ngx_agent_audit_waits, &wait->queue);
}


void
ngx_agent_audit_leave(ngx_agent_audit_wait_t *wait)
{
    if (wait->queue.next) {
        ngx_queue_remove(&wait->queue);
        wait->queue.next = NULL;
    }
}


ngx_int_t
ngx_agent_audit_write(audit_line_t *line, const u_char *task)
{
    ngx_agent_audit_add(line, task);

    return ngx_agent_audit_flush();
}


ngx_int_t
ngx_agent_audit_flush(void)
{
    ngx_err_t                err;
    ngx_uint_t               i, n, lines, lost, allowed;
    ngx_agent_audit_line_t  *line;

    line = ngx_agent_audit_lines;

    n = ngx_agent_audit_append(&err);
    lost = ngx_agent_audit_count - n;

    ngx_agent_audit_sequence += n;
    ngx_agent_audit_count = 0;
    ngx_agent_audit_len = 0;

    ngx_agent_audit_tell();

    for (i = 0; i < n; i += lines) {

        allowed = line[i].allowed;

        for (lines = 1; i + lines < n; lines++) {
            if (ngx_memcmp(line[i].task, line[i + lines].task,
                           NGX_AGENT_ID_LEN)
                != 0)
            {
                break;
            }

            allowed += line[i + lines].allowed;
        }

        if (line[i].task[0]) {
            ngx_agent_slot_count(line[i].task, allowed, 0, lines);
        }
    }

    if (lost == 0) {
        return NGX_OK;
    }

    /* a box must not fill the error log through a full audit: one a second */

    ngx_agent_audit_lost += lost;

    if (ngx_time() != ngx_agent_audit_said) {
        ngx_agent_audit_said = ngx_time();

        ngx_log_error(NGX_LOG_CRIT, ngx_cycle->log, err,
                      "the audit line cannot be written (%uL so far): "
                      "what it records does not happen",
                      ngx_agent_audit_lost);
    }

    return NGX_ERROR;
}


static void
ngx_agent_audit_add(audit_line_t *line, const u_char *task)
{
    size_t                   len;
    ngx_agent_audit_line_t  *added;

    len = audit_line_end(line);

    ngx_memcpy(ngx_agent_audit_text + ngx_agent_audit_len, line->text, len);
    ngx_agent_audit_len += len;

    added = &ngx_agent_audit_lines[ngx_agent_audit_count++];
    added->end = ngx_agent_audit_len;
    added->allowed = 0;

    if (task) {
        ngx_memcpy(added->task, task, NGX_AGENT_ID_LEN);

    } else {
        ngx_memzero(added->task, NGX_AGENT_ID_LEN);
    }
}


/* How many of the lines gathered are in the file now. */

static ngx_uint_t
ngx_agent_audit_append(ngx_err_t *err)
{
    u_char                     newline;
    size_t                     len;
    ssize_t                    n;
    ngx_uint_t                 whole;
    ngx_slab_pool_t           *pool;
    ngx_agent_audit_shared_t  *shared;

    *err = 0;
    len = ngx_agent_audit_len;

    if (len == 0 || ngx_agent_audit_fd == NGX_INVALID_FILE) {
        return 0;
    }

    pool = ngx_agent_audit_pool;
    shared = pool->data;
    whole = 0;

    ngx_shmtx_lock(&pool->mutex);

    if (shared->torn) {
        newline = '\n';

        if (write(ngx_agent_audit_fd, &newline, 1) != 1) {
            *err = ngx_errno;
            goto done;
        }
    }

    /* until they are whole: a worker that is killed here clears nothing */

    shared->torn = 1;

    do {
        n = write(ngx_agent_audit_fd, ngx_agent_audit_text, len);
    } while (n == -1 && ngx_errno == NGX_EINTR);

    if (n == -1) {
        *err = ngx_errno;
        n = 0;

    } else if ((size_t) n < len) {
        *err = NGX_ENOSPC;
    }

    while (whole < ngx_agent_audit_count
           && ngx_agent_audit_lines[whole].end <= (size_t) n)
    {
        whole++;
    }

    shared->torn = (size_t) n != (whole ? ngx_agent_audit_lines[whole - 1].end
                                        : 0);

done:

    ngx_shmtx_unlock(&pool->mutex);

    return whole;
}


/* Whoever waits knows from here on: the numbers of lines lost come again. */

static void
ngx_agent_audit_tell(void)
{
    ngx_queue_t             *q;
    ngx_agent_audit_wait_t  *wait;

    for (q = ngx_queue_last(&ngx_agent_audit_waits);
         q != ngx_queue_sentinel(&ngx_agent_audit_waits);
         q = ngx_queue_prev(q))
    {
        wait = ngx_queue_data(q, ngx_agent_audit_wait_t, queue);

        if (wait->rc != NGX_AGAIN) {
            break;
        }

        wait->rc = (wait->sequence <= ngx_agent_audit_sequence) ? NGX_OK
                                                                : NGX_ERROR;
    }
}


static void
ngx_agent_audit_posted(ngx_event_t *ev)
{
    ngx_agent_audit_wait_t  *wait;

    (void) ngx_agent_audit_flush();

    while (!ngx_queue_empty(&ngx_agent_audit_waits)) {

        wait = ngx_queue_data(ngx_queue_head(&ngx_agent_audit_waits),
                              ngx_agent_audit_wait_t, queue);

        if (wait->rc == NGX_AGAIN) {
            break;                          /* has come since: is posted */
        }

        ngx_agent_audit_leave(wait);
        wait->handler(wait->ctx);
    }
}
