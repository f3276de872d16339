/*
 * The table of reasons: why a request was refused or failed, as it is named in
 * the audit and in bodies, with the status it is answered with.
 */


#include "base/ngx_agent_base.h"


static const ngx_agent_reason_t  ngx_agent_reasons[NGX_AGENT_REASONS] = {

    [NGX_AGENT_REASON_RULE] = { "rule", 0, NULL },

    [NGX_AGENT_REASON_MALFORMED] = { "malformed", 400,
        "send one HTTP/1.1 request with a plain host name" },

    [NGX_AGENT_REASON_MISMATCH] = { "authority_mismatch", 400,
        "the URL and the Host header must name the same host and port" },

    [NGX_AGENT_REASON_TASK_UNKNOWN] = { "task_unknown", 403,
        "the task of this box has ended" },

    [NGX_AGENT_REASON_POLICY_GONE] = { "policy_gone", 403,
        "the policy of this task is gone: nothing is allowed" },

    [NGX_AGENT_REASON_HOST] = { "host_not_allowed", 403, NULL },

    [NGX_AGENT_REASON_PORT] = { "port_not_allowed", 403, NULL },

    [NGX_AGENT_REASON_METHOD] = { "method_not_allowed", 403, NULL },

    [NGX_AGENT_REASON_SNI] = { "sni_mismatch", 403,
        "the TLS client must name (SNI) the host it wants, the same as in "
        "CONNECT" },

    [NGX_AGENT_REASON_REQUESTS] = { "requests", 429,
        "this task has made all the requests its policy allows" },

    [NGX_AGENT_REASON_MINTS] = { "mints", 403,
        "this task has spoken TLS to all the names its policy allows" },

    [NGX_AGENT_REASON_NAMES] = { "names", 403,
        "this task has asked for all the names its policy allows" },

    [NGX_AGENT_REASON_NOT_SERVED] = { "not_served", 403,
        "this name server answers plain queries alone" },

    [NGX_AGENT_REASON_REFUSALS] = { "refusals", 429,
        "this task has been refused too often: its requests are no longer "
        "looked at" },

    [NGX_AGENT_REASON_BYTES_UP] = { "bytes_up", 429,
        "this task has sent all the bytes its policy allows" },

    [NGX_AGENT_REASON_BYTES_DOWN] = { "bytes_down", 429,
        "this task has received all the bytes its policy allows" },

    [NGX_AGENT_REASON_BUDGET] = { "audit_budget", 429,
        "this task has filled its share of the audit: it ends" },

    [NGX_AGENT_REASON_RESOLVE] = { "resolve_failed", 502,
        "the host is allowed, but its name has no address now" },

    [NGX_AGENT_REASON_ADDRESS] = { "address_not_allowed", 403,
        "the host is allowed, but not at the address its name has: its "
        "operator can add a private range" },

    [NGX_AGENT_REASON_AUDIT] = { "audit_unavailable", 503,
        "the request cannot be recorded now, so it is not made: try later" },

    [NGX_AGENT_REASON_CREDENTIAL] = { "credential_unavailable", 502,
        "the credential of this host cannot be attached" },

    [NGX_AGENT_REASON_CHANGED] = { "policy_changed", 503,
        "the policy changed under this request: try again" },

    [NGX_AGENT_REASON_UNREACHABLE] = { "upstream_unreachable", 502,
        "the host is allowed, but no connection to it can be made now: try "
        "later, or do without it" },

    [NGX_AGENT_REASON_UPSTREAM_TIMEOUT] = { "upstream_timeout", 504,
        "the host is allowed, but has not answered in time: try later, or "
        "ask for less" },

    [NGX_AGENT_REASON_NO_ANSWER] = { "no_answer", 502,
        "the host is allowed, but what came from it is no HTTP answer" },

    [NGX_AGENT_REASON_CERTIFICATE] = { "certificate_unverified", 502,
        "nothing was sent, since the host's certificate did not verify: "
        "only the operator can mend that" },

    [NGX_AGENT_REASON_HANDSHAKE] = { "tls_handshake", 502,
        "nothing was sent, since the TLS handshake with the host failed" },

    [NGX_AGENT_REASON_SHUTDOWN] = { "shutdown", 502,
        "the broker has ended this request, to be stopped itself" },

    [NGX_AGENT_REASON_TIMEOUT] = { "timeout", 408,
        "the request has not come whole in time" },

    [NGX_AGENT_REASON_BODY] = { "body_too_large", 413,
        "the body of this request is larger than the broker takes" },

    [NGX_AGENT_REASON_URI] = { "uri_too_large", 414,
        "the request line is longer than the broker takes" },

    [NGX_AGENT_REASON_ABORTED] = { "aborted", 499, NULL },

    [NGX_AGENT_REASON_CONFIGURATION] = { "configuration", 500,
        "the broker's configuration is unsafe: nothing is sent" },

    [NGX_AGENT_REASON_INTERNAL] = { "internal", 500,
        "the broker has a problem of its own" },
};


const ngx_agent_reason_t *
ngx_agent_reason(ngx_agent_reason_e reason)
{
    return &ngx_agent_reasons[reason];
}
