/*
 * How a task begins: `open` gives it an id, a slot and a line in the audit;
 * `serve` takes the box's sockets as its doors; `resume` does so again on
 * another worker, or on a broker that was restarted, for the holder of the
 * lease.
 */


#include "control/ngx_agent_launcher.h"
#include "jail/shared/secret.h"


#define NGX_AGENT_SERVE_TIMEOUT  30000      /* from open to serve */
#define NGX_AGENT_LIFE_SPARE     60000      /* over a task's wall clock, ms */


static ngx_int_t ngx_agent_open_create(ngx_agent_launcher_t *l,
    const u_char *id, const policy_t *policy);
static ngx_int_t ngx_agent_open_slot(ngx_agent_launcher_t *l,
    const policy_t *policy, ngx_msec_t life, ngx_uint_t is_resumed);
static ngx_int_t ngx_agent_open_env(ngx_agent_launcher_t *l,
    const policy_t *policy, json_t *env);
static void ngx_agent_open_doors_of_policy(ngx_agent_launcher_t *l,
    const policy_t *policy);
static void ngx_agent_open_door(ngx_agent_launcher_t *l,
    ngx_agent_door_e kind, in_port_t port);
static void ngx_agent_open_doors_of_sockets(ngx_agent_launcher_t *l);
static json_t *ngx_agent_open_reply(ngx_agent_launcher_t *l,
    const policy_t *policy);
static ngx_int_t ngx_agent_open_secret(ngx_agent_launcher_t *l,
    const char *name, json_t *value);
static ngx_int_t ngx_agent_open_doors(ngx_agent_launcher_t *l);


void
ngx_agent_open_task(ngx_agent_launcher_t *l, json_t *request)
{
    u_char                 random[PROTOCOL_ID_LEN / 2];
    u_char                 id[PROTOCOL_ID_LEN];
    uint64_t               life;
    audit_line_t           line;
    const policy_t        *policy;
    ngx_agent_policies_t  *set;

    policy = ngx_agent_launcher_policy(l, request, &set);
    if (policy == NULL) {
        return;
    }

    if (ngx_agent_open_env(l, policy, json_object_get(request, "env"))
        != NGX_OK)
    {
        goto done;
    }

    if (ngx_agent_ca_ready(l->amcf, l->connection->log) != NGX_OK) {
        ngx_agent_launcher_refuse(l, PROTOCOL_CA_EXPIRED,
                                  "the boxes' authority (\"agent_ca\") has "
                                  "expired: no TLS of a box would work");
        goto done;
    }

    if (ngx_agent_random(random, sizeof(random)) != NGX_OK) {
        ngx_agent_launcher_refuse(l, PROTOCOL_INTERNAL, "out of memory");
        goto done;
    }

    (void) ngx_hex_dump(id, random, sizeof(random));

    life = policy->limits[LIMIT_WALL_CLOCK] + NGX_AGENT_LIFE_SPARE;

    if (ngx_agent_open_create(l, id, policy) != NGX_OK
        || ngx_agent_open_slot(l, policy, life, 0) != NGX_OK)
    {
        goto done;
    }

    l->phase = NGX_AGENT_OPENED;
    l->expires = ngx_time() + life / 1000;

    ngx_agent_audit_begin(&line, "task_start", l->task->id, l->task->policy,
                          (u_char *) policy->hash, l->peer.uid);
    audit_line_number(&line, "pid", l->peer.pid);

    /* what the launcher says of itself is kept apart from what we know */

    audit_line_open(&line, "claimed");
    audit_line_word(&line, "external_id",
               json_string_value(json_object_get(request, "external_id")));
    audit_line_word(&line, "label",
               json_string_value(json_object_get(request, "label")));
    audit_line_word(&line, "code_sha256",
               json_string_value(json_object_get(request, "code_sha256")));
    audit_line_close(&line);

    if (ngx_agent_audit_write(&line, l->task->id) != NGX_OK) {
        ngx_agent_launcher_refuse(l, PROTOCOL_INTERNAL,
                                  "the audit log cannot be written");
        goto done;
    }

    ngx_log_debug4(NGX_LOG_DEBUG_HTTP, l->connection->log, 0,
                   "agent: task %*s opened, policy \"%s\", uid %uD",
                   (size_t) PROTOCOL_ID_LEN, l->task->id, policy->name,
                   l->peer.uid);

    ngx_agent_open_doors_of_policy(l, policy);

    ngx_add_timer(l->connection->read, NGX_AGENT_SERVE_TIMEOUT);

    ngx_agent_launcher_send(l, ngx_agent_open_reply(l, policy));

done:

    ngx_agent_policies_release(set);
}


