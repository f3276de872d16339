/*
 * What a bound refuses unread: a request past `rate` or `connections`, what
 * comes past `refusals` or `audit_budget`, a name past `names`.  A line each
 * would let a box write as fast as it is refused, so they are counted in the
 * task's slot, whichever worker refuses, and written as one line a second.
 *
 * The first has its line at once, the others with the next second that the
 * worker which has the lease sees; what is left when the task ends, right
 * before its end.  What has no line yet stays counted as untold, so that the
 * lines of a bound add up to what `task_end` says of it.
 */


#include "audit/ngx_agent_audit.h"


static ngx_int_t ngx_agent_counted_line(const u_char *id,
    ngx_agent_slot_view_t *view, ngx_agent_counted_e kind,
    ngx_agent_counted_t *counted);


void
ngx_agent_counted(const u_char *id, ngx_agent_counted_e kind, const void *host,
    size_t len)
{
    ngx_agent_slot_count(id, kind, host, len);
    ngx_agent_counted_tell(id);
}


void
ngx_agent_counted_tell(const u_char *id)
{
    ngx_uint_t             i;
    ngx_agent_counted_t    counted[NGX_AGENT_COUNTED];
    ngx_agent_slot_view_t  view;

    if (ngx_agent_slot_untold(id, counted) != NGX_OK
        || ngx_agent_slot_view(id, &view) != NGX_OK)
    {
        return;
    }

    for (i = 0; i < NGX_AGENT_COUNTED; i++) {

        if (counted[i].count != counted[i].told
            && ngx_agent_counted_line(id, &view, i, &counted[i]) == NGX_OK)
        {
            ngx_agent_slot_told(id, i, counted[i].count - counted[i].told);
        }
    }
}


void
ngx_agent_counted_rest(const u_char *id, ngx_agent_slot_view_t *view)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_AGENT_COUNTED; i++) {

        if (view->counted[i].count != view->counted[i].told
            && ngx_agent_counted_line(id, view, i, &view->counted[i])
               == NGX_OK)
        {
            view->audit_lines++;
        }
    }
}


static ngx_int_t
ngx_agent_counted_line(const u_char *id, ngx_agent_slot_view_t *view,
    ngx_agent_counted_e kind, ngx_agent_counted_t *counted)
{
    audit_line_t  line;

    ngx_agent_audit_begin(&line, "counted", id, view->policy,
                          view->policy_hash, view->uid);

    audit_line_word(&line, "verdict", "denied");
    audit_line_word(&line, "reason",
           ngx_agent_reason(ngx_agent_slot_counted_reason(kind))->word);
    audit_line_text(&line, "host", counted->host_len ? counted->host : NULL,
                    ngx_min(counted->host_len, NGX_AGENT_COUNTED_HOST),
                    NGX_AGENT_COUNTED_HOST);
    audit_line_number(&line, "count",
                      (int64_t) (counted->count - counted->told));

    if (counted->host_len > NGX_AGENT_COUNTED_HOST) {
        line.cut = true;
    }

    return ngx_agent_audit_write(&line, id);
}


void
ngx_agent_counted_keys(audit_line_t *line, ngx_agent_slot_view_t *view)
{
    ngx_uint_t  i;

    audit_line_open(line, "counted");

    for (i = 0; i < NGX_AGENT_COUNTED; i++) {

        if (view->counted[i].count) {
            audit_line_number(line,
                      ngx_agent_reason(ngx_agent_slot_counted_reason(i))->word,
                      (int64_t) view->counted[i].count);
        }
    }

    audit_line_close(line);
}
