/*
 * The control protocol: a launcher asks for a task's lease here, hands the
 * box's doors over, and ends the task.  The connection is the lease: when it
 * closes, the task's doors and connections close with it.
 *
 *   NEW --open--> OPENED --serve--> SERVING --close--> CLOSING --> closed
 *     '---resume-------------------^   |
 *                                      '--drain (worker leaves)--> DRAINED
 *
 * The launcher is trusted no further than its user: every line is parsed
 * strictly, a descriptor is accepted only while one is awaited and looked at
 * before anything is done with it, and nothing here ever blocks.
 */


#include "ngx_agent_broker.h"

#include <grp.h>


#define NGX_AGENT_OPEN_TIMEOUT   5000       /* to open or resume, ms */
#define NGX_AGENT_SERVE_TIMEOUT  30000      /* from open to serve */
#define NGX_AGENT_CLOSE_TIMEOUT  1000       /* for cut connections to end */
#define NGX_AGENT_PER_UID        256        /* control connections of one uid */
#define NGX_AGENT_PARKED_MAX     32
#define NGX_AGENT_GROUPS_MAX     256
#define NGX_AGENT_LIFE_SPARE     60000      /* over a task's wall clock, ms */
#define NGX_AGENT_SWEEP          5000

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS  59                   /* Linux 4.13 */
#endif


typedef enum {
    NGX_AGENT_NEW = 0,
    NGX_AGENT_OPENED,
    NGX_AGENT_SERVING,
    NGX_AGENT_CLOSING,
    NGX_AGENT_DRAINED,
    NGX_AGENT_DONE                          /* a refusal is being sent */
} ngx_agent_phase_e;


typedef struct {
    ngx_queue_t            queue;           /* of the worker's launchers */
    ngx_connection_t      *connection;
    ngx_agent_srv_conf_t  *ascf;
    ngx_agent_main_conf_t *amcf;

    ngx_agent_phase_e      phase;
    ngx_agent_task_t      *task;

    struct ucred           peer;
    gid_t                 *groups;
    ngx_uint_t             groups_count;

    in_port_t              ports[NGX_AGENT_DOORS_MAX];
    ngx_uint_t             ports_count;
    time_t                 expires;

    ngx_socket_t           fds[NGX_AGENT_DOORS_MAX];
    ngx_uint_t             fds_count;

    u_char                *line;            /* what has come of the next one */
    size_t                 len;

    u_char                *out;             /* what is still to be sent */
    size_t                 out_len;

    json_t                *request;         /* of `close`, while cutting */
} ngx_agent_launcher_t;


typedef struct {
    const char  *op;
    void       (*handler)(ngx_agent_launcher_t *l, json_t *request);
    ngx_uint_t   phases;                    /* bits: where it is understood */
    ngx_uint_t   fds;                       /* takes descriptors */
    const char  *keys;                      /* " a b c ", all others refused */
} ngx_agent_op_t;


static void ngx_agent_control_init(ngx_connection_t *c);
static void ngx_agent_control_read(ngx_event_t *rev);
static void ngx_agent_control_write(ngx_event_t *wev);
static ssize_t ngx_agent_control_recv(ngx_agent_launcher_t *l);
static void ngx_agent_control_line(ngx_agent_launcher_t *l, u_char *line,
    size_t len);
static void ngx_agent_control_finish(ngx_agent_launcher_t *l);
static void ngx_agent_control_drain(ngx_agent_launcher_t *l);
static void ngx_agent_control_send(ngx_agent_launcher_t *l, json_t *reply);
static void ngx_agent_control_refuse(ngx_agent_launcher_t *l,
    const char *error, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void ngx_agent_control_drop_fds(ngx_agent_launcher_t *l);
static void ngx_agent_control_close_fd(ngx_agent_launcher_t *l,
    ngx_socket_t s);
static ngx_int_t ngx_agent_control_peer(ngx_agent_launcher_t *l);

static void ngx_agent_op_open(ngx_agent_launcher_t *l, json_t *request);
static void ngx_agent_op_serve(ngx_agent_launcher_t *l, json_t *request);
static void ngx_agent_op_resume(ngx_agent_launcher_t *l, json_t *request);
static void ngx_agent_op_near(ngx_agent_launcher_t *l, json_t *request);
static void ngx_agent_op_close(ngx_agent_launcher_t *l, json_t *request);
static void ngx_agent_op_policy(ngx_agent_launcher_t *l, json_t *request);

static ngx_int_t ngx_agent_control_version(ngx_agent_launcher_t *l,
    json_t *request);
static const policy_t *ngx_agent_control_policy(ngx_agent_launcher_t *l,
    ngx_agent_set_t *set, const char *name);
static ngx_int_t ngx_agent_control_env(ngx_agent_launcher_t *l,
    const policy_t *policy, json_t *env);
static ngx_int_t ngx_agent_control_text(ngx_agent_launcher_t *l,
    json_t *request, const char *key, size_t max);
static void ngx_agent_control_ports(ngx_agent_launcher_t *l,
    const policy_t *policy);
static json_t *ngx_agent_control_opened(ngx_agent_launcher_t *l,
    const policy_t *policy);
static ngx_int_t ngx_agent_control_doors(ngx_agent_launcher_t *l);
static void ngx_agent_control_closed(ngx_agent_launcher_t *l);
static void ngx_agent_control_idle(ngx_agent_task_t *task);
static void ngx_agent_control_end(ngx_agent_launcher_t *l,
    const char *reason, json_t *request);
static void ngx_agent_audit_task_end(const u_char *id,
    ngx_agent_slot_view_t *view, const char *reason, json_t *claimed);
static void ngx_agent_control_sweep(ngx_event_t *ev);


#define IN(phase)  (1 << NGX_AGENT_ ## phase)

static const ngx_agent_op_t  ngx_agent_ops[] = {

    { "open", ngx_agent_op_open, IN(NEW), 0,
      " v op policy external_id label code_sha256 env " },

    { "serve", ngx_agent_op_serve, IN(OPENED), 1,
      " op " },

    { "resume", ngx_agent_op_resume, IN(NEW), 1,
      " v op task_id lease " },

    { "near_limit", ngx_agent_op_near, IN(SERVING)|IN(DRAINED), 0,
      " op limit used " },

    { "close", ngx_agent_op_close, IN(SERVING), 0,
      " op reason exit_code usage " },

    { "policy", ngx_agent_op_policy, IN(NEW), 0,
      " v op policy " },

    { NULL, NULL, 0, 0, NULL }
};


static ngx_queue_t   ngx_agent_launchers;
static uint64_t      ngx_agent_netns;       /* the broker's own */
static ngx_socket_t  ngx_agent_parked[NGX_AGENT_PARKED_MAX];
static uid_t         ngx_agent_parked_uid[NGX_AGENT_PARKED_MAX];
static ngx_uint_t    ngx_agent_parked_count;
static ngx_event_t   ngx_agent_sweep_event;
static ngx_connection_t  ngx_agent_sweep_connection;


char *
ngx_agent_control_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_agent_srv_conf_t *ascf = conf;

    ngx_str_t                 *value, path;
    struct sockaddr_un         sun;
    ngx_listening_t           *ls;
    ngx_agent_main_conf_t     *amcf;
    ngx_http_core_srv_conf_t  *cscf;

    value = cf->args->elts;

    if (ascf->control.len) {
        return "is duplicate";
    }

    if (value[1].len < 6 || ngx_strncmp(value[1].data, "unix:", 5) != 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"agent_control\" "
                           "directive: it must be \"unix:PATH\"", &value[1]);
        return NGX_CONF_ERROR;
    }

    /* core would take a relative path from the working directory */

    path.data = value[1].data + 5;
    path.len = value[1].len - 5;

    if (ngx_conf_full_name(cf->cycle, &path, 0) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    if (path.len >= sizeof(sun.sun_path)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "the path \"%V\" in \"agent_control\" directive "
                           "is longer than a socket's may be: %uz bytes, at "
                           "most %uz", &path, path.len,
                           sizeof(sun.sun_path) - 1);
        return NGX_CONF_ERROR;
    }

    ngx_memzero(&sun, sizeof(struct sockaddr_un));
    sun.sun_family = AF_UNIX;
    (void) ngx_cpystrn((u_char *) sun.sun_path, path.data,
                       sizeof(sun.sun_path));

    ls = ngx_create_listening(cf, (struct sockaddr *) &sun,
                              sizeof(struct sockaddr_un));
    if (ls == NULL) {
        return NGX_CONF_ERROR;
    }

    cscf = ngx_http_conf_get_module_srv_conf(cf, ngx_http_core_module);
    amcf = ngx_http_conf_get_module_main_conf(cf, ngx_agent_broker_module);

    ls->handler = ngx_agent_control_init;
    ls->servers = ascf;
    ls->pool_size = 512;
    ls->logp = &cf->cycle->new_log;
    ls->log.data = &ls->addr_text;
    ls->log.handler = ngx_accept_log_error;
    ls->backlog = NGX_LISTEN_BACKLOG;
    ls->rcvbuf = -1;
    ls->sndbuf = -1;

    /*
     * "It has a listener": core adds no port 80 of its own.  Only boxes'
     * doors lead to this server.
     */

    cscf->listen = 1;

    ascf->control = path;
    ascf->core = cscf;
    ascf->file = (char *) cf->conf_file->file.name.data;
    ascf->line = cf->conf_file->line;

    amcf->servers++;

    return NGX_CONF_OK;
}


