/*
 * The control protocol, and everything else that the launcher and the broker
 * must agree on: both are built from this file, and each refuses a message
 * that it does not allow.
 *
 * A launcher connects to the broker's Unix stream socket.  Each message is
 * one JSON object on a line, at most PROTOCOL_LINE_MAX bytes with its
 * newline.  Descriptors (SCM_RIGHTS) are sent beside the first byte of the
 * line they belong to.  The launcher sends requests, which have "op"; the
 * broker sends replies, which have "ok", and events, which have "event".
 *
 *   -> {"v":1,"op":"open","policy":NAME, and perhaps "external_id":TEXT,
 *       "label":TEXT,"code_sha256":HEX,"env":{NAME:VALUE,...}}
 *   <- {"ok":true,"v":1,"task_id":ID,"limits":{KEY:NUMBER,...},
 *       "box":{"isolation":"namespaces",
 *              "writable":[{"path":PATH,"bytes":NUMBER},...],
 *              "readable":[PATH,...],"env":[NAME,...]},
 *       "ca":PEM,"ca_hash":HASH,"hosts":[NAME,...],"hosts_count":NUMBER,
 *       "policy_hash":HASH,"doors":[{"name":NAME,"port":NUMBER},...]}
 *
 *   -> {"op":"serve"}                    and one socket a door, in that order
 *   <- {"ok":true,"lease":TEXT}
 *
 *   <- {"event":"drain"}
 *   -> {"op":"near_limit","limit":WORD,"used":NUMBER}
 *
 *   -> {"op":"close","reason":WORD,"exit_code":NUMBER or null,
 *       "usage":{NAME:NUMBER,...}}
 *   <- {"ok":true,"egress":{"allowed":NUMBER,"denied":[...],
 *       "denied_count":NUMBER,"failed":[...],"failed_count":NUMBER,
 *       "audit_lines":NUMBER}}
 *
 *   -> {"v":1,"op":"resume","task_id":ID,"lease":TEXT}     and the sockets
 *   <- {"ok":true,"lease":TEXT}
 *
 *   -> {"v":1,"op":"policy","policy":NAME}
 *   <- {"ok":true,"policy":{...}}
 *
 *   -> {"v":2,"op":"ask","policy":NAME,"method":TEXT,"url":TEXT}
 *   <- {"ok":true,"verdict":"allowed" or "denied","reason":WORD,
 *       "rule":NAME,"line":"FILE:NUMBER","credential":NAME,"detail":TEXT,
 *       "hint":TEXT}                     each but the first two may be null
 *
 *   -> {"v":2,"op":"health"}
 *   <- {"ok":true,"version":TEXT,"audit":true or false,"ca_left":SECONDS}
 *       audit: it can be written; ca_left: until the boxes' authority ends
 *
 *   <- {"ok":false,"error":WORD,"message":TEXT}            to any request
 *   <- {"ok":false,...,"egress":{...}}     unasked: the broker ends the task
 *                                          (audit_budget, refusals, overdue)
 *
 * Order.  A connection begins with open, resume, policy, ask or health, within
 * 5 s.  After open the launcher builds the box, whose sockets `serve` hands
 * over, within 30 s; the box waits for the broker's reply to serve before it
 * executes the task.  near_limit has no reply.  close comes at any time after
 * open; its reply follows the task's last line in the audit.  After a refusal,
 * after close, policy, ask and health the broker closes the connection, and
 * does not read anything sent after these.  The launcher waits 5 s for a
 * reply.
 *
 * Who may.  A user that no policy names is answered "not_allowed" before it
 * has sent a word, and is not read.  A user past agent_control_connections or
 * agent_opens (one rate of open, another of policy, ask and health) is answered
 * "busy".  Linux can refuse descriptors that are sent before the broker has
 * accepted the connection (EPERM): they are sent again.
 *
 * The connection is the lease: if it ends without close, the task's doors and
 * connections are closed.  The broker's end of it is not the task's, though:
 * a worker may have been replaced or killed.  The launcher then connects again
 * and resumes with the same sockets, for 10 s.  drain announces that a worker
 * leaves: the launcher resumes on a second connection and keeps the first one
 * until the broker closes it, since requests under way end there.  A resumed
 * task is judged by the policies of that moment, and a refusal to resume ends
 * it.  The lease is opaque to the launcher.
 *
 * Doors.  Each is a socket of the box's net namespace, bound to its port on
 * every address: a listening stream, or a bound datagram socket if the name
 * ends in "-udp".  The launcher serves the names it does not know as well.
 *
 * Versions.  "v" is required in open, resume, policy and ask.  A broker refuses
 * one that it does not serve, and says which it serves.  Version 2 has ask; all
 * else is as in version 1, which a launcher asks for where it needs no more,
 * so that it works with an older broker.  The reply to open has the version
 * that was asked for.  A request with an unknown key is refused; unknown
 * keys of a reply are ignored.  "ca_hash" may be absent.
 */