static ngx_int_t
ngx_agent_open_create(ngx_agent_launcher_t *l, const u_char *id,
    const policy_t *policy)
{
    l->task = ngx_agent_task_create(l->connection->log);

    if (l->task == NULL) {
        ngx_agent_launcher_refuse(l, PROTOCOL_INTERNAL, "out of memory");
        return NGX_ERROR;
    }

    ngx_memcpy(l->task->id, id, PROTOCOL_ID_LEN);
    (void) ngx_cpystrn(l->task->policy, (u_char *) policy->name,
                       sizeof(l->task->policy));
    l->task->uid = l->peer.uid;

    return NGX_OK;
}


/*
 * A slot of the zone for the task, which is dropped where there is none.  That
 * of a resumed task may be there already, made by another worker.
 */

static ngx_int_t
ngx_agent_open_slot(ngx_agent_launcher_t *l, const policy_t *policy,
    ngx_msec_t life, ngx_uint_t is_resumed)
{
    ngx_int_t  rc;

    rc = ngx_agent_slot_create(l->task->id, l->peer.uid, l->peer.pid, policy,
                               life, is_resumed ? 0 : l->amcf->tasks);

    if (rc == NGX_OK || (rc == NGX_DECLINED && is_resumed)) {
        return NGX_OK;
    }

    ngx_agent_task_release(l->task);
    l->task = NULL;

    if (rc == NGX_ABORT) {
        ngx_agent_launcher_refuse(l, PROTOCOL_BUSY,
                                  "uid %u has %d live tasks of policy \"%s\", "
                                  "as many as its \"tasks\" allows: start "
                                  "this one when another has ended",
                                  (unsigned) l->peer.uid,
                                  (int) policy->bounds[BOUND_TASKS],
                                  policy->name);

    } else if (rc == NGX_AGAIN) {
        ngx_agent_launcher_refuse(l, PROTOCOL_BUSY,
                                  "the broker has %d live tasks, as many as "
                                  "its \"agent_tasks\" allows: start this one "
                                  "when another has ended",
                                  (int) l->amcf->tasks);

    } else {
        ngx_agent_launcher_refuse(l, PROTOCOL_BUSY,
                                  "the zone is full of live tasks: "
                                  "make \"agent_zone\" larger");
    }

    return rc;
}


static ngx_int_t
ngx_agent_open_env(ngx_agent_launcher_t *l, const policy_t *policy,
    json_t *env)
{
    char         err[POLICY_ERROR_MAX];
    size_t       i;
    json_t      *value;
    const char  *name;

    json_object_foreach(env, name, value) {

        for (i = 0; i < policy->env_count; i++) {
            if (ngx_strcmp(policy->env[i], name) == 0) {
                break;
            }
        }

        if (i == policy->env_count || !json_is_string(value)) {
            (void) policy_error(err, "variable", name,
                                i == policy->env_count
                                ? "is not listed in the policy's \"env\": ask "
                                  "its operator to add it, or leave it out"
                                : "has a value that is not a string");
            ngx_agent_launcher_refuse(l, PROTOCOL_BAD_REQUEST, "%s", err);
            return NGX_DECLINED;
        }

        if (ngx_agent_open_secret(l, name, value) != NGX_OK) {
            return NGX_DECLINED;
        }
    }

    return NGX_OK;
}


/* A variable is for the task to read: nothing that is a credential. */

