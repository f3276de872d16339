/*
 * How the writers get the descriptor of the newest audit file: the master
 * leaves it in a socket pair, whose one message everybody may look at.
 */


#include "audit/ngx_agent_audit_shared.h"


/* What is left for the writers: a generation, and its descriptor. */

typedef struct {
    struct iovec        iov;
    struct msghdr       msg;

    union {
        struct cmsghdr  align;
        u_char          space[CMSG_SPACE(sizeof(int))];
    } control;
} ngx_agent_audit_message_t;


static void ngx_agent_audit_fd_message(ngx_agent_audit_message_t *message,
    uint64_t *generation);


ngx_fd_t         ngx_agent_audit_fd = NGX_INVALID_FILE;
static uint64_t  ngx_agent_audit_generation;    /* of the descriptor */

/* of the life of the master, whatever is reloaded */

static int       ngx_agent_audit_fd_pair[2] = { -1, -1 };


ngx_int_t
ngx_agent_audit_fd_init(ngx_log_t *log)
{
    if (ngx_agent_audit_fd_pair[0] == -1
        && socketpair(AF_UNIX, SOCK_DGRAM|SOCK_CLOEXEC, 0,
                      ngx_agent_audit_fd_pair)
           == -1)
    {
        ngx_log_error(NGX_LOG_EMERG, log, ngx_errno,
                      "socketpair() for \"agent_audit\" failed");
        return NGX_ERROR;
    }

    return NGX_OK;
}


/*
 * Leaves the descriptor for everybody, in place of the one before.  Under the
 * lock; the new message is there before the old one goes, so that a failure
 * changes nothing.
 */

ngx_int_t
ngx_agent_audit_fd_send(ngx_agent_audit_shared_t *shared, ngx_fd_t fd)
{
    uint64_t                   generation, before;
    struct cmsghdr            *cmsg;
    ngx_agent_audit_message_t   message;

    if (shared->generation == 0) {

        /* what is there, if anything, is of another zone */

        while (recv(ngx_agent_audit_fd_pair[1], &before, sizeof(before),
                    MSG_DONTWAIT)
               > 0)
        { /* void */ }
    }

    generation = shared->generation + 1;

    ngx_agent_audit_fd_message(&message, &generation);

    cmsg = CMSG_FIRSTHDR(&message.msg);
    cmsg->cmsg_level = SOL_SOCKET;
    cmsg->cmsg_type = SCM_RIGHTS;
    cmsg->cmsg_len = CMSG_LEN(sizeof(int));
    ngx_memcpy(CMSG_DATA(cmsg), &fd, sizeof(int));

    if (sendmsg(ngx_agent_audit_fd_pair[0], &message.msg,
                MSG_DONTWAIT|MSG_NOSIGNAL)
        != (ssize_t) sizeof(generation))
    {
        return NGX_ERROR;
    }

    while (recv(ngx_agent_audit_fd_pair[1], &before, sizeof(before),
                MSG_DONTWAIT|MSG_PEEK)
           == (ssize_t) sizeof(before)
           && before != generation)
    {
        (void) recv(ngx_agent_audit_fd_pair[1], &before, sizeof(before),
                    MSG_DONTWAIT);
    }

    shared->generation = generation;
    ngx_agent_audit_generation = generation;

    return NGX_OK;
}


void
ngx_agent_audit_fd_skip(ngx_agent_audit_shared_t *shared)
{
    ngx_agent_audit_generation = ++shared->generation;
}


/* The newest file's descriptor takes the place of an old one. */

ngx_int_t
ngx_agent_audit_fd_receive(ngx_agent_audit_shared_t *shared, ngx_err_t *err)
{
    int                        fd;
    ssize_t                    n;
    uint64_t                   generation;
    ngx_int_t                  rc;
    struct cmsghdr            *cmsg;
    ngx_agent_audit_message_t   message;

    if (ngx_agent_audit_generation == shared->generation) {
        return NGX_OK;
    }

    ngx_agent_audit_fd_message(&message, &generation);

    do {
        n = recvmsg(ngx_agent_audit_fd_pair[1], &message.msg,
                    MSG_PEEK|MSG_DONTWAIT|MSG_CMSG_CLOEXEC);
    } while (n == -1 && ngx_errno == NGX_EINTR);

    if (n == -1) {
        *err = ngx_errno;
        return NGX_ERROR;
    }

    cmsg = message.msg.msg_controllen ? CMSG_FIRSTHDR(&message.msg) : NULL;

    if (cmsg == NULL || cmsg->cmsg_level != SOL_SOCKET
        || cmsg->cmsg_type != SCM_RIGHTS
        || cmsg->cmsg_len != CMSG_LEN(sizeof(int)))
    {
        *err = EMFILE;                      /* no number was left for it */
        return NGX_ERROR;
    }

    ngx_memcpy(&fd, CMSG_DATA(cmsg), sizeof(int));

    rc = NGX_ERROR;
    *err = ESTALE;

    if (n == (ssize_t) sizeof(generation) && generation == shared->generation) {

        if (dup3(fd, ngx_agent_audit_fd, O_CLOEXEC) == -1) {
            *err = ngx_errno;

        } else {
            ngx_agent_audit_generation = generation;
            rc = NGX_OK;
        }
    }

    (void) close(fd);

    return rc;
}


void
ngx_agent_audit_fd_close(void)
{
    if (ngx_process == NGX_PROCESS_WORKER) {
        (void) close(ngx_agent_audit_fd_pair[0]);
        ngx_agent_audit_fd_pair[0] = -1;
    }
}


static void
ngx_agent_audit_fd_message(ngx_agent_audit_message_t *message,
    uint64_t *generation)
{
    ngx_memzero(message, sizeof(ngx_agent_audit_message_t));

    message->iov.iov_base = generation;
    message->iov.iov_len = sizeof(uint64_t);

    message->msg.msg_iov = &message->iov;
    message->msg.msg_iovlen = 1;
    message->msg.msg_control = &message->control;
    message->msg.msg_controllen = sizeof(message->control);
}