/*
 * A master that was killed leaves its socket, and bind() would fail for
 * ever.  One that nobody answers on, and that is a socket of ours, is
 * removed; one that is answered belongs to a running broker.
 */

ngx_int_t
ngx_agent_control_stale(ngx_conf_t *cf, ngx_agent_srv_conf_t *ascf)
{
    int                  rc;
    ngx_err_t            err;
    ngx_uint_t           i;
    ngx_socket_t         s;
    struct stat          st;
    ngx_cycle_t         *old;
    ngx_listening_t     *ls;
    struct sockaddr_un   sun;

    if (ngx_test_config || ngx_process == NGX_PROCESS_SIGNALLER
        || getenv("NGINX") != NULL)
    {
        return NGX_OK;
    }

    old = cf->cycle->old_cycle;
    ls = old ? old->listening.elts : NULL;

    for (i = 0; ls && i < old->listening.nelts; i++) {

        if (ls[i].sockaddr->sa_family == AF_UNIX
            && ngx_strcmp(((struct sockaddr_un *) ls[i].sockaddr)->sun_path,
                          ascf->control.data) == 0)
        {
            return NGX_OK;                  /* a reload: it is our own */
        }
    }

    if (lstat((char *) ascf->control.data, &st) == -1) {
        return NGX_OK;
    }

    if (!S_ISSOCK(st.st_mode)) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"agent_control\" \"%V\" is there and is no socket "
                      "in %s:%ui", &ascf->control, ascf->file, ascf->line);
        return NGX_ERROR;
    }

    ngx_memzero(&sun, sizeof(struct sockaddr_un));
    sun.sun_family = AF_UNIX;
    (void) ngx_cpystrn((u_char *) sun.sun_path, ascf->control.data,
                       sizeof(sun.sun_path));

    s = socket(AF_UNIX, SOCK_STREAM|SOCK_CLOEXEC|SOCK_NONBLOCK, 0);
    if (s == -1) {
        return NGX_ERROR;
    }

    rc = connect(s, (struct sockaddr *) &sun, sizeof(struct sockaddr_un));
    err = ngx_socket_errno;
    (void) close(s);

    if (rc == 0 || err == NGX_EAGAIN) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "another broker is running on \"agent_control\" "
                      "\"%V\" in %s:%ui", &ascf->control, ascf->file,
                      ascf->line);
        return NGX_ERROR;
    }

    if (err == NGX_ECONNREFUSED && st.st_uid == geteuid()) {
        ngx_log_error(NGX_LOG_NOTICE, cf->log, 0,
                      "removing the socket that an earlier broker left: "
                      "\"%V\"", &ascf->control);
        (void) unlink((char *) ascf->control.data);
    }

    return NGX_OK;
}


ngx_int_t
ngx_agent_control_start(ngx_cycle_t *cycle)
{
    ngx_socket_t  s;

    ngx_queue_init(&ngx_agent_launchers);

    s = socket(AF_UNIX, SOCK_STREAM|SOCK_CLOEXEC, 0);
    if (s != -1) {
        ngx_agent_netns = ngx_agent_netns_cookie(s);
        (void) close(s);
    }

    if (ngx_agent_netns == 0) {
        ngx_log_error(NGX_LOG_EMERG, cycle->log, ngx_errno,
                      "SO_NETNS_COOKIE is not available: a box's sockets "
                      "cannot be told from the host's; the broker needs "
                      "Linux 5.14 or newer");
        return NGX_ERROR;
    }

    ngx_agent_sweep_connection.fd = (ngx_socket_t) -1;
    ngx_agent_sweep_event.handler = ngx_agent_control_sweep;
    ngx_agent_sweep_event.data = &ngx_agent_sweep_connection;
    ngx_agent_sweep_event.log = cycle->log;
    ngx_agent_sweep_event.cancelable = 1;

    ngx_add_timer(&ngx_agent_sweep_event, NGX_AGENT_SWEEP);

    return NGX_OK;
}