static ngx_int_t
ngx_agent_open_secret(ngx_agent_launcher_t *l, const char *name,
    json_t *value)
{
    size_t       len;
    const char  *text, *what;

    text = json_string_value(value);
    len = json_string_length(value);

    what = ngx_agent_zone_vault_is_in(text, len) ? "a value of the vault"
                                                 : secret_scan(text, len);
    if (what == NULL) {
        return NGX_OK;
    }

    ngx_agent_launcher_refuse(l, PROTOCOL_BAD_REQUEST,
                              "variable \"%s\" holds %s, and a box holds "
                              "none: name it in the \"host\" of the policy "
                              "that needs it", name, what);

    return NGX_DECLINED;
}


/* The doors of a task of this policy: each port of a rule is one. */

static void
ngx_agent_open_doors_of_policy(ngx_agent_launcher_t *l, const policy_t *policy)
{
    size_t  i;

    l->doors_count = 0;

    ngx_agent_open_door(l, NGX_AGENT_DOOR_PROXY, PROTOCOL_PORT_PROXY);
    ngx_agent_open_door(l, NGX_AGENT_DOOR_WEB, PROTOCOL_PORT_HTTP);
    ngx_agent_open_door(l, NGX_AGENT_DOOR_WEB, PROTOCOL_PORT_HTTPS);

    for (i = 0; i < policy->ports_count; i++) {
        ngx_agent_open_door(l, NGX_AGENT_DOOR_WEB, policy->ports[i]);
    }

    ngx_agent_open_door(l, NGX_AGENT_DOOR_DNS_UDP, PROTOCOL_PORT_DNS);
    ngx_agent_open_door(l, NGX_AGENT_DOOR_DNS_TCP, PROTOCOL_PORT_DNS);
}


/* More ports than one message can carry are refused with the configuration. */

static void
ngx_agent_open_door(ngx_agent_launcher_t *l, ngx_agent_door_e kind,
    in_port_t port)
{
    ngx_uint_t  i;

    for (i = 0; i < l->doors_count; i++) {
        if (l->doors[i].port == port && l->doors[i].kind == kind) {
            return;
        }
    }

    if (l->doors_count < PROTOCOL_DOORS_MAX) {
        l->doors[l->doors_count].kind = kind;
        l->doors[l->doors_count].port = port;
        l->doors_count++;
    }
}


/*
 * The doors of a task that is resumed are those it was opened with, whatever
 * its policy says now: the sockets tell which they are.
 */

static void
ngx_agent_open_doors_of_sockets(ngx_agent_launcher_t *l)
{
    ngx_uint_t              i;
    ngx_agent_door_spec_t  *door;

    for (i = 0; i < l->fds_count; i++) {

        door = &l->doors[i];
        door->port = ngx_inet_get_port(
                               (struct sockaddr *) &l->given[i].sa.sockaddr);

        if (l->given[i].type == SOCK_DGRAM) {
            door->kind = NGX_AGENT_DOOR_DNS_UDP;

        } else {
            door->kind = door->port == PROTOCOL_PORT_PROXY
                         ? NGX_AGENT_DOOR_PROXY
                         : door->port == PROTOCOL_PORT_DNS
                           ? NGX_AGENT_DOOR_DNS_TCP : NGX_AGENT_DOOR_WEB;
        }
    }

    l->doors_count = l->fds_count;
}


