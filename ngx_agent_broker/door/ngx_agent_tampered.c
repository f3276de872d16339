/*
 * A door's socket that its launcher, who shares it, has made useless.
 */


#include "door/ngx_agent_door.h"


void
ngx_agent_tampered(ngx_agent_door_t *door, ngx_err_t err)
{
    audit_line_t            line;
    ngx_agent_task_t       *task;
    ngx_agent_slot_view_t   view;

    task = door->task;

    ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, err,
                  "the listening socket of task %*s, port %ui, was tampered "
                  "with, the door is closed", (size_t) PROTOCOL_ID_LEN,
                  task->id, (ngx_uint_t) door->port);

    if (ngx_agent_slot_view(task->id, &view) == NGX_OK) {
        ngx_agent_audit_begin(&line, "door_error", task->id, task->policy,
                              view.policy_hash, task->uid);
        audit_line_word(&line, "door", ngx_agent_task_door_name(door->kind));
        audit_line_word(&line, "reason", "tampered");
        audit_line_number(&line, "status", 0);
        audit_line_word(&line, "request_line", NULL);
        audit_line_word(&line, "host_header", NULL);
        (void) ngx_agent_audit_write(&line, task->id);
    }

    ngx_agent_task_close_door(door);
}