#pragma once


#define PROTOCOL_VERSION            1           /* the first, of all but ask */
#define PROTOCOL_VERSION_ASK        2
#define PROTOCOL_VERSION_MAX        2           /* that the broker serves */

#define PROTOCOL_CONTROL            "/run/agent-broker/control.sock"


/* Operations and events */

#define PROTOCOL_OPEN               "open"
#define PROTOCOL_SERVE              "serve"
#define PROTOCOL_RESUME             "resume"
#define PROTOCOL_NEAR_LIMIT         "near_limit"
#define PROTOCOL_CLOSE              "close"
#define PROTOCOL_POLICY             "policy"
#define PROTOCOL_ASK                "ask"
#define PROTOCOL_HEALTH             "health"

#define PROTOCOL_DRAIN              "drain"


/* Errors */

#define PROTOCOL_BAD_REQUEST        "bad_request"
#define PROTOCOL_BAD_DESCRIPTOR     "bad_descriptor"
#define PROTOCOL_BAD_VERSION        "version"
#define PROTOCOL_POLICY_UNKNOWN     "policy_unknown"
#define PROTOCOL_POLICY_GONE        "policy_gone"
#define PROTOCOL_NOT_ALLOWED        "not_allowed"
#define PROTOCOL_TASK_UNKNOWN       "task_unknown"
#define PROTOCOL_LEASE_INVALID      "lease_invalid"
#define PROTOCOL_AUDIT_BUDGET       "audit_budget"
#define PROTOCOL_REFUSALS           "refusals"
#define PROTOCOL_OVERDUE            "overdue"
#define PROTOCOL_BUSY               "busy"
#define PROTOCOL_CA_EXPIRED         "ca_expired"
#define PROTOCOL_INTERNAL           "internal"


/* Sizes, in bytes, without a NUL */

#define PROTOCOL_LINE_MAX           65536
#define PROTOCOL_ID_LEN             32          /* a task's; hex digits */
#define PROTOCOL_LEASE_MAX          511
#define PROTOCOL_LABEL_MAX          128         /* external_id too */
#define PROTOCOL_WORD_MAX           32          /* reason, limit */
#define PROTOCOL_METHOD_MAX         64
#define PROTOCOL_URL_MAX            8192
#define PROTOCOL_SHA256_LEN         64          /* hex digits */
#define PROTOCOL_POLICY_HASH_LEN    71          /* "sha256:" before these */

/*
 * ca_hash: the first certificate of "ca" is found under this name in a
 * directory of certificates (X509_NAME_hash(), "openssl x509 -subject_hash").
 */
#define PROTOCOL_CA_HASH_LEN        8           /* hex digits */


/* Numbers of items */

#define PROTOCOL_DOORS_MAX          64          /* and of descriptors */
#define PROTOCOL_LISTED_MAX         64          /* in hosts, denied; the rest
                                                   is counted */

/* Doors */

#define PROTOCOL_DOOR_PROXY         "proxy"
#define PROTOCOL_DOOR_WEB           "web"
#define PROTOCOL_DOOR_DNS_UDP       "dns-udp"
#define PROTOCOL_DOOR_DNS_TCP       "dns-tcp"

#define PROTOCOL_PORT_PROXY         8899
#define PROTOCOL_PORT_DNS           53
#define PROTOCOL_PORT_HTTP          80
#define PROTOCOL_PORT_HTTPS         443
