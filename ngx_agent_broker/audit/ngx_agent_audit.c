/*
 * The lines of the audit.  A line that cannot be written is an error for the
 * caller: what it would have recorded does not happen.
 *
 * Lines are gathered for one pass of the event loop, and then go out in one
 * write(2); or before it, with one that cannot wait.  A request whose decision
 * is in it goes on only when the write is done: so what a worker that is
 * killed takes with it is one pass of ends, and decisions of which nothing has
 * been sent.  Only whole lines count, and under one lock those of many workers
 * never mix; after half a line the next one begins on a new one.
 */


#include "audit/ngx_agent_audit_shared.h"


typedef struct {
    u_char        task[PROTOCOL_ID_LEN];   /* zeros: of none */
    ngx_uint_t    allowed;                  /* it is a request's decision */
} ngx_agent_audit_line_t;


/* What each line has of a task, as it was in the last one. */

typedef struct {
    u_char        task[PROTOCOL_ID_LEN];
    u_char        policy_hash[POLICY_HASH_LEN + 1];
    size_t        len;
    char          text[512];
} ngx_agent_audit_whose_t;


static void ngx_agent_audit_name(struct timespec *ts);
static void ngx_agent_audit_add(audit_line_t *line, const u_char *task);
static void ngx_agent_audit_cut(off_t bytes);
static void ngx_agent_audit_tell(void);
static void ngx_agent_audit_posted(ngx_event_t *ev);


ngx_event_t  ngx_agent_audit_over;

static ngx_agent_audit_batch_t  ngx_agent_audit_batch;
static ngx_agent_audit_line_t   ngx_agent_audit_lines[NGX_AGENT_AUDIT_LINES];
static size_t                   ngx_agent_audit_len;     /* of its text */
static ngx_pid_t                ngx_agent_audit_pid;
static char                     ngx_agent_audit_writer[64];  /* with its key */
static size_t                   ngx_agent_audit_writer_len;
static uint64_t                 ngx_agent_audit_unwritten;
static time_t                   ngx_agent_audit_said;
static ngx_event_t              ngx_agent_audit_event;
static ngx_queue_t              ngx_agent_audit_waits;
static ngx_agent_audit_whose_t  ngx_agent_audit_whose;


void
ngx_agent_audit_start(ngx_cycle_t *cycle)
{
    ngx_agent_audit_event.handler = ngx_agent_audit_posted;
    ngx_agent_audit_event.log = cycle->log;

    if (ngx_agent_audit_waits.next == NULL) {
        ngx_queue_init(&ngx_agent_audit_waits);
    }
}


uint64_t
ngx_agent_audit_last(void)
{
    return ngx_agent_audit_batch.sequence;
}


ngx_uint_t
ngx_agent_audit_is_failing(void)
{
    return ngx_agent_audit_shared_is_failing();
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
    ngx_agent_audit_batch_t  *batch;
    ngx_agent_audit_whose_t  *whose;

    static char    head[] = "\"@timestamp\":\"2026-11-29T12:00:00.123Z\","
                            "\"schema\":1";
    static time_t  second;                  /* that head is of */

    /*
     * The clock is read here: nginx's cached time is that of the last pass
     * of the event loop, and a line says when it was written.
     */

    batch = &ngx_agent_audit_batch;

    (void) clock_gettime(CLOCK_REALTIME, &ts);

    /* the number of this line is settled once there is room for it */

    if (batch->count == NGX_AGENT_AUDIT_LINES
        || ngx_agent_audit_len + AUDIT_LINE_MAX > NGX_AGENT_AUDIT_BYTES)
    {
        (void) ngx_agent_audit_flush();
    }

    if (ngx_agent_audit_pid != ngx_pid) {
        /* a process numbers its own lines: master and workers apart */
        ngx_agent_audit_pid = ngx_pid;
        batch->sequence = 0;

        ngx_agent_audit_name(&ts);
    }

    text = head + sizeof("\"@timestamp\":\"") - 1;

    if (ts.tv_sec != second) {
        second = ts.tv_sec;
        audit_line_time((int64_t) second * 1000, text);
        text[24] = '"';
    }

    ms = ts.tv_nsec / 1000000;

    text[20] = (char) ('0' + ms / 100);
    text[21] = (char) ('0' + ms / 10 % 10);
    text[22] = (char) ('0' + ms % 10);

    audit_line_begin(line);
    audit_line_copy(line, head, sizeof(head) - 1);
    audit_line_own(line, "event", event, ngx_strlen(event));
    audit_line_copy(line, ngx_agent_audit_writer, ngx_agent_audit_writer_len);
    audit_line_number(line, "seq",
                      (int64_t) (batch->sequence + batch->count + 1));

    if (task == NULL) {
        return;
    }

    whose = &ngx_agent_audit_whose;

    if (ngx_memcmp(whose->task, task, PROTOCOL_ID_LEN) == 0
        && ngx_strcmp(whose->policy_hash, policy_hash) == 0)
    {
        audit_line_copy(line, whose->text, whose->len);
        return;
    }

    start = line->len;

    audit_line_text(line, "task", task, PROTOCOL_ID_LEN, PROTOCOL_ID_LEN);
    audit_line_word(line, "policy", (char *) policy);
    audit_line_word(line, "policy_hash", (char *) policy_hash);
    audit_line_number(line, "uid", (int64_t) uid);

    whose->len = line->len - start;

    ngx_memcpy(whose->task, task, PROTOCOL_ID_LEN);
    (void) ngx_cpystrn(whose->policy_hash, (u_char *) policy_hash,
                       sizeof(whose->policy_hash));
    ngx_memcpy(whose->text, line->text + start, whose->len);
}