/* A worker that exits: what it still has is closed, the launchers see it. */

void
ngx_agent_control_stop(ngx_cycle_t *cycle)
{
    ngx_queue_t           *q;
    ngx_agent_launcher_t  *l;

    while (!ngx_queue_empty(&ngx_agent_launchers)) {

        q = ngx_queue_head(&ngx_agent_launchers);
        l = ngx_queue_data(q, ngx_agent_launcher_t, queue);

        if (l->task) {
            ngx_agent_doors_close(l->task);
        }

        /* the task lives on: no task_end here, it is resumed elsewhere */

        l->phase = NGX_AGENT_DRAINED;
        ngx_agent_control_finish(l);
    }
}


static void
ngx_agent_control_init(ngx_connection_t *c)
{
    ngx_uint_t             n;
    ngx_queue_t           *q;
    ngx_agent_launcher_t  *l, *other;

    l = ngx_pcalloc(c->pool, sizeof(ngx_agent_launcher_t));
    if (l == NULL) {
        ngx_destroy_pool(c->pool);
        ngx_close_connection(c);
        return;
    }

    l->connection = c;
    l->ascf = c->listening->servers;
    l->amcf = ((ngx_http_conf_ctx_t *) l->ascf->core->ctx)
                  ->main_conf[ngx_agent_broker_module.ctx_index];

    c->data = l;
    c->read->handler = ngx_agent_control_read;
    c->write->handler = ngx_agent_control_write;
    c->log->action = "talking to a launcher";

    /*
     * Core tells idle connections when the worker leaves (c->close): so the
     * launcher hears of it.  Not reusable: a lease is never recycled.
     */

    c->idle = 1;

    ngx_queue_insert_tail(&ngx_agent_launchers, &l->queue);

    l->line = ngx_palloc(c->pool, NGX_AGENT_LINE_MAX);

    if (l->line == NULL || ngx_agent_control_peer(l) != NGX_OK) {
        ngx_agent_control_finish(l);
        return;
    }

    n = 0;

    for (q = ngx_queue_head(&ngx_agent_launchers);
         q != ngx_queue_sentinel(&ngx_agent_launchers);
         q = ngx_queue_next(q))
    {
        other = ngx_queue_data(q, ngx_agent_launcher_t, queue);
        n += (other->peer.uid == l->peer.uid);
    }

    ngx_add_timer(c->read, NGX_AGENT_OPEN_TIMEOUT);

    if (n > NGX_AGENT_PER_UID) {
        ngx_agent_control_refuse(l, "busy",
                                 "this user has %d control connections",
                                 NGX_AGENT_PER_UID);
        return;
    }

    for (n = 0; n < ngx_agent_parked_count; n++) {

        if (ngx_agent_parked_uid[n] == l->peer.uid) {
            ngx_agent_control_refuse(l, "not_allowed",
                                     "this user handed over a descriptor "
                                     "that was no socket");
            return;
        }
    }

    if (ngx_agent_slot_netns_used(ngx_agent_netns_cookie(c->fd))) {
        ngx_agent_control_refuse(l, "not_allowed",
                                 "a launcher does not run inside a box");
        return;
    }

    if (ngx_handle_read_event(c->read, 0) != NGX_OK) {
        ngx_agent_control_finish(l);
    }
}


/* Who connects, as the kernel says: before any byte is read. */

static ngx_int_t
ngx_agent_control_peer(ngx_agent_launcher_t *l)
{
    socklen_t          len;
    ngx_connection_t  *c;

    c = l->connection;

    len = sizeof(struct ucred);

    if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &l->peer, &len) == -1) {
        ngx_log_error(NGX_LOG_ALERT, c->log, ngx_errno,
                      "getsockopt(SO_PEERCRED) failed");
        return NGX_ERROR;
    }

    len = NGX_AGENT_GROUPS_MAX * sizeof(gid_t);

    l->groups = ngx_palloc(c->pool, len + sizeof(gid_t));
    if (l->groups == NULL) {
        return NGX_ERROR;
    }

    l->groups[0] = l->peer.gid;
    l->groups_count = 1;

    if (getsockopt(c->fd, SOL_SOCKET, SO_PEERGROUPS, l->groups + 1, &len)
        == 0)
    {
        l->groups_count += len / sizeof(gid_t);
    }

    return NGX_OK;
}


static void
ngx_agent_control_read(ngx_event_t *rev)
{
    u_char                *end, *start;
    ssize_t                n;
    ngx_connection_t      *c;
    ngx_agent_launcher_t  *l;

    c = rev->data;
    l = c->data;

    if (c->close) {
        c->close = 0;
        ngx_agent_control_drain(l);
        return;
    }

    if (rev->timedout) {
        rev->timedout = 0;

        if (l->phase == NGX_AGENT_CLOSING) {
            ngx_agent_control_closed(l);
            return;
        }

        ngx_log_error(NGX_LOG_INFO, c->log, NGX_ETIMEDOUT,
                      "launcher of uid %uD timed out", l->peer.uid);

        ngx_agent_control_finish(l);
        return;
    }

    for ( ;; ) {

        n = ngx_agent_control_recv(l);

        if (n == NGX_AGAIN) {
            break;
        }

        if (n == 0 && l->out_len) {
            /* a half-closed peer still gets its answer */
            ngx_agent_control_write(c->write);
            return;
        }

        if (n == NGX_ERROR || n == 0) {
            ngx_agent_control_finish(l);
            return;
        }

        if (l->phase == NGX_AGENT_DONE) {
            l->len = 0;
            continue;
        }

        start = l->line;

        while ((end = memchr(start, '\n', l->line + l->len - start))) {

            /* a handler may refuse: nothing after that is looked at */

            ngx_agent_control_line(l, start, end - start);

            start = end + 1;

            if (l->phase == NGX_AGENT_DONE) {
                start = l->line + l->len;
                break;
            }
        }

        l->len = l->line + l->len - start;
        ngx_memmove(l->line, start, l->len);

        if (l->len == NGX_AGENT_LINE_MAX) {
            ngx_agent_control_refuse(l, "bad_request",
                                     "a line is longer than %d bytes",
                                     NGX_AGENT_LINE_MAX);
            l->len = 0;
        }
    }

    if (l->phase == NGX_AGENT_DONE && l->out_len == 0) {
        ngx_agent_control_finish(l);
        return;
    }

    if (ngx_handle_read_event(rev, 0) != NGX_OK) {
        ngx_agent_control_finish(l);
    }
}


