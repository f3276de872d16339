/*
 * Reads a snapshot.  Each access is within it, whatever it says, and what it
 * says of a rule is read and checked as the text of a rule is.
 *
 * There is one matcher for every size of policy: a second one for short lists
 * is how products came to decide differently above a hundred hosts.
 */

#include <stdlib.h>
#include <string.h>

#include "policy/policy_fields.h"
#include "policy/policy_snapshot.h"
#include "policy/policy_snapshot_format.h"
#include "policy/policy_text.h"


static int snapshot_open(policy_set_t *set, const snapshot_head_t *head,
    char err[POLICY_ERROR_MAX]);
static int snapshot_damaged(char err[POLICY_ERROR_MAX]);
static const snapshot_policy_t *snapshot_policy(const policy_t *policy);
static const snapshot_rule_t *snapshot_rule(const policy_t *policy,
    const snapshot_policy_t *p, size_t i);
static uint32_t snapshot_probe(const policy_t *policy,
    const snapshot_policy_t *p, const char *host, size_t n, uint64_t hash,
    bool wildcard);
static policy_rule_t *snapshot_load(const policy_t *policy,
    const snapshot_rule_t *r);
static void snapshot_write_rule(const policy_t *policy,
    const snapshot_rule_t *r, coder_t *c);
static const void *snapshot_at(const policy_set_t *set, uint64_t at,
    uint64_t count, size_t size, size_t align);


policy_set_t *
policy_snapshot_open(const unsigned char *data, size_t len,
    char err[POLICY_ERROR_MAX])
{
    const char              *text;
    policy_set_t            *set, view;
    const snapshot_head_t   *head;

    memset(&view, 0, sizeof(policy_set_t));

    view.snapshot = data;
    view.snapshot_len = len;

    head = snapshot_at(&view, 0, 1, sizeof(snapshot_head_t), 8);
    text = head && head->magic == SNAPSHOT_MAGIC && head->size == len
           ? snapshot_at(&view, head->text, head->text_len, 1, 1) : NULL;

    if (text == NULL) {
        (void) snapshot_damaged(err);
        return NULL;
    }

    set = policy_set_load(text, head->text_len, err);

    if (set == NULL) {
        return NULL;
    }

    set->snapshot = data;
    set->snapshot_len = len;

    if (snapshot_open(set, head, err) != 0) {
        policy_set_free(set);
        return NULL;
    }

    return set;
}


static int
snapshot_open(policy_set_t *set, const snapshot_head_t *head,
    char err[POLICY_ERROR_MAX])
{
    size_t                    i, n;
    policy_t                 *policy;
    const char               *file;
    const uint16_t           *ports;
    const uint32_t           *files;
    const snapshot_policy_t  *p;

    files = snapshot_at(set, head->files, head->files_count, 4, 4);

    if (files == NULL || set->policies_count != head->policies_count) {
        return snapshot_damaged(err);
    }

    set->files = calloc((size_t) head->files_count + 1, sizeof(char *));

    if (set->files == NULL) {
        return policy_no_memory(err);
    }

    for (i = 0; i < head->files_count; i++) {

        file = snapshot_at(set, files[i], 1, 1, 1);
        n = file ? set->snapshot_len - files[i] : 0;

        if (file == NULL || memchr(file, '\0', n) == NULL) {
            return snapshot_damaged(err);
        }

        set->files[i] = strdup(file);

        if (set->files[i] == NULL) {
            return policy_no_memory(err);
        }

        set->files_count++;
    }

    for (i = 0; i < set->policies_count; i++) {

        policy = set->policies[i];
        policy->record = head->policies + i * sizeof(snapshot_policy_t);

        p = snapshot_policy(policy);
        ports = p ? snapshot_at(set, p->ports, p->ports_count, 2, 2) : NULL;

        if (ports == NULL || p->ports_count > PROTOCOL_DOORS_MAX
            || snapshot_at(set, p->rules, p->rules_count,
                           sizeof(snapshot_rule_t), 4)
               == NULL)
        {
            return snapshot_damaged(err);
        }

        memcpy(policy->hash, p->hash, POLICY_HASH_LEN);

        /* of what is asked for only; memory that is not touched costs none */

        policy->ports = calloc((size_t) p->ports_count + 1, sizeof(uint16_t));
        policy->rules = calloc((size_t) p->rules_count + 1,
                               sizeof(policy_rule_t *));

        if (policy->ports == NULL || policy->rules == NULL) {
            return policy_no_memory(err);
        }

        memcpy(policy->ports, ports, p->ports_count * sizeof(uint16_t));
        policy->ports_count = p->ports_count;
        policy->rules_count = p->rules_count;
    }

    return 0;
}


