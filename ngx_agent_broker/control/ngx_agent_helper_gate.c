/*
 * Who may speak with the broker: known from the kernel before a byte or a
 * descriptor is taken.
 */


#include "control/ngx_agent_helper.h"


ngx_uint_t
ngx_agent_helper_may(const ngx_agent_helper_t *helper, ngx_socket_t s,
    struct ucred *peer)
{
    size_t      i;
    gid_t       groups[NGX_AGENT_GROUPS_MAX + 1];
    ngx_uint_t  n;

    if (ngx_agent_launcher_peer(s, peer, groups, &n) != NGX_OK) {
        return 0;
    }

    for (i = 0; i < helper->set->policies_count; i++) {

        if (policy_allows_launcher(helper->set->policies[i], peer->uid, groups,
                                   n, geteuid()))
        {
            return 1;
        }
    }

    /* who may open no task may be told so of a policy */

    return peer->uid == 0 || peer->uid == geteuid();
}


ngx_uint_t
ngx_agent_helper_hung_count(const ngx_agent_helper_hung_t *hung, uid_t uid)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_AGENT_HUNG_UIDS; i++) {

        if (hung[i].count && hung[i].uid == uid) {
            return hung[i].count;
        }
    }

    return 0;
}


void
ngx_agent_helper_answer(ngx_socket_t s, const char *error, const char *message)
{
    int   n;
    char  line[512];

    n = snprintf(line, sizeof(line),
                 "{\"ok\":false,\"error\":\"%s\",\"message\":\"%s\"}\n",
                 error, message);

    if (n > 0 && (size_t) n < sizeof(line)) {
        (void) send(s, line, n, MSG_DONTWAIT|MSG_NOSIGNAL);
    }
}
