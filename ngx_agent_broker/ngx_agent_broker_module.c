/*
 * ngx_agent_broker: the egress broker for boxes that run agent-written code.
 *
 * Theory of operation.  A launcher connects to agent_control, opens a task
 * of a policy, and hands over sockets that listen inside the box's net
 * namespace.  A worker accepts on them; what it accepts is an ordinary
 * request of the server with agent_control, judged in the preaccess phase by
 * the task's policy, recorded, and passed on by nginx's proxy to addresses
 * that were judged, with the credential attached on the way out.
 *
 * This file has the directives' table and the life of master and workers.  The
 * folders, each of which uses only those after it:
 *
 *   conf/      reads the configuration, and checks it when all is read
 *                ngx_agent_conf.h ngx_agent_conf.c (agent_policy and its
 *                blocks) ngx_agent_host_block.c (a host with a block and
 *                without) ngx_agent_policy_files.c (files that a policy
 *                names) ngx_agent_main_conf.c (files that http names)
 *                ngx_agent_check.c ngx_agent_allowed.c (the list of nginx's
 *                directives that a broker may have) ngx_agent_variables.c
 *                ngx_agent_error_log.c (what core logs of boxes)
 *
 *   control/   speaks with launchers
 *                ngx_agent_control.h ngx_agent_listen.c (the socket)
 *                ngx_agent_helper.h ngx_agent_helper.c (a process that
 *                receives what launchers send) ngx_agent_helper_gate.c (who
 *                may) ngx_agent_helper_read.c (lines and descriptors)
 *                ngx_agent_channel.c (a worker's side of it)
 *                ngx_agent_control.c (the life of a connection)
 *                ngx_agent_ops.c (what is asked) ngx_agent_question.c (what
 *                would a request be answered?) ngx_agent_open.c (how a task
 *                begins and is resumed) ngx_agent_launcher.h
 *                ngx_agent_launcher.c (what all operations share)
 *                ngx_agent_task_refused.c
 *
 *   door/      listens inside the boxes
 *                ngx_agent_door.h ngx_agent_door.c (a launcher's sockets are
 *                checked) ngx_agent_accept.c ngx_agent_unread.c (of a task that
 *                is past its refusals) ngx_agent_first_bytes.c (CONNECT, TLS or
 *                HTTP) ngx_agent_tls.c ngx_agent_ca.c mint.h mint.c (TLS that
 *                ends at a door) ngx_agent_tunnel.h ngx_agent_tunnel.c
 *                ngx_agent_tunnel_flow.c (TLS that is passed through)
 *                ngx_agent_dns.c (names) ngx_agent_tampered.c
 *
 *   request/   judges a request, and passes it on
 *                ngx_agent_request.h ngx_agent_decide.c (the verdict)
 *                ngx_agent_judge.c (what the policy says)
 *                ngx_agent_resolve.c (addresses) ngx_agent_names.h
 *                ngx_agent_names.c (names that are known) ngx_agent_ask.h
 *                ngx_agent_ask.c (asking for one) ngx_agent_attempt.h
 *                ngx_agent_attempt.c (one name server) ngx_agent_upstream.c
 *                (dialling) ngx_agent_verify.c (certificates)
 *                ngx_agent_keepalive.c ngx_agent_fields.c (the header as
 *                bytes) ngx_agent_headers.c
 *                ngx_agent_header_names.c (the header as it is sent)
 *                ngx_agent_answer.c (the upstream's) ngx_agent_flow.c (the
 *                bytes, counted as they flow) ngx_agent_flow_upstream.c
 *                ngx_agent_flow_box.c (from where they are read)
 *                ngx_agent_live.c (judged again while they do)
 *                ngx_agent_refuse.c ngx_agent_error_page.c
 *
 *   audit/     records what was decided, and how it ended
 *                ngx_agent_audit.h ngx_agent_events.c (a request's and a
 *                task's lines) ngx_agent_counted.c (many in one line)
 *                ngx_agent_unfinished.c (what had no answer)
 *                ngx_agent_audit_broker.c (the broker's own)
 *                ngx_agent_audit.c (writing) ngx_agent_audit_file.c (the
 *                file, and its reopening) ngx_agent_audit_shared.h
 *                ngx_agent_audit_shared.c (the writers of it)
 *                ngx_agent_audit_fd.c (its descriptor) audit_line.h
 *                audit_line.c (text)
 *
 *   credentials/  what of them is in a request
 *                ngx_agent_credentials.h ngx_agent_strip.c (the box's own)
 *                ngx_agent_attach.c (the vault's)
 *
 *   task/      knows the live tasks, and what they have used
 *                ngx_agent_task.h ngx_agent_task.c (a worker's side)
 *                ngx_agent_given.c (sockets of a launcher) ngx_agent_peers.c
 *                (what a user may make the broker do) ngx_agent_zone.h
 *                ngx_agent_zone.c ngx_agent_snapshots.c (policies)
 *                ngx_agent_slot.c ngx_agent_share.c ngx_agent_usage.c
 *                ngx_agent_listed.c ngx_agent_refusals.c ngx_agent_logged.c
 *                (shared memory)
 *                ngx_agent_wait.c (in order for a share) ngx_agent_policies.c
 *                (what a worker reads of policies) ngx_agent_main_conf.h
 *                ngx_agent_lease.c ngx_agent_state.c ngx_agent_secrets.c
 *
 *   tools/     programs of the operator's, beside the module
 *                agent_vault.h agent_vault.c agent_vault_commands.c
 *                agent_vault_file.c agent_vault_store.c agent_vault_value.c
 *                (agent-vault: changes a vault)
 *
 *   policy/    what a policy says, and the vault; no nginx in it
 *                policy.h policy.c policy_set.c policy_rule.c
 *                policy_credential.c policy_host.c policy_check.c
 *                policy_index.h policy_index.c policy_path.h
 *                policy_path.c policy_words.h policy_words.c (the model)
 *                policy_snapshot.h policy_snapshot.c policy_snapshot_make.c
 *                policy_snapshot_format.h (in shared memory) policy_text.h
 *                policy_text.c policy_fields.h policy_fields.c policy_values.h
 *                policy_values.c policy_coder.h policy_coder.c policy_pem.h
 *                policy_pem.c (its text) policy_base.h policy_base.c bounds.h
 *                bounds.c rate.h rate.c vault.h vault.c vault_file.c
 *                vault_lines.c vault_seal.c vault_packed.c vault_internal.h
 *
 *   parse/     reads hostile bytes; no nginx in it
 *                authority.h authority.c target.h target.c connect.h connect.c
 *                chunk.h chunk.c
 *                client_hello.h client_hello.c dns.h dns.c dns_reply.h
 *                dns_reply.c address.h address.c address_text.c path.h path.c
 *                field.h field.c answer.h answer.c message.h message.c
 *                system_names.h system_names.c
 *
 *   base/      helpers that use no other folder
 *                ngx_agent_base.h ngx_agent_bio.c (the socket below TLS)
 *                ngx_agent_build.c (the module's own file)
 *                ngx_agent_reason.c ngx_agent_paths.c ngx_agent_words.c
 *                ngx_agent_name_table.c ngx_agent_random.c
 *
 * What is shared with the launcher is in jail/shared.
 *
 * Processes.  nginx -t, a start and a reload read the configuration: policies,
 * vault, authority and lease key are in memory, agent_state is locked, the
 * audit file open, and whatever is unsafe has ended it.  The authority's key is
 * read by a process of its own (ngx_agent_ca_apart()).  When the zones are set
 * up, the new policies' text is put into shared memory; init_module, when
 * nothing can fail any more, makes it the current one, for the workers of
 * every generation, and the vault's values with it.  The master then only
 * reopens the audit file.  A worker is undumpable, cannot open any of the
 * files, and ends with its master.
 *
 * Which worker has a task: the one whose control connection the launcher's
 * lease came in on.  Only it accepts on the box's doors.  Every worker can
 * judge a request of a connection it has accepted before, by the newest
 * policies: these, the slots of the tasks and the vault are in shared memory,
 * and are looked up each time.
 *
 * A launcher's connection.  The worker's helper accepts it, asks the kernel
 * who it is (ngx_agent_helper_may()), reads its lines, and receives and judges
 * its descriptors (ngx_agent_given_judge()), so that none of them can stop the
 * worker.  ngx_agent_channel_read() hears of it, and ngx_agent_ops_line() calls
 * the operation: `open` makes a slot, and its line in the audit; `serve` checks
 * what the helper knows of the sockets and makes them doors
 * (ngx_agent_door_open_all()), and gives the lease; `close` cuts the task's
 * connections, writes its end, and answers with what was refused.  A
 * connection that closes before that ends the task, as `close` does.
 *
 * A request.  ngx_agent_accept() takes it from a door;
 * ngx_agent_first_bytes_read() answers CONNECT and tells TLS from HTTP;
 * ngx_agent_tls_hello() judges the name in the client hello; then core reads
 * the header.  ngx_agent_decide(), in the preaccess phase, parses the target,
 * compares it with what door, CONNECT and SNI have named, finds the rule,
 * counts the request (ngx_agent_usage_admit()), resolves the name
 * (ngx_agent_resolve()), judges each address (ngx_agent_resolve_guard()), and
 * waits until its line is in the audit (ngx_agent_audit_await()).  Then core's
 * proxy asks ngx_agent_upstream_peer_init(), which judges again if the
 * policies have changed and writes the header anew with the credential
 * (ngx_agent_headers_rewrite()), and ngx_agent_upstream_peer_get() for the
 * address, or a kept connection; ngx_agent_verify_begin() says what the
 * handshake must prove.  ngx_agent_headers_filter() takes out of the answer
 * what is not the upstream's to say, and ngx_agent_events_log(), in the log
 * phase, writes the last line.  A refusal goes from wherever it is found to
 * ngx_agent_refuse_record(), and core's own errors to ngx_agent_error_page().
 *
 * A reload.  Old workers get new policies with the next request that they
 * judge.  Core tells their launchers' connections to close: each gets a
 * `drain` event, closes its doors (ngx_agent_launcher_drain()), and the
 * launcher resumes on a new worker with its lease.  The old one serves the
 * connections that it has to their end.
 */