static int
snapshot_damaged(char err[POLICY_ERROR_MAX])
{
    return policy_error(err, "snapshot", "policies", "is damaged");
}


void
policy_snapshot_close(policy_set_t *set)
{
    set->snapshot = NULL;
    set->snapshot_len = 0;
}


policy_match_t
policy_find_rule(const policy_t *policy, const authority_t *target,
    const policy_rule_t **rule)
{
    size_t                    i, n;
    uint32_t                  found, at;
    uint64_t                  hash;
    const char               *host;
    const snapshot_rule_t    *r;
    const snapshot_policy_t  *p;

    *rule = NULL;
    p = snapshot_policy(policy);

    if (p == NULL) {
        return POLICY_STALE;
    }

    host = target->host;
    n = target->host_len;

    if (n == 0) {
        return POLICY_NO_HOST;
    }

    found = 0;
    hash = SNAPSHOT_HASH_START;

    for (i = n; i-- > 0; /* void */ ) {

        /* host[i + 1 ..] is a suffix of whole labels, something before it */

        if (host[i] == '.' && i > 0 && i + 1 < n
            && target->kind == AUTHORITY_NAME)
        {
            at = snapshot_probe(policy, p, host + i + 1, n - i - 1, hash,
                                true);
            found = at ? at : found;    /* longer ones come later */
        }

        hash = snapshot_hash_byte(hash, host[i]);
    }

    at = snapshot_probe(policy, p, host, n, hash, false);
    found = at ? at : found;

    if (found == 0) {
        return POLICY_NO_HOST;
    }

    r = snapshot_rule(policy, p, found - 1);
    n = r ? r->same : 0;

    for (i = 0; i < n; i++) {

        r = snapshot_rule(policy, p, found - 1 + i);

        if (r == NULL) {
            return POLICY_STALE;
        }

        if (r->port == target->port
            || (r->port == 0 && (target->port == 80 || target->port == 443)))
        {
            *rule = policy_rule_at(policy, found - 1 + i);
            return *rule ? POLICY_FOUND : POLICY_STALE;
        }
    }

    return POLICY_NO_PORT;
}


/* The first rule of this host, and 1; or 0. */

static uint32_t
snapshot_probe(const policy_t *policy, const snapshot_policy_t *p,
    const char *host, size_t n, uint64_t hash, bool wildcard)
{
    size_t                   i, k, mask;
    uint32_t                 finished;
    const char              *known;
    const snapshot_rule_t   *r;
    const snapshot_slot_t   *slots;

    mask = p->slots_mask;
    slots = snapshot_at(policy->set, p->slots, (uint64_t) mask + 1,
                        sizeof(snapshot_slot_t), 4);

    if (slots == NULL || (mask & (mask + 1))) {
        return 0;
    }

    finished = snapshot_hash_end(hash, wildcard);

    for (i = finished & mask, k = 0; k <= mask; i = (i + 1) & mask, k++) {

        if (slots[i].rule == 0) {
            return 0;
        }

        if (slots[i].hash != finished) {
            continue;
        }

        r = snapshot_rule(policy, p, slots[i].rule - 1);
        known = r ? snapshot_at(policy->set, r->host, n, 1, 1) : NULL;

        if (known && r->host_len == n && r->wildcard == wildcard
            && memcmp(known, host, n) == 0)
        {
            return slots[i].rule;
        }
    }

    return 0;
}


const policy_rule_t *
policy_rule_at(const policy_t *policy, size_t i)
{
    policy_rule_t            *rule;
    const snapshot_rule_t    *r;
    const snapshot_policy_t  *p;

    if (i >= policy->rules_count) {
        return NULL;
    }

    if (policy->rules[i] == NULL) {

        p = snapshot_policy(policy);
        r = p ? snapshot_rule(policy, p, i) : NULL;
        rule = r ? snapshot_load(policy, r) : NULL;

        if (rule) {
            policy->rules[i] = rule;
            policy->set->loaded++;
        }
    }

    return policy->rules[i];
}