/* What this process is called in its lines: when it began, and its pid. */

static void
ngx_agent_audit_name(struct timespec *ts)
{
    char    *writer;
    u_char  *end, *name;

    name = ngx_agent_audit_batch.writer;

    *ngx_snprintf(name, NGX_AGENT_AUDIT_WRITER - 1, "%xL.%P",
                  ((uint64_t) ts->tv_sec * 1000 + ts->tv_nsec / 1000000)
                  & 0xffffffffff, ngx_pid) = '\0';

    writer = ngx_agent_audit_writer;

    end = ngx_snprintf((u_char *) writer, sizeof(ngx_agent_audit_writer),
                       ",\"writer\":\"%s\"", name);

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
    ngx_agent_audit_wait_t *wait, ngx_uint_t is_allowed)
{
    ngx_agent_audit_batch_t  *batch;

    ngx_agent_audit_gather(line, task);

    batch = &ngx_agent_audit_batch;

    wait->sequence = batch->sequence + batch->count;
    wait->rc = NGX_AGAIN;

    ngx_agent_audit_lines[batch->count - 1].allowed = is_allowed;

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
ngx_agent_audit_write_end(audit_line_t *line)
{
    ngx_int_t  rc;

    /* what was gathered goes before it: it is the last line of its batch */

    ngx_agent_audit_batch.is_end = 1;

    rc = ngx_agent_audit_write(line, NULL);

    ngx_agent_audit_batch.is_end = 0;

    return rc;
}


ngx_int_t
ngx_agent_audit_flush(void)
{
    off_t                    cut;
    ngx_err_t                err;
    ngx_uint_t               i, n, lines, lost, allowed;
    ngx_agent_audit_line_t  *line;

    line = ngx_agent_audit_lines;

    n = ngx_agent_audit_shared_append(&ngx_agent_audit_batch, &err);
    lost = ngx_agent_audit_batch.count - n;

    if (n) {
        ngx_log_debug2(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                       "agent: %ui audit lines written, %ui lost", n, lost);
    }

    ngx_agent_audit_batch.sequence += n;
    ngx_agent_audit_batch.count = 0;
    ngx_agent_audit_len = 0;

    ngx_agent_audit_tell();

    for (i = 0; i < n; i += lines) {

        allowed = line[i].allowed;

        for (lines = 1; i + lines < n; lines++) {
            if (ngx_memcmp(line[i].task, line[i + lines].task,
                           PROTOCOL_ID_LEN)
                != 0)
            {
                break;
            }

            allowed += line[i + lines].allowed;
        }

        if (line[i].task[0]
            && ngx_agent_usage_recorded(line[i].task, allowed, lines,
                               ngx_agent_audit_batch.ends[i + lines - 1]
                               - (i ? ngx_agent_audit_batch.ends[i - 1] : 0))
               == NGX_ABORT)
        {
            ngx_post_event(&ngx_agent_audit_over, &ngx_posted_events);
        }
    }

    cut = ngx_agent_audit_shared_bytes_cut();

    if (cut) {
        ngx_log_error(NGX_LOG_ALERT, ngx_cycle->log, 0,
                      "%O bytes were cut off the audit file: to rotate it, "
                      "move it away and reopen, which loses no line", cut);

        ngx_agent_audit_cut(cut);
    }

    if (lost == 0) {
        return NGX_OK;
    }

    /* a box must not fill the error log through a full audit: one a second */

    ngx_agent_audit_unwritten += lost;

    if (ngx_time() != ngx_agent_audit_said) {
        ngx_agent_audit_said = ngx_time();

        ngx_log_error(NGX_LOG_CRIT, ngx_cycle->log, err,
                      "the audit line cannot be written (%uL so far): "
                      "what it records does not happen",
                      ngx_agent_audit_unwritten);
    }

    return NGX_ERROR;
}


static void
ngx_agent_audit_add(audit_line_t *line, const u_char *task)
{
    size_t                    len;
    ngx_agent_audit_line_t   *added;
    ngx_agent_audit_batch_t  *batch;

    batch = &ngx_agent_audit_batch;
    len = audit_line_end(line);

    ngx_memcpy(batch->text + ngx_agent_audit_len, line->text, len);
    ngx_agent_audit_len += len;

    batch->ends[batch->count] = ngx_agent_audit_len;

    added = &ngx_agent_audit_lines[batch->count++];
    added->allowed = 0;

    if (task) {
        ngx_memcpy(added->task, task, PROTOCOL_ID_LEN);

    } else {
        ngx_memzero(added->task, PROTOCOL_ID_LEN);
    }
}


/* Somebody has cut so many bytes off the file. */

static void
ngx_agent_audit_cut(off_t bytes)
{
    audit_line_t  line;

    ngx_agent_audit_begin(&line, "worker", NULL, NULL, NULL, 0);

    audit_line_word(&line, "action", "file_cut");
    audit_line_number(&line, "last_seq", (int64_t) ngx_agent_audit_last());
    audit_line_number(&line, "bytes", (int64_t) bytes);

    (void) ngx_agent_audit_write(&line, NULL);
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

        wait->rc = (wait->sequence <= ngx_agent_audit_batch.sequence) ? NGX_OK
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