#include "conf/ngx_agent_conf.h"
#include "policy/policy_snapshot.h"

#include <malloc.h>
#include <sys/prctl.h>


static void *ngx_agent_broker_create_srv_conf(ngx_conf_t *cf);
static void *ngx_agent_broker_create_loc_conf(ngx_conf_t *cf);
static ngx_int_t ngx_agent_broker_preconfiguration(ngx_conf_t *cf);
static ngx_int_t ngx_agent_broker_postconfiguration(ngx_conf_t *cf);
static ngx_int_t ngx_agent_broker_init_module(ngx_cycle_t *cycle);
static ngx_int_t ngx_agent_broker_init_process(ngx_cycle_t *cycle);
static void ngx_agent_broker_exit_process(ngx_cycle_t *cycle);
static void ngx_agent_broker_exit_master(ngx_cycle_t *cycle);


#define NGX_AGENT_DIRECTIVE(name, type, function, offset)                     \
    { ngx_string(name),                                                       \
      type,                                                                   \
      ngx_agent_conf_directive,                                               \
      NGX_HTTP_MAIN_CONF_OFFSET,                                              \
      offset,                                                                 \
      (void *) (function) }

#define NGX_AGENT_PATH(name, member)                                          \
    NGX_AGENT_DIRECTIVE(name, NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,              \
                        ngx_agent_main_conf_path,                             \
                        offsetof(ngx_agent_main_conf_t, member))