static json_t *
ngx_agent_open_reply(ngx_agent_launcher_t *l, const policy_t *policy)
{
    size_t                i;
    json_t               *reply, *limits, *list, *box;
    const policy_rule_t  *rule;

    limits = json_object();

    for (i = 0; i < LIMIT_COUNT; i++) {
        (void) json_object_set_new(limits, limit_table[i].key,
                  limit_table[i].unit == UNIT_CORES
                  ? json_real((double) policy->limits[i] / 1000)
                  : json_integer((json_int_t) policy->limits[i]));
    }

    box = json_pack("{s:s, s:[], s:[], s:[]}", "isolation", policy->isolation,
                    "writable", "readable", "env");

    list = json_object_get(box, "writable");

    for (i = 0; i < policy->writable_count; i++) {
        (void) json_array_append_new(list,
                  json_pack("{s:s, s:I}", "path", policy->writable[i].path,
                            "bytes",
                            (json_int_t) policy->writable[i].bytes));
    }

    list = json_object_get(box, "readable");

    for (i = 0; i < policy->readable_count; i++) {
        (void) json_array_append_new(list, json_string(policy->readable[i]));
    }

    list = json_object_get(box, "env");

    for (i = 0; i < policy->env_count; i++) {
        (void) json_array_append_new(list, json_string(policy->env[i]));
    }

    list = json_array();

    for (i = 0; i < PROTOCOL_LISTED_MAX; i++) {

        rule = policy_rule_at(policy, i);

        if (rule == NULL) {
            break;
        }

        (void) json_array_append_new(list, json_string(rule->name));
    }

    reply = json_pack("{s:b, s:i, s:s#, s:o, s:o, s:s?, s:s, s:o, s:I, s:s}",
                      "ok", 1, "v", l->version,
                      "task_id", l->task->id, PROTOCOL_ID_LEN,
                      "limits", limits, "box", box,
                      "ca", l->amcf->ca_pem, "ca_hash", l->amcf->ca_hash,
                      "hosts", list,
                      "hosts_count", (json_int_t) policy->rules_count,
                      "policy_hash", policy->hash);

    list = json_array();

    for (i = 0; i < l->doors_count; i++) {
        (void) json_array_append_new(list,
                  json_pack("{s:s, s:i}", "name",
                            ngx_agent_task_door_name(l->doors[i].kind), "port",
                            (int) l->doors[i].port));
    }

    (void) json_object_set_new(reply, "doors", list);

    return reply;
}


void
ngx_agent_open_serve(ngx_agent_launcher_t *l, json_t *request)
{
    (void) ngx_agent_open_doors(l);
}


/*
 * What serve and resume share: the sockets are checked, the slot taken for
 * this worker, the doors opened, the lease made.
 */

static ngx_int_t
ngx_agent_open_doors(ngx_agent_launcher_t *l)
{
    char                lease[PROTOCOL_LEASE_MAX + 1];
    uint64_t            netns;
    ngx_int_t           rc;
    ngx_uint_t          i, n;
    const char         *why;
    ngx_agent_task_t   *task;
    ngx_agent_slot_view_t  view;

    task = l->task;

    if (l->fds_count != l->doors_count) {
        ngx_agent_launcher_refuse(l, PROTOCOL_BAD_DESCRIPTOR,
                                  "%d sockets were handed over for %d doors",
                                  (int) l->fds_count, (int) l->doors_count);
        return NGX_DECLINED;
    }

    netns = 0;

    for (i = 0; i < l->fds_count; i++) {

        why = ngx_agent_door_check(&l->given[i], &l->doors[i], &netns);
        if (why) {
            ngx_agent_launcher_refuse(l, PROTOCOL_BAD_DESCRIPTOR, "%s", why);
            return NGX_DECLINED;
        }
    }

    rc = ngx_agent_slot_take(task->id, l->peer.uid, netns, &task->sequence);

    if (rc != NGX_OK) {
        ngx_agent_launcher_refuse(l,
                         rc == NGX_DECLINED ? PROTOCOL_TASK_UNKNOWN
                                            : PROTOCOL_BAD_DESCRIPTOR,
                         rc == NGX_DECLINED
                         ? "the task has ended"
                         : "the net namespace is also another task's");
        return NGX_DECLINED;
    }

    task->netns = netns;

    ngx_agent_wait_init(task);

    if (ngx_agent_slot_join(task) != NGX_OK) {
        ngx_agent_launcher_refuse(l, PROTOCOL_TASK_UNKNOWN,
                                  "the task has ended");
        return NGX_DECLINED;
    }

    if (ngx_agent_slot_view(task->id, &view) == NGX_OK) {
        l->expires = ngx_time() + (time_t) (view.left + 999) / 1000;
    }

    n = l->fds_count;
    l->fds_count = 0;

    if (ngx_agent_door_open_all(task, l->ascf, l->doors, l->given, l->fds, n)
        != NGX_OK
        || ngx_agent_lease_make(l->amcf, task->id, l->peer.uid, task->policy,
                                netns, l->expires, lease)
           == 0)
    {
        ngx_agent_launcher_refuse(l, PROTOCOL_BUSY,
                                  "no connection is free for the doors: raise "
                                  "\"worker_connections\"");
        return NGX_DECLINED;
    }

    if (l->connection->read->timer_set) {
        ngx_del_timer(l->connection->read);
    }

    l->phase = NGX_AGENT_SERVING;

    ngx_log_debug4(NGX_LOG_DEBUG_HTTP, l->connection->log, 0,
                   "agent: task %*s served, %ui doors, lease %ui",
                   (size_t) PROTOCOL_ID_LEN, task->id, task->doors_count,
                   task->sequence);

    ngx_agent_launcher_send(l, json_pack("{s:b, s:s}", "ok", 1,
                                         "lease", lease));

    if (ngx_exiting || ngx_quit) {
        ngx_agent_launcher_drain(l);
    }

    return NGX_OK;
}


