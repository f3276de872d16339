/*
 * Sockets that a launcher has given.  It keeps the same open file description,
 * and may have prepared it so that a call on it waits: no worker waits with it.
 */


#include "task/ngx_agent_task.h"

#include <signal.h>
#include <sys/syscall.h>


#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id  _sigev_un._tid
#endif

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE  71             /* Linux 5.14 */
#endif

#define NGX_AGENT_INTERRUPT_NS  2000000


static timer_t    ngx_agent_interrupt_timer;
static ngx_pid_t  ngx_agent_interrupt_pid;


void
ngx_agent_given_interrupt(ngx_uint_t on)
{
    struct sigevent    event;
    struct itimerspec  when;

    if (ngx_agent_interrupt_pid != ngx_pid) {

        /* timers are not inherited by fork(2) */

        ngx_memzero(&event, sizeof(struct sigevent));
        event.sigev_notify = SIGEV_THREAD_ID;
        event.sigev_signo = SIGALRM;
        event.sigev_notify_thread_id = (pid_t) syscall(SYS_gettid);

        if (timer_create(CLOCK_MONOTONIC, &event, &ngx_agent_interrupt_timer)
            == -1)
        {
            return;
        }

        ngx_agent_interrupt_pid = ngx_pid;
    }

    ngx_memzero(&when, sizeof(struct itimerspec));

    if (on) {
        when.it_value.tv_nsec = NGX_AGENT_INTERRUPT_NS;
        when.it_interval.tv_nsec = NGX_AGENT_INTERRUPT_NS;
    }

    (void) timer_settime(ngx_agent_interrupt_timer, 0, &when, NULL);
}


/*
 * A socket that lingers makes its last close wait until what it has sent is
 * taken.  Which close is the last is the launcher's to say, and a Unix socket
 * may hold such a one among the messages that it has not read.
 */

void
ngx_agent_given_close(ngx_socket_t s)
{
    ngx_agent_given_interrupt(1);
    (void) ngx_close_socket(s);
    ngx_agent_given_interrupt(0);
}


uint64_t
ngx_agent_given_netns(ngx_socket_t s)
{
    uint64_t   cookie;
    socklen_t  len;

    cookie = 0;
    len = sizeof(cookie);

    if (getsockopt(s, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len) == -1) {
        return 0;
    }

    return cookie;
}