#define NGX_AGENT_LIMIT(name, id)                                             \
    NGX_AGENT_DIRECTIVE(name, NGX_AGENT_POLICY_CONF|NGX_CONF_TAKE1,           \
                        ngx_agent_conf_limit, id)

#define NGX_AGENT_BOUND(name, id)                                             \
    NGX_AGENT_DIRECTIVE(name, NGX_AGENT_POLICY_CONF|NGX_CONF_TAKE1,           \
                        ngx_agent_conf_bound, id)

#define NGX_AGENT_CREDENTIAL(name, args, kind)                                \
    NGX_AGENT_DIRECTIVE(name, NGX_AGENT_HOST_CONF|(args)|NGX_AGENT_MANY,      \
                        ngx_agent_conf_credential, kind)

/* a word, or a list of words, for the row of this name in policy_fields.c */

#define NGX_AGENT_WORD(name, context)                                         \
    NGX_AGENT_DIRECTIVE(name, (context)|NGX_CONF_TAKE1, ngx_agent_conf_field, 0)

#define NGX_AGENT_LIST(name, context)                                         \
    NGX_AGENT_DIRECTIVE(name, (context)|NGX_CONF_1MORE|NGX_AGENT_MANY,        \
                        ngx_agent_conf_field, 0)


static ngx_command_t  ngx_agent_commands[] = {

    NGX_AGENT_DIRECTIVE("agent_vault", NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE12,
                        ngx_agent_main_conf_vault, 0),
    NGX_AGENT_PATH("agent_audit", audit_file),
    NGX_AGENT_PATH("agent_state", state_dir),

    NGX_AGENT_DIRECTIVE("agent_zone", NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
                        ngx_agent_main_conf_zone, 0),
    NGX_AGENT_DIRECTIVE("agent_tasks", NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
                        ngx_agent_main_conf_count,
                        offsetof(ngx_agent_main_conf_t, tasks)),
    NGX_AGENT_DIRECTIVE("agent_control_connections",
                        NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE1,
                        ngx_agent_main_conf_count,
                        offsetof(ngx_agent_main_conf_t, control_connections)),
    NGX_AGENT_DIRECTIVE("agent_opens", NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE12,
                        ngx_agent_main_conf_opens, 0),

    NGX_AGENT_DIRECTIVE("agent_ca", NGX_HTTP_MAIN_CONF|NGX_CONF_TAKE12,
                        ngx_agent_main_conf_ca, 0),

    NGX_AGENT_DIRECTIVE("agent_policy",
                        NGX_HTTP_MAIN_CONF|NGX_CONF_BLOCK|NGX_CONF_TAKE1
                        |NGX_AGENT_MANY,
                        ngx_agent_conf_policy, 0),

    { ngx_string("agent_control"),
      NGX_HTTP_SRV_CONF|NGX_CONF_TAKE1,
      ngx_agent_listen_directive,
      NGX_HTTP_SRV_CONF_OFFSET,
      0,
      NULL },

    /* in agent_policy: the box */

    NGX_AGENT_LIMIT("cpu", LIMIT_CPU),
    NGX_AGENT_LIMIT("cpu_time", LIMIT_CPU_TIME),
    NGX_AGENT_LIMIT("memory", LIMIT_MEMORY),
    NGX_AGENT_LIMIT("pids", LIMIT_PIDS),
    NGX_AGENT_LIMIT("open_files", LIMIT_OPEN_FILES),
    NGX_AGENT_LIMIT("wall_clock", LIMIT_WALL_CLOCK),
    NGX_AGENT_LIMIT("output", LIMIT_OUTPUT),
    NGX_AGENT_LIMIT("output_bytes", LIMIT_OUTPUT_BYTES),
    NGX_AGENT_LIMIT("near_limit", LIMIT_NEAR),

    NGX_AGENT_DIRECTIVE("isolation", NGX_AGENT_POLICY_CONF|NGX_CONF_TAKE1,
                        ngx_agent_conf_isolation, 0),
    NGX_AGENT_DIRECTIVE("writable",
                        NGX_AGENT_POLICY_CONF|NGX_CONF_TAKE2|NGX_AGENT_MANY,
                        ngx_agent_conf_writable, 0),
    NGX_AGENT_DIRECTIVE("readable",
                        NGX_AGENT_POLICY_CONF|NGX_CONF_1MORE|NGX_AGENT_MANY,
                        ngx_agent_policy_files_readable, 0),
    NGX_AGENT_LIST("env", NGX_AGENT_POLICY_CONF),
    NGX_AGENT_DIRECTIVE("env_despite_name",
                        NGX_AGENT_POLICY_CONF|NGX_CONF_1MORE|NGX_AGENT_MANY,
                        ngx_agent_conf_env_despite, 0),
    NGX_AGENT_LIST("launchers", NGX_AGENT_POLICY_CONF),
    NGX_AGENT_DIRECTIVE("mount_secrets", NGX_AGENT_POLICY_CONF|NGX_CONF_TAKE1,
                        ngx_agent_conf_fixed, 0),
    NGX_AGENT_DIRECTIVE("network_default",
                        NGX_AGENT_POLICY_CONF|NGX_CONF_TAKE1,
                        ngx_agent_conf_fixed, 0),

    /* in agent_policy: what the broker does for it */

    NGX_AGENT_BOUND("connections", BOUND_CONNECTIONS),
    NGX_AGENT_DIRECTIVE("rate", NGX_AGENT_POLICY_CONF|NGX_CONF_TAKE12,
                        ngx_agent_conf_rate, 0),
    NGX_AGENT_BOUND("requests", BOUND_REQUESTS),
    NGX_AGENT_BOUND("handshakes", BOUND_HANDSHAKES),
    NGX_AGENT_BOUND("mints", BOUND_MINTS),
    NGX_AGENT_BOUND("names", BOUND_NAMES),
    NGX_AGENT_BOUND("refusals", BOUND_REFUSALS),
    NGX_AGENT_BOUND("log_bytes", BOUND_LOG_BYTES),
    NGX_AGENT_BOUND("tasks", BOUND_TASKS),
    NGX_AGENT_BOUND("bytes_up", BOUND_BYTES_UP),
    NGX_AGENT_BOUND("bytes_down", BOUND_BYTES_DOWN),

    NGX_AGENT_WORD("request_body", NGX_AGENT_POLICY_CONF|NGX_AGENT_HOST_CONF),
    NGX_AGENT_WORD("idle", NGX_AGENT_POLICY_CONF|NGX_AGENT_HOST_CONF),

    NGX_AGENT_DIRECTIVE("audit_budget", NGX_AGENT_POLICY_CONF|NGX_CONF_TAKE2,
                        ngx_agent_conf_budget, 0),

    /* in agent_policy: what it may call; ngx_agent_host_block.c says why
       twice */

    NGX_AGENT_DIRECTIVE("host", NGX_CONF_TAKE1|NGX_AGENT_MANY,
                        ngx_agent_host_block, 0),
    NGX_AGENT_DIRECTIVE("host",
                        NGX_AGENT_POLICY_CONF|NGX_CONF_BLOCK|NGX_CONF_TAKE1
                        |NGX_AGENT_MANY,
                        ngx_agent_host_block, 0),

    /* in host */

    NGX_AGENT_LIST("methods", NGX_AGENT_HOST_CONF),
    NGX_AGENT_LIST("path", NGX_AGENT_HOST_CONF),
    NGX_AGENT_LIST("private", NGX_AGENT_HOST_CONF),
    NGX_AGENT_CREDENTIAL("bearer", NGX_CONF_TAKE1, CREDENTIAL_BEARER),
    NGX_AGENT_CREDENTIAL("basic", NGX_CONF_TAKE1, CREDENTIAL_BASIC),
    NGX_AGENT_CREDENTIAL("header", NGX_CONF_TAKE2, CREDENTIAL_HEADER),
    NGX_AGENT_CREDENTIAL("query", NGX_CONF_TAKE2, CREDENTIAL_QUERY),
    NGX_AGENT_WORD("credential_scope", NGX_AGENT_HOST_CONF),
    NGX_AGENT_WORD("client_credentials", NGX_AGENT_HOST_CONF),
    NGX_AGENT_WORD("cookies", NGX_AGENT_HOST_CONF),
    NGX_AGENT_WORD("plaintext", NGX_AGENT_HOST_CONF),
    NGX_AGENT_WORD("websocket", NGX_AGENT_HOST_CONF),
    NGX_AGENT_WORD("reuse_after_body", NGX_AGENT_HOST_CONF),
    NGX_AGENT_WORD("tunnel", NGX_AGENT_HOST_CONF),
    NGX_AGENT_WORD("hint", NGX_AGENT_HOST_CONF),
    NGX_AGENT_DIRECTIVE("crl", NGX_AGENT_HOST_CONF|NGX_CONF_TAKE1,
                        ngx_agent_policy_files_crl, 0),
    NGX_AGENT_DIRECTIVE("trusted_certificate",
                        NGX_AGENT_POLICY_CONF|NGX_AGENT_HOST_CONF
                        |NGX_CONF_TAKE1,
                        ngx_agent_policy_files_trusted, 0),

      ngx_null_command
};