static policy_rule_t *
snapshot_load(const policy_t *policy, const snapshot_rule_t *r)
{
    char            err[POLICY_ERROR_MAX];
    coder_t         c;
    policy_rule_t  *rule;

    memset(&c, 0, sizeof(coder_t));

    snapshot_write_rule(policy, r, &c);

    rule = c.failed ? NULL
           : policy_text_rule((policy_t *) policy, c.data, c.len, err);

    free(c.data);

    if (rule && r->file && r->file <= policy->set->files_count) {
        rule->file = policy->set->files[r->file - 1];
        rule->line = r->line;
    }

    return rule;
}


static void
snapshot_write_rule(const policy_t *policy, const snapshot_rule_t *r,
    coder_t *c)
{
    char             host[AUTHORITY_HOST_MAX + 1];
    const char      *known, *attributes;
    const uint32_t  *len;

    known = snapshot_at(policy->set, r->host, r->host_len, 1, 1);
    len = snapshot_at(policy->set, r->attributes, 1, 4, 4);
    attributes = len ? snapshot_at(policy->set, (uint64_t) r->attributes + 4,
                                   *len, 1, 1) : NULL;

    if (known == NULL || attributes == NULL
        || r->host_len > AUTHORITY_HOST_MAX
        || memchr(known, '"', r->host_len))
    {
        c->failed = true;
        return;
    }

    memcpy(host, known, r->host_len);
    host[r->host_len] = '\0';

    policy_text_host(c, host, r->wildcard, r->port);
    coder_bytes(c, attributes, *len);
    coder_text(c, "}");
}


char *
policy_snapshot_text(const policy_t *policy, size_t max, size_t *len)
{
    char                     *text;
    size_t                    i, k, before, wide;
    coder_t                   c;
    uint64_t                  count;
    const snapshot_rule_t    *r;
    const snapshot_policy_t  *p;

    p = snapshot_policy(policy);
    text = p ? policy_text_bare(policy->set, policy, len) : NULL;

    if (text == NULL) {
        return NULL;
    }

    memset(&c, 0, sizeof(coder_t));

    /* the last two bytes close the rules and the policy */

    coder_bytes(&c, text, *len - 2);
    free(text);
    wide = 0;

    for (i = 0; i < policy->rules_count; i++) {

        before = c.len;
        r = snapshot_rule(policy, p, i);

        if (r == NULL) {
            c.failed = true;
            break;
        }

        coder_text(&c, i ? "," : "");
        snapshot_write_rule(policy, r, &c);

        for (k = before; k < c.len; k++) {
            wide += ((unsigned char) c.data[k] >= 0x80);
        }

        if (c.len + 2 * wide + sizeof("],\"rules_count\":4294967295}") > max) {
            c.len = before;
            break;
        }
    }

    count = policy->rules_count;

    coder_text(&c, "],\"rules_count\":");
    coder_number(&c, &count, 0, 0);
    coder_text(&c, "}");

    if (c.failed) {
        free(c.data);
        return NULL;
    }

    *len = c.len;

    return c.data;
}


static const snapshot_policy_t *
snapshot_policy(const policy_t *policy)
{
    return snapshot_at(policy->set, policy->record, 1,
                       sizeof(snapshot_policy_t), 4);
}


static const snapshot_rule_t *
snapshot_rule(const policy_t *policy, const snapshot_policy_t *p, size_t i)
{
    return i < p->rules_count
           ? snapshot_at(policy->set,
                         p->rules + (uint64_t) i * sizeof(snapshot_rule_t), 1,
                         sizeof(snapshot_rule_t), 4)
           : NULL;
}


/* count things of size bytes; NULL where they are not within the snapshot. */

static const void *
snapshot_at(const policy_set_t *set, uint64_t at, uint64_t count, size_t size,
    size_t align)
{
    if (set->snapshot == NULL || at > set->snapshot_len || at % align
        || count > (set->snapshot_len - at) / size)
    {
        return NULL;
    }

    return set->snapshot + at;
}