/*
 * Bytes of the next lines, and descriptors where one is awaited: elsewhere
 * the kernel drops them before they are ours.
 */

static ssize_t
ngx_agent_control_recv(ngx_agent_launcher_t *l)
{
    int             *fd;
    ssize_t          n;
    ngx_uint_t       i, count;
    struct iovec     iov;
    struct msghdr    msg;
    struct cmsghdr  *cmsg;

    union {
        struct cmsghdr  align;
        u_char          space[CMSG_SPACE(sizeof(int) * NGX_AGENT_DOORS_MAX)];
    } control;

    iov.iov_base = l->line + l->len;
    iov.iov_len = NGX_AGENT_LINE_MAX - l->len;

    ngx_memzero(&msg, sizeof(struct msghdr));
    msg.msg_iov = &iov;
    msg.msg_iovlen = 1;

    if (l->phase == NGX_AGENT_NEW || l->phase == NGX_AGENT_OPENED) {
        msg.msg_control = &control;
        msg.msg_controllen = sizeof(control);
    }

    do {
        n = recvmsg(l->connection->fd, &msg, MSG_DONTWAIT|MSG_CMSG_CLOEXEC);
    } while (n == -1 && ngx_socket_errno == NGX_EINTR);

    if (n == -1) {

        if (ngx_socket_errno == NGX_EAGAIN) {
            l->connection->read->ready = 0;
            return NGX_AGAIN;
        }

        return NGX_ERROR;
    }

    for (cmsg = msg.msg_controllen ? CMSG_FIRSTHDR(&msg) : NULL;
         cmsg;
         cmsg = CMSG_NXTHDR(&msg, cmsg))
    {
        if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS) {
            continue;
        }

        fd = (int *) CMSG_DATA(cmsg);
        count = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);

        for (i = 0; i < count; i++) {

            if (l->fds_count == NGX_AGENT_DOORS_MAX) {
                ngx_agent_control_close_fd(l, fd[i]);
                continue;
            }

            l->fds[l->fds_count++] = fd[i];
        }
    }

    l->len += n;

    if (msg.msg_flags & MSG_CTRUNC && msg.msg_control) {
        ngx_agent_control_refuse(l, "bad_descriptor",
                                 "more than %d descriptors in one message",
                                 NGX_AGENT_DOORS_MAX);
        l->len = 0;
    }

    return n;
}


static void
ngx_agent_control_line(ngx_agent_launcher_t *l, u_char *line, size_t len)
{
    char                   key[66];
    json_t                *request, *value;
    const char            *op, *name;
    json_error_t           error;
    const ngx_agent_op_t  *known;

    request = json_loadb((char *) line, len, JSON_REJECT_DUPLICATES, &error);

    if (!json_is_object(request)) {
        json_decref(request);
        ngx_agent_control_refuse(l, "bad_request",
                                 "a line is not one JSON object");
        return;
    }

    op = json_string_value(json_object_get(request, "op"));

    for (known = ngx_agent_ops; known->op; known++) {
        if (op && ngx_strcmp(op, known->op) == 0) {
            break;
        }
    }

    if (known->op == NULL) {
        ngx_agent_control_refuse(l, "bad_request", "unknown \"op\"");
        goto done;
    }

    if (!(known->phases & (1 << l->phase))) {
        ngx_agent_control_refuse(l, "bad_request",
                                 "\"%s\" is not awaited here", known->op);
        goto done;
    }

    json_object_foreach(request, name, value) {

        if (ngx_strlen(name) > 63 || strchr(name, ' ')
            || (snprintf(key, sizeof(key), " %s ", name),
                strstr(known->keys, key) == NULL))
        {
            ngx_agent_control_refuse(l, "bad_request",
                                     "unknown key in \"%s\"", known->op);
            goto done;
        }
    }

    if (l->fds_count && !known->fds) {
        ngx_agent_control_refuse(l, "bad_descriptor",
                                 "\"%s\" takes no descriptors", known->op);
        goto done;
    }

    known->handler(l, request);

done:

    json_decref(request);
}


static void
ngx_agent_op_open(ngx_agent_launcher_t *l, json_t *request)
{
    u_char            random[NGX_AGENT_ID_LEN / 2];
    ngx_int_t         rc;
    const char       *name;
    audit_line_t      line;
    const policy_t   *policy;
    ngx_agent_set_t  *set;

    if (ngx_agent_control_version(l, request) != NGX_OK) {
        return;
    }

    name = json_string_value(json_object_get(request, "policy"));

    if (name == NULL) {
        ngx_agent_control_refuse(l, "bad_request",
                                 "\"policy\" must be a string");
        return;
    }

    set = ngx_agent_set_get(l->connection->log);
    if (set == NULL) {
        ngx_agent_control_refuse(l, "internal", "no policies are loaded");
        return;
    }

    policy = ngx_agent_control_policy(l, set, name);

    if (policy == NULL
        || ngx_agent_control_text(l, request, "external_id", 128) != NGX_OK
        || ngx_agent_control_text(l, request, "label", 128) != NGX_OK
        || ngx_agent_control_text(l, request, "code_sha256", 64) != NGX_OK
        || ngx_agent_control_env(l, policy, json_object_get(request, "env"))
           != NGX_OK)
    {
        goto done;
    }

    l->task = ngx_agent_task_create(l->connection->log);

    if (l->task == NULL
        || ngx_agent_random(random, sizeof(random)) != NGX_OK)
    {
        ngx_agent_control_refuse(l, "internal", "out of memory");
        goto done;
    }

    ngx_agent_hex(l->task->id, random, sizeof(random));
    l->task->uid = l->peer.uid;
    (void) ngx_cpystrn(l->task->policy, (u_char *) policy->name,
                       sizeof(l->task->policy));

    rc = ngx_agent_slot_create(l->task->id, l->peer.uid, l->peer.pid, policy,
                               policy->limits[LIMIT_WALL_CLOCK]
                               + NGX_AGENT_LIFE_SPARE);

    if (rc != NGX_OK) {
        ngx_agent_task_release(l->task);
        l->task = NULL;
        ngx_agent_control_refuse(l, "busy",
                                 "the zone is full of live tasks: "
                                 "make \"agent_zone\" larger");
        goto done;
    }

    l->phase = NGX_AGENT_OPENED;
    l->expires = ngx_time() + (policy->limits[LIMIT_WALL_CLOCK]
                               + NGX_AGENT_LIFE_SPARE) / 1000;

    ngx_agent_audit_begin(&line, "task_start", l->task->id, l->task->policy,
                          (u_char *) policy->hash, l->peer.uid);
    audit_line_number(&line, "pid", l->peer.pid);

    /* what the launcher says of itself stands apart from what we know */

    audit_line_open(&line, "claimed");
    audit_line_word(&line, "external_id",
               json_string_value(json_object_get(request, "external_id")));
    audit_line_word(&line, "label",
               json_string_value(json_object_get(request, "label")));
    audit_line_word(&line, "code_sha256",
               json_string_value(json_object_get(request, "code_sha256")));
    audit_line_close(&line);

    if (ngx_agent_audit_write(&line, l->task->id) != NGX_OK) {
        ngx_agent_control_refuse(l, "internal",
                                 "the audit log cannot be written");
        goto done;
    }

    ngx_agent_control_ports(l, policy);

    ngx_add_timer(l->connection->read, NGX_AGENT_SERVE_TIMEOUT);

    ngx_agent_control_send(l, ngx_agent_control_opened(l, policy));

done:

    ngx_agent_set_release(set);
}


