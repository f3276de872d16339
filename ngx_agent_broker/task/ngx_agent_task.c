/*
 * A worker's side of a task: how it begins and ends, and its doors and
 * connections.
 *
 * The launcher keeps copies of a door's open file description, so an epoll
 * entry outlives our close(): it is removed before it.
 */


#include "task/ngx_agent_task.h"


ngx_agent_task_t *
ngx_agent_task_create(ngx_log_t *log)
{
    ngx_pool_t        *pool;
    ngx_agent_task_t  *task;

    pool = ngx_create_pool(4096, ngx_cycle->log);
    if (pool == NULL) {
        return NULL;
    }

    task = ngx_pcalloc(pool, sizeof(ngx_agent_task_t));
    if (task == NULL) {
        ngx_destroy_pool(pool);
        return NULL;
    }

    task->pool = pool;
    task->references = 1;
    ngx_queue_init(&task->connections);

    return task;
}


void
ngx_agent_task_release(ngx_agent_task_t *task)
{
    if (--task->references == 0) {

        if (task->wake.timer_set) {
            ngx_del_timer(&task->wake);
        }

        if (task->wake.posted) {
            ngx_delete_posted_event(&task->wake);
        }

        if (task->share) {
            ngx_agent_share_leave(task);
        }

        ngx_destroy_pool(task->pool);
    }
}


void
ngx_agent_task_close_doors(ngx_agent_task_t *task)
{
    ngx_uint_t  i;

    for (i = 0; i < task->doors_count; i++) {
        ngx_agent_task_close_door(&task->doors[i]);
    }
}


void
ngx_agent_task_close_door(ngx_agent_door_t *door)
{
    ngx_socket_t       s;
    ngx_connection_t  *c;

    c = door->connection;

    if (c == NULL) {
        return;
    }

    door->connection = NULL;

    /*
     * Before the close: the launcher shares the description, so the entry
     * would stay in epoll and wake this worker for every connection.
     */

    if (c->read->active) {
        (void) ngx_del_event(c->read, NGX_READ_EVENT, 0);
    }

    if (c->read->timer_set) {
        ngx_del_timer(c->read);
    }

    if (c->read->posted) {
        ngx_delete_posted_event(c->read);
    }

    s = c->fd;

    ngx_free_connection(c);
    c->fd = (ngx_socket_t) -1;

    ngx_agent_given_close(s);
}


const char *
ngx_agent_task_door_name(ngx_agent_door_e kind)
{
    static const char  *names[NGX_AGENT_DOORS] = {
        [NGX_AGENT_DOOR_PROXY] = PROTOCOL_DOOR_PROXY,
        [NGX_AGENT_DOOR_WEB] = PROTOCOL_DOOR_WEB,
        [NGX_AGENT_DOOR_DNS_UDP] = PROTOCOL_DOOR_DNS_UDP,
        [NGX_AGENT_DOOR_DNS_TCP] = PROTOCOL_DOOR_DNS_TCP,
    };

    return names[kind];
}


/*
 * The connections see the end of their peer, and core's own handlers finish
 * them: requests are logged, upstream connections closed.
 */

void
ngx_agent_task_cut(ngx_agent_task_t *task)
{
    ngx_queue_t             *q;
    ngx_agent_connection_t  *ac;

    task->ended = 1;

    if (task->drop) {
        task->drop(task);
    }

    /* those that were not let in have no handler that would see it */

    while (task->share
           && !ngx_queue_empty(&task->waits[NGX_AGENT_WAIT_CONNECTION]))
    {
        q = ngx_queue_head(&task->waits[NGX_AGENT_WAIT_CONNECTION]);
        ac = ngx_queue_data(q, ngx_agent_connection_t, wait.queue);

        ngx_http_close_connection(ac->connection);
    }

    ngx_agent_queue_each(q, &task->connections) {
        ac = ngx_queue_data(q, ngx_agent_connection_t, queue);

        (void) shutdown(ac->connection->fd, SHUT_RDWR);
    }
}


/* As above; all streams of it, where it is one of HTTP/2. */

void
ngx_agent_task_shut(ngx_connection_t *c)
{
    ngx_agent_connection_t  *ac;

    ac = ngx_agent_task_connection(c);

    if (ac) {
        (void) shutdown(ac->connection->fd, SHUT_RDWR);
    }
}


/* The one handler of all doors, by which a connection of a box is known. */

void
ngx_agent_task_accepted(ngx_connection_t *c)
{
    ngx_agent_task_connection(c)->door->handler(c);
}


ngx_agent_connection_t *
ngx_agent_task_connection(ngx_connection_t *c)
{
    if (c->listening == NULL
        || c->listening->handler != ngx_agent_task_accepted)
    {
        return NULL;
    }

    return (ngx_agent_connection_t *) c->listening;
}


ngx_agent_task_t *
ngx_agent_task_of(ngx_connection_t *c)
{
    ngx_agent_connection_t  *ac;

    ac = ngx_agent_task_connection(c);

    return ac ? ac->task : NULL;
}
