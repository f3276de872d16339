/*
 * The table of reasons why a request is refused or fails: the word in audit
 * lines and bodies, the status of the answer, whether it is the broker's own
 * decision, and what the box can do.
 */


#include "base/ngx_agent_base.h"


#define DENIED  "denied"                    /* what the broker decided */
#define FAILED  "failed"                    /* what went wrong */


static const ngx_agent_reason_t  ngx_agent_reasons[NGX_AGENT_REASONS] = {

    [NGX_AGENT_REASON_RULE] = { "rule", 0, NULL, NULL },

    [NGX_AGENT_REASON_MALFORMED] = { "malformed", 400, DENIED,
        "send a valid HTTP request with a plain host name" },

    [NGX_AGENT_REASON_MISMATCH] = { "authority_mismatch", 400, DENIED,
        "the URL and the Host header must name the same host and port" },

    [NGX_AGENT_REASON_TASK_UNKNOWN] = { "task_unknown", 403, DENIED,
        "the task of this box has ended" },

    [NGX_AGENT_REASON_POLICY_GONE] = { "policy_gone", 403, DENIED,
        "the policy of this task was removed: nothing is allowed" },

    [NGX_AGENT_REASON_HOST] = { "host_not_allowed", 403, DENIED, NULL },

    [NGX_AGENT_REASON_PORT] = { "port_not_allowed", 403, DENIED, NULL },

    [NGX_AGENT_REASON_METHOD] = { "method_not_allowed", 403, DENIED, NULL },

    [NGX_AGENT_REASON_PATH] = { "path_not_allowed", 403, DENIED, NULL },

    [NGX_AGENT_REASON_UPGRADE] = { "upgrade_not_allowed", 403, DENIED,
        "the host is allowed, but no websocket to it: send requests, or the "
        "operator can allow it with \"websocket on\"" },

    [NGX_AGENT_REASON_SNI] = { "sni_mismatch", 403, DENIED,
        "the TLS client must send the host's name as SNI, the same as in "
        "CONNECT" },

    [NGX_AGENT_REASON_REQUESTS] = { "requests", 429, DENIED,
        "this task has made all requests that its policy allows" },

    [NGX_AGENT_REASON_RATE] = { "rate", 429, DENIED,
        "this task makes more requests a second than its policy allows: wait "
        "a second, then make fewer at a time" },

    [NGX_AGENT_REASON_CONNECTIONS] = { "connections", 429, DENIED,
        "this task has as many requests under way as its policy allows: wait "
        "until one has ended" },

    [NGX_AGENT_REASON_HANDSHAKES] = { "handshakes", 429, DENIED,
        "this task begins TLS more often a second than its policy allows: "
        "keep connections and use them again" },

    [NGX_AGENT_REASON_MINTS] = { "mints", 403, DENIED,
        "this task has used TLS with as many hosts as its policy allows" },

    [NGX_AGENT_REASON_NAMES] = { "names", 403, DENIED,
        "this task has made all name queries that its policy allows" },

    [NGX_AGENT_REASON_NOT_SERVED] = { "not_served", 403, DENIED,
        "this name server answers only standard queries" },

    [NGX_AGENT_REASON_REFUSALS] = { "refusals", 429, DENIED,
        "this task was refused too often: if it goes on it is ended" },

    [NGX_AGENT_REASON_BYTES_UP] = { "bytes_up", 429, DENIED,
        "this task has sent all bytes that its policy allows" },

    [NGX_AGENT_REASON_BYTES_DOWN] = { "bytes_down", 429, DENIED,
        "this task has received all bytes that its policy allows" },

    [NGX_AGENT_REASON_BUDGET] = { "audit_budget", 429, DENIED,
        "this task has used up its audit_budget and will be ended" },

    [NGX_AGENT_REASON_RESOLVE] = { "resolve_failed", 502, FAILED,
        "the host is allowed, but its name cannot be resolved now" },

    [NGX_AGENT_REASON_ADDRESS] = { "address_not_allowed", 403, DENIED,
        "the host is allowed, but not the address of its name: the operator "
        "can allow an address with \"private\"" },

    [NGX_AGENT_REASON_AUDIT] = { "audit_unavailable", 503, FAILED,
        "the audit cannot be written now, so nothing was sent: try later" },

    [NGX_AGENT_REASON_CREDENTIAL] = { "credential_unavailable", 502, FAILED,
        "the credential for this host is not available: nothing was sent" },

    [NGX_AGENT_REASON_CHANGED] = { "policy_changed", 503, FAILED,
        "the policy changed during this request, which has ended: sent again, "
        "it is judged by the new policy, which may refuse it" },

    [NGX_AGENT_REASON_UNREACHABLE] = { "upstream_unreachable", 502, FAILED,
        "the host is allowed, but cannot be connected to now: try later, or "
        "continue without it" },

    [NGX_AGENT_REASON_UPSTREAM_TIMEOUT] = { "upstream_timeout", 504, FAILED,
        "the host is allowed, but did not answer in time: try later, or "
        "request less" },

    [NGX_AGENT_REASON_NO_ANSWER] = { "no_answer", 502, FAILED,
        "the host is allowed, but closed the connection without an answer: "
        "it may have done what was asked" },

    [NGX_AGENT_REASON_BAD_ANSWER] = { "bad_answer", 502, FAILED,
        "the host is allowed, but what it sent is not an answer in HTTP: it "
        "may have done what was asked" },

    [NGX_AGENT_REASON_IDLE] = { "idle", 504, FAILED,
        "the tunnel or websocket was without a byte for as long as its host's "
        "\"idle\" allows: open it again, and send something in time" },

    [NGX_AGENT_REASON_ANSWER_CUT] = { "answer_cut", 502, FAILED,
        "the host closed the connection before the end of its answer" },

    [NGX_AGENT_REASON_RESET] = { "reset", 502, FAILED,
        "the tunnel's connection was reset" },

    [NGX_AGENT_REASON_CA] = { "ca_expired", 403, DENIED,
        "the broker's own authority has expired, and TLS in the box fails: "
        "only the operator can fix that" },

    [NGX_AGENT_REASON_CERTIFICATE] = { "certificate_unverified", 502, FAILED,
        "nothing was sent, since the host's certificate was not verified: "
        "only the operator can fix that" },

    [NGX_AGENT_REASON_HANDSHAKE] = { "tls_handshake", 502, FAILED,
        "nothing was sent, since the TLS handshake with the host failed" },

    [NGX_AGENT_REASON_SHUTDOWN] = { "shutdown", 502, FAILED,
        "the broker is shutting down: try again" },

    [NGX_AGENT_REASON_TIMEOUT] = { "timeout", 408, FAILED,
        "the request was not fully received before the timeout" },

    [NGX_AGENT_REASON_BODY] = { "body_too_large", 413, DENIED,
        "the body of this request is larger than its host's \"request_body\" "
        "allows: send less at once" },

    [NGX_AGENT_REASON_URI] = { "uri_too_large", 414, DENIED,
        "the request line is longer than the broker accepts" },

    [NGX_AGENT_REASON_ABORTED] = { "aborted", 499, FAILED, NULL },

    [NGX_AGENT_REASON_CONFIGURATION] = { "configuration", 500, FAILED,
        "the broker's configuration is unsafe: nothing is sent" },

    [NGX_AGENT_REASON_INTERNAL] = { "internal", 500, FAILED,
        "internal error in the broker" },
};


const ngx_agent_reason_t *
ngx_agent_reason(ngx_agent_reason_e reason)
{
    return &ngx_agent_reasons[reason];
}