/* NULL: refused. */

static const policy_t *
ngx_agent_control_policy(ngx_agent_launcher_t *l, ngx_agent_set_t *set,
    const char *name)
{
    const policy_t  *policy;

    policy = policy_set_find(set->policies, name);

    if (policy == NULL) {
        ngx_agent_control_refuse(l, "policy_unknown",
                                 "there is no policy of this name");
        return NULL;
    }

    if (!policy_allows_launcher(policy, l->peer.uid, l->groups,
                                l->groups_count, geteuid()))
    {
        ngx_agent_control_refuse(l, "not_allowed",
                                 "uid %u may not open tasks of this policy: "
                                 "add \"launchers user:NAME;\" to it",
                                 (unsigned) l->peer.uid);
        return NULL;
    }

    return policy;
}


static ngx_int_t
ngx_agent_control_version(ngx_agent_launcher_t *l, json_t *request)
{
    json_t  *v;

    v = json_object_get(request, "v");

    if (!json_is_integer(v)
        || json_integer_value(v) != NGX_AGENT_PROTOCOL)
    {
        ngx_agent_control_refuse(l, "version",
                                 "this broker speaks version %d only",
                                 NGX_AGENT_PROTOCOL);
        return NGX_DECLINED;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_agent_control_text(ngx_agent_launcher_t *l, json_t *request,
    const char *key, size_t max)
{
    size_t       i, n;
    json_t      *value;
    const char  *p;

    value = json_object_get(request, key);

    if (value == NULL) {
        return NGX_OK;
    }

    p = json_string_value(value);
    n = json_string_length(value);

    if (p == NULL || n > max) {
        ngx_agent_control_refuse(l, "bad_request",
                                 "\"%s\" must be a string of at most %d bytes",
                                 key, (int) max);
        return NGX_DECLINED;
    }

    for (i = 0; i < n; i++) {

        if ((u_char) p[i] < 0x20 || p[i] == 0x7f) {
            ngx_agent_control_refuse(l, "bad_request",
                                     "\"%s\" holds a control byte", key);
            return NGX_DECLINED;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_agent_control_env(ngx_agent_launcher_t *l, const policy_t *policy,
    json_t *env)
{
    size_t       i;
    json_t      *value;
    const char  *name;

    if (env == NULL) {
        return NGX_OK;
    }

    if (!json_is_object(env)) {
        ngx_agent_control_refuse(l, "bad_request",
                                 "\"env\" must be an object");
        return NGX_DECLINED;
    }

    json_object_foreach(env, name, value) {

        for (i = 0; i < policy->env_count; i++) {
            if (ngx_strcmp(policy->env[i], name) == 0) {
                break;
            }
        }

        if (i == policy->env_count || !json_is_string(value)) {
            ngx_agent_control_refuse(l, "bad_request",
                                     "\"env\" holds a name that the policy "
                                     "does not list");
            return NGX_DECLINED;
        }
    }

    return NGX_OK;
}


/* The doors of a task of this policy. */

static void
ngx_agent_control_ports(ngx_agent_launcher_t *l, const policy_t *policy)
{
    l->ports[0] = NGX_AGENT_PORT_PROXY;
    l->ports_count = 1;
}


static json_t *
ngx_agent_control_opened(ngx_agent_launcher_t *l, const policy_t *policy)
{
    char     rule[NGX_AGENT_RULE_NAME];
    size_t   i;
    json_t  *reply, *limits, *list, *box;

    limits = json_object();

    for (i = 0; i < LIMIT_COUNT; i++) {
        (void) json_object_set_new(limits, limit_table[i].key,
                  limit_table[i].unit == UNIT_CORES
                  ? json_real((double) policy->limits[i] / 1000)
                  : json_integer((json_int_t) policy->limits[i]));
    }

    box = json_pack("{s:s, s:[], s:[], s:[]}", "isolation", policy->isolation,
                    "writable", "readable", "env");

    list = json_object_get(box, "writable");

    for (i = 0; i < policy->writable_count; i++) {
        (void) json_array_append_new(list,
                  json_pack("{s:s, s:I}", "path", policy->writable[i].path,
                            "bytes",
                            (json_int_t) policy->writable[i].bytes));
    }

    list = json_object_get(box, "readable");

    for (i = 0; i < policy->readable_count; i++) {
        (void) json_array_append_new(list, json_string(policy->readable[i]));
    }

    list = json_object_get(box, "env");

    for (i = 0; i < policy->env_count; i++) {
        (void) json_array_append_new(list, json_string(policy->env[i]));
    }

    list = json_array();

    for (i = 0; i < policy->rules_count && i < 64; i++) {

        (void) json_array_append_new(list,
                  json_string(ngx_agent_rule_name(policy->rules[i], rule)));
    }

    reply = json_pack("{s:b, s:i, s:s#, s:o, s:o, s:n, s:o, s:I, s:s}",
                      "ok", 1, "v", NGX_AGENT_PROTOCOL,
                      "task_id", l->task->id, NGX_AGENT_ID_LEN,
                      "limits", limits, "box", box, "ca",
                      "hosts", list,
                      "hosts_count", (json_int_t) policy->rules_count,
                      "policy_hash", policy->hash);

    list = json_array();

    for (i = 0; i < l->ports_count; i++) {
        (void) json_array_append_new(list,
                  json_pack("{s:s, s:i}", "name", "proxy", "port",
                            (int) l->ports[i]));
    }

    (void) json_object_set_new(reply, "doors", list);

    return reply;
}


static void
ngx_agent_op_serve(ngx_agent_launcher_t *l, json_t *request)
{
    (void) ngx_agent_control_doors(l);
}


/*
 * What serve and resume share: the sockets are checked, the slot taken for
 * this worker, the doors opened, the lease made.
 */

static ngx_int_t
ngx_agent_control_doors(ngx_agent_launcher_t *l)
{
    char                lease[NGX_AGENT_LEASE_MAX];
    uint64_t            netns;
    ngx_int_t           rc;
    ngx_uint_t          i, n;
    const char         *why;
    ngx_agent_task_t   *task;

    task = l->task;

    if (l->fds_count != l->ports_count) {
        ngx_agent_control_refuse(l, "bad_descriptor",
                                 "%d sockets were handed over for %d doors",
                                 (int) l->fds_count, (int) l->ports_count);
        return NGX_DECLINED;
    }

    netns = 0;

    for (i = 0; i < l->fds_count; i++) {

        why = ngx_agent_door_check(l->fds[i], l->ports[i], ngx_agent_netns,
                                   &netns);
        if (why) {
            ngx_agent_control_refuse(l, "bad_descriptor", "%s", why);
            return NGX_DECLINED;
        }
    }

    rc = ngx_agent_slot_take(task->id, l->peer.uid, netns, &task->sequence);

    if (rc != NGX_OK) {
        ngx_agent_control_refuse(l,
                         rc == NGX_DECLINED ? "task_unknown"
                                            : "bad_descriptor",
                         rc == NGX_DECLINED
                         ? "the task has ended"
                         : "the net namespace is not this task's alone");
        return NGX_DECLINED;
    }

    task->netns = netns;

    n = l->fds_count;
    l->fds_count = 0;

    if (ngx_agent_doors_open(task, l->ascf, l->fds, n) != NGX_OK
        || ngx_agent_lease_make(l->amcf, task->id, l->peer.uid, task->policy,
                                netns, l->expires, lease)
           == 0)
    {
        ngx_agent_control_refuse(l, "busy",
                                 "no connection is free for the doors: raise "
                                 "\"worker_connections\"");
        return NGX_DECLINED;
    }

    if (l->connection->read->timer_set) {
        ngx_del_timer(l->connection->read);
    }

    l->phase = NGX_AGENT_SERVING;

    ngx_agent_control_send(l, json_pack("{s:b, s:s}", "ok", 1,
                                        "lease", lease));

    if (ngx_exiting || ngx_quit) {
        ngx_agent_control_drain(l);
    }

    return NGX_OK;
}


static void
ngx_agent_op_resume(ngx_agent_launcher_t *l, json_t *request)
{
    u_char                  name[POLICY_NAME_MAX + 1];
    json_t                 *id;
    time_t                  expires;
    uint64_t                netns;
    const char             *lease;
    audit_line_t            line;
    const policy_t         *policy;
    ngx_agent_set_t        *set;
    ngx_agent_slot_view_t   view;

    if (ngx_agent_control_version(l, request) != NGX_OK) {
        return;
    }

    id = json_object_get(request, "task_id");
    lease = json_string_value(json_object_get(request, "lease"));

    if (!json_is_string(id) || json_string_length(id) != NGX_AGENT_ID_LEN
        || lease == NULL)
    {
        ngx_agent_control_refuse(l, "bad_request",
                                 "\"task_id\" and \"lease\" must be strings");
        return;
    }

    if (l->fds_count == 0) {
        ngx_agent_control_refuse(l, "bad_descriptor",
                                 "no sockets were handed over");
        return;
    }

    netns = ngx_agent_netns_cookie(l->fds[0]);

    if (ngx_agent_lease_check(l->amcf, lease,
                              (u_char *) json_string_value(id), l->peer.uid,
                              netns, name, &expires)
        != NGX_OK)
    {
        ngx_agent_control_refuse(l, "lease_invalid",
                                 "the lease is not this user's, of this net "
                                 "namespace, or has expired");
        return;
    }

    set = ngx_agent_set_get(l->connection->log);
    if (set == NULL) {
        ngx_agent_control_refuse(l, "internal", "no policies are loaded");
        return;
    }

    policy = policy_set_find(set->policies, (char *) name);

    if (policy == NULL
        || !policy_allows_launcher(policy, l->peer.uid, l->groups,
                                   l->groups_count, geteuid()))
    {
        ngx_agent_control_refuse(l, "policy_gone",
                                 "the policy is gone, or this user may no "
                                 "longer use it");
        goto done;
    }

    l->task = ngx_agent_task_create(l->connection->log);

    if (l->task == NULL) {
        ngx_agent_control_refuse(l, "internal", "out of memory");
        goto done;
    }

    ngx_memcpy(l->task->id, json_string_value(id), NGX_AGENT_ID_LEN);
    ngx_memcpy(l->task->policy, name, sizeof(name));
    l->task->uid = l->peer.uid;
    l->expires = expires;

    if (ngx_agent_slot_view(l->task->id, &view) != NGX_OK
        && ngx_agent_slot_create(l->task->id, l->peer.uid, l->peer.pid,
                                 policy, (expires - ngx_time()) * 1000)
           == NGX_BUSY)
    {
        /* a broker that was restarted: its zone knows no task yet */

        ngx_agent_task_release(l->task);
        l->task = NULL;
        ngx_agent_control_refuse(l, "busy", "the zone is full of live tasks");
        goto done;
    }

    ngx_agent_control_ports(l, policy);

    if (ngx_agent_control_doors(l) != NGX_OK) {
        ngx_agent_task_release(l->task);
        l->task = NULL;
        goto done;
    }

    ngx_agent_audit_begin(&line, "task_start", l->task->id, l->task->policy,
                          (u_char *) policy->hash, l->peer.uid);
    audit_line_number(&line, "pid", l->peer.pid);
    audit_line_bool(&line, "resumed", true);
    (void) ngx_agent_audit_write(&line, l->task->id);

done:

    ngx_agent_set_release(set);
}


static void
ngx_agent_op_near(ngx_agent_launcher_t *l, json_t *request)
{
    json_t                 *used;
    const char             *limit;
    audit_line_t            line;
    ngx_agent_slot_view_t   view;

    limit = json_string_value(json_object_get(request, "limit"));
    used = json_object_get(request, "used");

    if (limit == NULL || ngx_strlen(limit) > 32 || !json_is_integer(used)) {
        ngx_agent_control_refuse(l, "bad_request",
                                 "\"limit\" must be a string and \"used\" a "
                                 "number");
        return;
    }

    if (ngx_agent_slot_view(l->task->id, &view) != NGX_OK) {
        return;
    }

    ngx_agent_audit_begin(&line, "near_limit", l->task->id, view.policy,
                          view.policy_hash, view.uid);
    audit_line_open(&line, "claimed");
    audit_line_word(&line, "limit", limit);
    audit_line_number(&line, "used", json_integer_value(used));
    audit_line_close(&line);

    (void) ngx_agent_audit_write(&line, l->task->id);
}


/*
 * The task's connections are cut first, and their end lines written: then
 * its own end line, and only then the answer.
 */

static void
ngx_agent_op_close(ngx_agent_launcher_t *l, json_t *request)
{
    if (!json_is_string(json_object_get(request, "reason"))) {
        ngx_agent_control_refuse(l, "bad_request",
                                 "\"reason\" must be a string");
        return;
    }

    l->phase = NGX_AGENT_CLOSING;
    l->request = json_incref(request);

    ngx_agent_doors_close(l->task);
    ngx_agent_task_cut(l->task);

    if (ngx_queue_empty(&l->task->connections)) {
        ngx_agent_control_closed(l);
        return;
    }

    l->task->data = l;
    l->task->idle = ngx_agent_control_idle;

    ngx_add_timer(l->connection->read, NGX_AGENT_CLOSE_TIMEOUT);
}


/* The last connection is gone: the answer is sent from the event loop. */

static void
ngx_agent_control_idle(ngx_agent_task_t *task)
{
    ngx_agent_launcher_t *l = task->data;

    task->idle = NULL;

    l->connection->read->timedout = 1;
    ngx_post_event(l->connection->read, &ngx_posted_events);
}


static void
ngx_agent_control_closed(ngx_agent_launcher_t *l)
{
    json_t                 *denied;
    ngx_uint_t              count;
    ngx_agent_slot_view_t   view;

    l->task->idle = NULL;

    if (l->connection->read->timer_set) {
        ngx_del_timer(l->connection->read);
    }

    denied = ngx_agent_slot_refusals(l->task->id, &count);

    if (ngx_agent_slot_view(l->task->id, &view) != NGX_OK) {
        ngx_memzero(&view, sizeof(ngx_agent_slot_view_t));
    }

    ngx_agent_control_end(l,
             json_string_value(json_object_get(l->request, "reason")),
             l->request);

    json_decref(l->request);
    l->request = NULL;

    l->phase = NGX_AGENT_DONE;

    ngx_agent_control_send(l,
             json_pack("{s:b, s:{s:I, s:o, s:I, s:I}}", "ok", 1, "egress",
                       "allowed", (json_int_t) view.allowed,
                       "denied", denied,
                       "denied_count", (json_int_t) count,
                       "audit_lines", (json_int_t) view.audit_lines + 1));
}


static void
ngx_agent_op_policy(ngx_agent_launcher_t *l, json_t *request)
{
    char             *text;
    size_t            len;
    json_t           *value;
    const char       *name;
    const policy_t   *policy;
    ngx_agent_set_t  *set;

    if (ngx_agent_control_version(l, request) != NGX_OK) {
        return;
    }

    name = json_string_value(json_object_get(request, "policy"));

    if (name == NULL) {
        ngx_agent_control_refuse(l, "bad_request",
                                 "\"policy\" must be a string");
        return;
    }

    set = ngx_agent_set_get(l->connection->log);
    if (set == NULL) {
        ngx_agent_control_refuse(l, "internal", "no policies are loaded");
        return;
    }

    policy = ngx_agent_control_policy(l, set, name);

    if (policy) {
        text = policy_dump((policy_t *) policy, &len);
        value = text ? json_loadb(text, len, 0, NULL) : NULL;
        free(text);

        l->phase = NGX_AGENT_DONE;

        ngx_agent_control_send(l, json_pack("{s:b, s:o}", "ok", 1,
                                            "policy", value));
    }

    ngx_agent_set_release(set);
}


/*
 * This worker leaves (reload, quit): the launcher is told, the doors are
 * free for the next worker at once.  Connections that were accepted here are
 * served to their end; this connection stays, so that the end of the task is
 * heard.
 */

static void
ngx_agent_control_drain(ngx_agent_launcher_t *l)
{
    switch (l->phase) {

    case NGX_AGENT_SERVING:
        ngx_agent_doors_close(l->task);
        l->phase = NGX_AGENT_DRAINED;
        ngx_agent_control_send(l, json_pack("{s:s}", "event", "drain"));
        return;

    case NGX_AGENT_NEW:

        /* nothing was asked yet: the launcher connects again */

        ngx_agent_control_finish(l);
        return;

    default:
        return;
    }
}


/* The connection is over, whoever ended it; l is gone with it. */

static void
ngx_agent_control_finish(ngx_agent_launcher_t *l)
{
    ngx_connection_t  *c;

    c = l->connection;

    if (l->task) {
        ngx_agent_doors_close(l->task);
        l->task->idle = NULL;

        switch (l->phase) {

        case NGX_AGENT_OPENED:
        case NGX_AGENT_SERVING:
        case NGX_AGENT_CLOSING:
            ngx_agent_control_end(l, "launcher_lost", NULL);
            break;

        default:
            break;
        }

        ngx_agent_task_cut(l->task);
        ngx_agent_task_release(l->task);
        l->task = NULL;
    }

    ngx_agent_control_drop_fds(l);

    json_decref(l->request);
    free(l->out);

    ngx_queue_remove(&l->queue);

    ngx_destroy_pool(c->pool);
    ngx_close_connection(c);
}


/* Writes the task's end, if its lease is still this worker's. */

static void
ngx_agent_control_end(ngx_agent_launcher_t *l, const char *reason,
    json_t *request)
{
    ngx_agent_slot_view_t  view;

    if (ngx_agent_slot_free(l->task->id, l->task->sequence, &view)
        == NGX_OK)
    {
        ngx_agent_audit_task_end(l->task->id, &view, reason, request);
    }
}


static void
ngx_agent_audit_task_end(const u_char *id, ngx_agent_slot_view_t *view,
    const char *reason, json_t *claimed)
{
    json_t        *usage, *value;
    audit_line_t   line;
    const char   **key;

    static const char  *keys[] = { "wall_ms", "cpu_ms", "memory_peak",
                                   "pids_peak", "disk_bytes", NULL };

    ngx_agent_audit_begin(&line, "task_end", id, view->policy,
                          view->policy_hash, view->uid);

    audit_line_word(&line, "reason", reason);
    audit_line_number(&line, "allowed", (int64_t) view->allowed);
    audit_line_number(&line, "denied", (int64_t) view->denied);
    audit_line_number(&line, "audit_lines", (int64_t) view->audit_lines + 1);

    if (claimed) {
        audit_line_open(&line, "claimed");

        value = json_object_get(claimed, "exit_code");

        if (json_is_integer(value)) {
            audit_line_number(&line, "exit_code", json_integer_value(value));
        }

        usage = json_object_get(claimed, "usage");

        for (key = keys; *key; key++) {
            value = json_object_get(usage, *key);

            if (json_is_integer(value)) {
                audit_line_number(&line, *key, json_integer_value(value));
            }
        }

        audit_line_close(&line);
    }

    (void) ngx_agent_audit_write(&line, NULL);
}


static void
ngx_agent_control_refuse(ngx_agent_launcher_t *l, const char *error,
    const char *fmt, ...)
{
    char          message[256];
    va_list       args;
    audit_line_t  line;

    va_start(args, fmt);
    (void) vsnprintf(message, sizeof(message), fmt, args);
    va_end(args);

    ngx_agent_audit_begin(&line, "task_refused", NULL, NULL, NULL, 0);
    audit_line_number(&line, "uid", l->peer.uid);
    audit_line_number(&line, "pid", l->peer.pid);
    audit_line_word(&line, "reason", error);
    audit_line_word(&line, "message", message);
    (void) ngx_agent_audit_write(&line, NULL);

    if (l->task) {
        ngx_agent_doors_close(l->task);
        ngx_agent_task_cut(l->task);
        ngx_agent_control_end(l, "launcher_refused", NULL);
    }

    l->phase = NGX_AGENT_DONE;

    ngx_agent_control_drop_fds(l);

    ngx_agent_control_send(l, json_pack("{s:b, s:s, s:s}", "ok", 0,
                                        "error", error,
                                        "message", message));
}


static void
ngx_agent_control_send(ngx_agent_launcher_t *l, json_t *reply)
{
    char    *text;
    size_t   len;
    u_char  *out;

    text = reply ? json_dumps(reply, JSON_COMPACT|JSON_ENSURE_ASCII
                                     |JSON_REAL_PRECISION(9)) : NULL;

    json_decref(reply);

    if (text == NULL) {
        ngx_log_error(NGX_LOG_ALERT, l->connection->log, 0,
                      "no memory for an answer to a launcher");
        return;
    }

    len = ngx_strlen(text);
    out = realloc(l->out, l->out_len + len + 1);

    if (out) {
        ngx_memcpy(out + l->out_len, text, len);
        out[l->out_len + len] = '\n';
        l->out = out;
        l->out_len += len + 1;
    }

    free(text);

    ngx_post_event(l->connection->write, &ngx_posted_events);
}


static void
ngx_agent_control_write(ngx_event_t *wev)
{
    ssize_t                n;
    ngx_connection_t      *c;
    ngx_agent_launcher_t  *l;

    c = wev->data;
    l = c->data;

    while (l->out_len) {

        n = c->send(c, l->out, l->out_len);

        if (n == NGX_ERROR) {
            ngx_agent_control_finish(l);
            return;
        }

        if (n == NGX_AGAIN) {
            break;
        }

        l->out_len -= n;
        ngx_memmove(l->out, l->out + n, l->out_len);
    }

    if (l->out_len == 0 && l->phase == NGX_AGENT_DONE) {
        ngx_agent_control_finish(l);
        return;
    }

    if (ngx_handle_write_event(wev, 0) != NGX_OK) {
        ngx_agent_control_finish(l);
    }
}


static void
ngx_agent_control_drop_fds(ngx_agent_launcher_t *l)
{
    while (l->fds_count) {
        ngx_agent_control_close_fd(l, l->fds[--l->fds_count]);
    }
}


/*
 * Closing a foreign descriptor can block for ever (a file of a FUSE mount
 * that does not answer).  A socket's close does not, once it does not
 * linger; what is no socket is put aside until this process ends, and its
 * user is served no more.
 */

static void
ngx_agent_control_close_fd(ngx_agent_launcher_t *l, ngx_socket_t s)
{
    int            domain;
    socklen_t      len;
    struct linger  linger;

    len = sizeof(int);

    if (getsockopt(s, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0) {
        linger.l_onoff = 0;
        linger.l_linger = 0;

        (void) setsockopt(s, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
        (void) ngx_close_socket(s);
        return;
    }

    if (ngx_agent_parked_count < NGX_AGENT_PARKED_MAX) {
        ngx_agent_parked[ngx_agent_parked_count] = s;
        ngx_agent_parked_uid[ngx_agent_parked_count] = l->peer.uid;
        ngx_agent_parked_count++;
    }

    /* past the bound the number leaks: nothing is worth a stopped worker */

    ngx_log_error(NGX_LOG_ERR, l->connection->log, 0,
                  "uid %uD handed over a descriptor that is no socket",
                  l->peer.uid);
}


/*
 * Tasks whose worker was killed and whose launcher is gone too: nobody is
 * left to end them but their time.
 */

static void
ngx_agent_control_sweep(ngx_event_t *ev)
{
    u_char                 id[NGX_AGENT_ID_LEN];
    ngx_agent_slot_view_t  view;

    while (ngx_agent_slot_expired(id, &view) == NGX_OK) {
        ngx_agent_audit_task_end(id, &view, "launcher_lost", NULL);
    }

    if (!ngx_exiting) {
        ngx_add_timer(ev, NGX_AGENT_SWEEP);
    }
}