/* each has a bit in ngx_agent_conf_directive */

_Static_assert(sizeof(ngx_agent_commands) / sizeof(ngx_command_t) <= 64,
               "more directives than bits");


static ngx_http_module_t  ngx_agent_module_ctx = {
    ngx_agent_broker_preconfiguration,     /* preconfiguration */
    ngx_agent_broker_postconfiguration,    /* postconfiguration */

    ngx_agent_main_conf_create,            /* create main configuration */
    ngx_agent_main_conf_init,              /* init main configuration */

    ngx_agent_broker_create_srv_conf,      /* create server configuration */
    NULL,                                  /* merge server configuration */

    ngx_agent_broker_create_loc_conf,      /* create location configuration */
    ngx_agent_error_log_merge              /* merge location configuration */
};


ngx_module_t  ngx_agent_broker_module = {
    NGX_MODULE_V1,
    &ngx_agent_module_ctx,                 /* module context */
    ngx_agent_commands,                    /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    ngx_agent_broker_init_module,          /* init module */
    ngx_agent_broker_init_process,         /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    ngx_agent_broker_exit_process,         /* exit process */
    ngx_agent_broker_exit_master,          /* exit master */
    NGX_MODULE_V1_PADDING
};


static ngx_int_t
ngx_agent_broker_preconfiguration(ngx_conf_t *cf)
{
    ngx_agent_main_conf_t  *amcf;

    amcf = ngx_http_conf_get_module_main_conf(cf, ngx_agent_broker_module);

    if (ngx_agent_variables_add(cf) != NGX_OK
        || ngx_agent_allowed_begin(cf, amcf) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_agent_upstream_add(cf, amcf);
}


static ngx_int_t
ngx_agent_broker_postconfiguration(ngx_conf_t *cf)
{
    ngx_http_handler_pt        *h;
    ngx_agent_main_conf_t      *amcf;
    ngx_http_core_main_conf_t  *cmcf;

    amcf = ngx_http_conf_get_module_main_conf(cf, ngx_agent_broker_module);
    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

    if (amcf->servers == 0) {

        (void) ngx_agent_allowed_end(cf, amcf);

        if (amcf->set->policies_count || amcf->vault) {
            ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                          "there is no \"agent_control\" in any server: "
                          "no task could be opened");
            return NGX_ERROR;
        }

        return NGX_OK;
    }

    if (amcf->audit_file.len == 0) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "\"agent_audit\" is required: add "
                      "\"agent_audit logs/agent-audit.log;\" to http");
        return NGX_ERROR;
    }

    if (ngx_agent_state_signalled(cf, amcf) != NGX_OK
        || ngx_agent_check_master(cf->cycle) != NGX_OK
        || ngx_agent_check_user(cf) != NGX_OK
        || ngx_agent_check_credentials(cf, amcf) != NGX_OK
        || ngx_agent_check_readable(cf, amcf) != NGX_OK
        || ngx_agent_check_servers(cf, amcf) != NGX_OK
        || ngx_agent_allowed_end(cf, amcf) != NGX_OK
        || ngx_agent_check_system_names(cf, amcf) != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (policy_set_complete(amcf->set) != 0) {
        return NGX_ERROR;
    }

    amcf->snapshot = policy_snapshot_make(amcf->set, &amcf->snapshot_len);
    if (amcf->snapshot == NULL) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "no memory for the policies' snapshot");
        return NGX_ERROR;
    }

    if (ngx_agent_zone_add(cf, amcf, ngx_agent_share_size()) != NGX_OK
        || ngx_agent_audit_shared_add(cf, amcf) != NGX_OK
        || ngx_agent_audit_file_open(cf, amcf) != NGX_OK
        || ngx_agent_lease_key(cf, amcf) != NGX_OK
        || ngx_agent_ca_load(cf, amcf) != NGX_OK
        || ngx_agent_headers_init(cf) != NGX_OK)
    {
        return NGX_ERROR;
    }

    h = ngx_array_push(&cmcf->phases[NGX_HTTP_PREACCESS_PHASE].handlers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    *h = ngx_agent_decide;

    h = ngx_array_push(&cmcf->phases[NGX_HTTP_LOG_PHASE].handlers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    *h = ngx_agent_events_log;

    return NGX_OK;
}


static ngx_int_t
ngx_agent_broker_init_module(ngx_cycle_t *cycle)
{
    ngx_agent_main_conf_t  *amcf;

    amcf = ngx_http_cycle_get_module_main_conf(cycle,
                                               ngx_agent_broker_module);

    if (amcf) {
        amcf->started = 1;
    }

    if (amcf == NULL || amcf->servers == 0) {
        return NGX_OK;
    }

    /*
     * Known for certain only now.  Of a reload it changes nothing, and an
     * error here would end the master.
     */

    if ((ngx_test_config || ngx_is_init_cycle(cycle->old_cycle))
        && ngx_agent_check_master(cycle) != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_agent_check_process(cycle, amcf);

    if (ngx_test_config) {
        return NGX_OK;
    }

    ngx_agent_error_log_start(amcf);
    ngx_agent_zone_publish(cycle, amcf);
    ngx_agent_audit_file_start(amcf, cycle->log);
    ngx_agent_audit_start(cycle);

    ngx_agent_audit_broker_config(cycle, amcf,
                                  ngx_is_init_cycle(cycle->old_cycle)
                                  ? "start" : "reload");

    /* workers read the policies in the zone, and would inherit these */

    policy_set_forget_rules(amcf->set);
    free(amcf->snapshot);
    amcf->snapshot = NULL;

    (void) malloc_trim(0);

    return NGX_OK;
}


/* NULL, where this configuration has no broker. */

static ngx_agent_main_conf_t *
ngx_agent_broker_conf(ngx_cycle_t *cycle)
{
    ngx_agent_main_conf_t  *amcf;

    amcf = ngx_http_cycle_get_module_main_conf(cycle,
                                               ngx_agent_broker_module);

    return amcf && amcf->servers ? amcf : NULL;
}


static ngx_int_t
ngx_agent_broker_init_process(ngx_cycle_t *cycle)
{
    ngx_agent_main_conf_t  *amcf;

    amcf = ngx_agent_broker_conf(cycle);
    if (amcf == NULL) {
        return NGX_OK;
    }

    ngx_agent_state_worker(amcf);

    if (ngx_process != NGX_PROCESS_WORKER) {
        return NGX_OK;
    }

    ngx_agent_secrets_lock(amcf->secrets);

    /* core has just made a worker that changed its user dumpable again */

    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == -1) {
        ngx_log_error(NGX_LOG_EMERG, cycle->log, ngx_errno,
                      "prctl(PR_SET_DUMPABLE, 0) failed");
        return NGX_ERROR;
    }

    /*
     * A worker without its master would go on with old policies and hold the
     * socket against the next start.  It leaves as on QUIT: its launchers
     * resume with the new broker.
     */

    if (prctl(PR_SET_PDEATHSIG, SIGQUIT, 0, 0, 0) == -1
        || getppid() != ngx_parent)
    {
        ngx_log_error(NGX_LOG_EMERG, cycle->log, ngx_errno,
                      "the master is gone");
        return NGX_ERROR;
    }

    if (ngx_agent_channel_start(cycle) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_agent_audit_shared_serve();
    ngx_agent_audit_broker_worker("start");
    ngx_agent_audit_broker_lost();

    return NGX_OK;
}


static void
ngx_agent_broker_exit_process(ngx_cycle_t *cycle)
{
    if (ngx_agent_broker_conf(cycle) && ngx_process == NGX_PROCESS_WORKER) {
        ngx_agent_channel_stop(cycle);
        ngx_agent_policies_leave();
        ngx_agent_audit_broker_worker("end");
    }
}


static void
ngx_agent_broker_exit_master(ngx_cycle_t *cycle)
{
    ngx_agent_main_conf_t  *amcf;

    amcf = ngx_agent_broker_conf(cycle);

    if (amcf) {
        ngx_agent_audit_broker_config(cycle, amcf, "stop");
    }
}


static void *
ngx_agent_broker_create_srv_conf(ngx_conf_t *cf)
{
    return ngx_pcalloc(cf->pool, sizeof(ngx_agent_srv_conf_t));
}


/* Called where the block begins: core keeps no place of a location. */

static void *
ngx_agent_broker_create_loc_conf(ngx_conf_t *cf)
{
    ngx_agent_loc_conf_t  *alcf;

    alcf = ngx_pcalloc(cf->pool, sizeof(ngx_agent_loc_conf_t));

    if (alcf && cf->conf_file) {
        alcf->file = cf->conf_file->file.name;
        alcf->line = cf->conf_file->line;
    }

    return alcf;
}