void
ngx_agent_open_resume(ngx_agent_launcher_t *l, json_t *request)
{
    u_char                 name[POLICY_NAME_MAX + 1];
    json_t                *id;
    time_t                 expires;
    uint64_t               netns, instance;
    const char            *lease;
    audit_line_t           line;
    const policy_t        *policy;
    ngx_agent_policies_t  *set;
    ngx_agent_slot_view_t  view;

    if (ngx_agent_launcher_version(l, request) != NGX_OK) {
        return;
    }

    id = json_object_get(request, "task_id");
    lease = json_string_value(json_object_get(request, "lease"));

    if (l->fds_count == 0) {
        ngx_agent_launcher_refuse(l, PROTOCOL_BAD_DESCRIPTOR,
                                  "no sockets were handed over");
        return;
    }

    ngx_agent_open_doors_of_sockets(l);

    netns = l->given[0].netns;

    if (ngx_agent_lease_check(l->amcf, lease,
                              (u_char *) json_string_value(id), l->peer.uid,
                              netns, name, &expires, &instance)
        != NGX_OK)
    {
        ngx_agent_launcher_refuse(l, PROTOCOL_LEASE_INVALID,
                                  "the lease is not this user's, of this net "
                                  "namespace, or has expired");
        return;
    }

    set = ngx_agent_policies_get(l->connection->log);
    if (set == NULL) {
        ngx_agent_launcher_refuse(l, PROTOCOL_INTERNAL,
                                  "no policies are loaded");
        return;
    }

    policy = policy_set_find(set->policies, (char *) name);

    if (policy == NULL
        || !policy_allows_launcher(policy, l->peer.uid, l->groups,
                                   l->groups_count, geteuid()))
    {
        ngx_agent_launcher_refuse(l, PROTOCOL_POLICY_GONE,
                                  "the policy is gone, or this user may no "
                                  "longer use it");
        goto done;
    }

    if (ngx_agent_open_create(l, (u_char *) json_string_value(id), policy)
        != NGX_OK)
    {
        goto done;
    }

    l->expires = expires;

    if (ngx_agent_slot_view(l->task->id, &view) != NGX_OK) {

        /*
         * Of this broker it has ended.  Another one's is adopted: this was
         * started after it, or is the binary that it was to replace.  Who
         * shows an ended one anew gets what `open` would give, for what was
         * left of its time.
         */

        if (instance == ngx_agent_zone_instance()) {
            ngx_agent_task_release(l->task);
            l->task = NULL;
            ngx_agent_launcher_refuse(l, PROTOCOL_TASK_UNKNOWN,
                                      "the task has ended");
            goto done;
        }

        if (ngx_agent_open_slot(l, policy, (expires - ngx_time()) * 1000, 1)
            != NGX_OK)
        {
            goto done;
        }
    }

    if (ngx_agent_open_doors(l) != NGX_OK) {
        ngx_agent_task_release(l->task);
        l->task = NULL;
        goto done;
    }

    ngx_log_debug3(NGX_LOG_DEBUG_HTTP, l->connection->log, 0,
                   "agent: task %*s resumed, policy \"%s\"",
                   (size_t) PROTOCOL_ID_LEN, l->task->id, policy->name);

    ngx_agent_audit_begin(&line, "task_start", l->task->id, l->task->policy,
                          (u_char *) policy->hash, l->peer.uid);
    audit_line_number(&line, "pid", l->peer.pid);
    audit_line_bool(&line, "resumed", true);
    (void) ngx_agent_audit_write(&line, l->task->id);

done:

    ngx_agent_policies_release(set);
}
