/*
 * Makes a snapshot, in the master at a start and a reload.  The texts of
 * attributes are kept once each, so most rules are their host and 20 bytes.
 */

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/policy_fields.h"
#include "policy/policy_snapshot.h"
#include "policy/policy_snapshot_format.h"
#include "policy/policy_text.h"


#define SNAPSHOT_FIRST   (64 * 1024)
#define SNAPSHOT_PER     100            /* bytes of a rule, as a guess */
#define SNAPSHOT_HASHED  (32 * 1024)    /* of text, at a time */


typedef struct {
    uint64_t        first;              /* bytes of the host, in their order */
    policy_rule_t  *rule;
} sorted_t;


typedef struct {
    uint64_t  hash;
    uint32_t  at;                       /* 0: free */
} known_t;


typedef struct {
    unsigned char        *data;
    size_t                len;
    size_t                cap;
    bool                  failed;

    known_t              *known;        /* texts of attributes */
    size_t                known_mask;
    size_t                known_count;

    policy_rule_t         last;         /* a rule without what is its own, */
    uint32_t              last_at;      /* and its attributes; 0: none yet */
    coder_t               text;         /* of one rule's attributes */

    const char           *file;         /* the last one, and */
    size_t                file_number;
    const char          **files;
    size_t                files_count;
} maker_t;


static void make_policy(maker_t *m, policy_t *policy, size_t record);
static sorted_t *make_sorted(const policy_t *policy);
static int make_compare(const void *a, const void *b);
static int make_compare_policies(const void *a, const void *b);
static void make_rules(maker_t *m, const policy_t *policy,
    const sorted_t *sorted, size_t rules);
static uint32_t make_attributes(maker_t *m, policy_rule_t *rule);
static uint32_t make_known(maker_t *m, const char *text, size_t n);
static bool make_know_more(maker_t *m);
static uint16_t make_file(maker_t *m, const char *file);
static void make_slots(maker_t *m, size_t record);
static void make_ports(maker_t *m, const policy_t *policy, size_t record);
static void make_hash(maker_t *m, policy_t *policy, size_t record);
static uint32_t make_bytes(maker_t *m, const void *bytes, size_t n);
static size_t make_room(maker_t *m, size_t n);


#define POLICY_AT(m, at)  ((snapshot_policy_t *) (void *) ((m)->data + (at)))
#define RULES_AT(m, at)   ((snapshot_rule_t *) (void *) ((m)->data + (at)))


unsigned char *
policy_snapshot_make(policy_set_t *set, size_t *len)
{
    char             *text;
    size_t            i, head, text_len;
    maker_t           m;
    snapshot_head_t   h;

    memset(&m, 0, sizeof(maker_t));
    memset(&h, 0, sizeof(snapshot_head_t));

    m.cap = SNAPSHOT_FIRST;

    for (i = 0; i < set->policies_count; i++) {
        m.cap += set->policies[i]->rules_count * SNAPSHOT_PER;
    }

    m.data = malloc(m.cap);
    m.failed = (m.data == NULL);

    if (set->policies_count) {
        qsort(set->policies, set->policies_count, sizeof(policy_t *),
              make_compare_policies);
    }

    head = make_room(&m, sizeof(snapshot_head_t));

    h.magic = SNAPSHOT_MAGIC;
    h.policies_count = (uint32_t) set->policies_count;
    h.policies = (uint32_t) make_room(&m, set->policies_count
                                          * sizeof(snapshot_policy_t));

    for (i = 0; i < set->policies_count && !m.failed; i++) {
        make_policy(&m, set->policies[i],
                    h.policies + i * sizeof(snapshot_policy_t));
    }

    text = policy_text_bare(set, NULL, &text_len);

    if (text) {
        h.text = make_bytes(&m, text, text_len);
        h.text_len = (uint32_t) text_len;

    } else {
        m.failed = true;
    }

    free(text);

    h.files_count = (uint32_t) m.files_count;
    h.files = (uint32_t) make_room(&m, m.files_count * sizeof(uint32_t));

    for (i = 0; i < m.files_count && !m.failed; i++) {
        text_len = make_bytes(&m, m.files[i], strlen(m.files[i]) + 1);

        if (!m.failed) {
            ((uint32_t *) (void *) (m.data + h.files))[i] =
                                                         (uint32_t) text_len;
        }
    }

    h.size = m.len;

    if (!m.failed) {
        memcpy(m.data + head, &h, sizeof(snapshot_head_t));
    }

    free(m.known);
    free(m.files);
    free(m.text.data);

    if (m.failed || m.text.failed) {
        free(m.data);
        return NULL;
    }

    *len = m.len;

    return m.data;
}


static void
make_policy(maker_t *m, policy_t *policy, size_t record)
{
    size_t     rules;
    sorted_t  *sorted;

    sorted = make_sorted(policy);
    rules = make_room(m, policy->rules_count * sizeof(snapshot_rule_t));

    if (sorted == NULL || m->failed) {
        free(sorted);
        m->failed = true;
        return;
    }

    POLICY_AT(m, record)->rules = (uint32_t) rules;
    POLICY_AT(m, record)->rules_count = (uint32_t) policy->rules_count;

    make_rules(m, policy, sorted, rules);

    free(sorted);

    make_slots(m, record);
    make_ports(m, policy, record);
    make_hash(m, policy, record);
}


/* In the order of the text.  Lists that machines write mostly are. */

static sorted_t *
make_sorted(const policy_t *policy)
{
    bool         is_sorted;
    size_t       i, k;
    sorted_t    *sorted;
    const char  *host;

    sorted = malloc((policy->rules_count + 1) * sizeof(sorted_t));

    if (sorted == NULL) {
        return NULL;
    }

    is_sorted = true;

    for (i = 0; i < policy->rules_count; i++) {

        host = policy->rules[i]->host;

        sorted[i].rule = policy->rules[i];
        sorted[i].first = 0;

        for (k = 0; k < 8 && host[k]; k++) {
            sorted[i].first |= (uint64_t) (unsigned char) host[k]
                               << (56 - 8 * k);
        }

        is_sorted &= (i == 0 || make_compare(&sorted[i - 1], &sorted[i]) < 0);
    }

    if (!is_sorted) {
        qsort(sorted, policy->rules_count, sizeof(sorted_t), make_compare);
    }

    return sorted;
}


static int
make_compare(const void *a, const void *b)
{
    const sorted_t  *x = a, *y = b;

    return x->first != y->first ? (x->first < y->first ? -1 : 1)
                                : policy_text_compare_rules(&x->rule,
                                                            &y->rule);
}


static int
make_compare_policies(const void *a, const void *b)
{
    return strcmp((*(policy_t *const *) a)->name,
                  (*(policy_t *const *) b)->name);
}


static void
make_rules(maker_t *m, const policy_t *policy, const sorted_t *sorted,
    size_t rules)
{
    size_t            i, first;
    policy_rule_t    *rule;
    snapshot_rule_t   r, *all;

    first = 0;

    for (i = 0; i < policy->rules_count && !m->failed; i++) {

        rule = sorted[i].rule;

        memset(&r, 0, sizeof(snapshot_rule_t));

        r.host_len = (uint8_t) strlen(rule->host);
        r.wildcard = rule->wildcard;
        r.port = rule->port;
        r.line = rule->line;
        r.file = make_file(m, rule->file);
        r.attributes = make_attributes(m, rule);

        if (i > 0 && strcmp(sorted[first].rule->host, rule->host) == 0
            && sorted[first].rule->wildcard == rule->wildcard)
        {
            if (m->failed) {
                return;
            }

            all = RULES_AT(m, rules);
            r.host = all[first].host;
            all[first].same++;
            all[i] = r;
            continue;
        }

        first = i;
        r.same = 1;
        r.host = make_bytes(m, rule->host, (size_t) r.host_len + 1);

        if (!m->failed) {
            RULES_AT(m, rules)[i] = r;
        }
    }
}


static uint32_t
make_attributes(maker_t *m, policy_rule_t *rule)
{
    policy_rule_t  copy;

    /*
     * Two rules without lists and texts are often alike: then nothing is
     * written.  What two rules point to is never the same, but certificates.
     */

    memcpy(&copy, rule, sizeof(policy_rule_t));

    copy.name = NULL;
    copy.host = NULL;
    copy.wildcard = false;
    copy.kind = AUTHORITY_NAME;
    copy.port = 0;
    copy.file = NULL;
    copy.line = 0;

    /* NOLINTNEXTLINE(bugprone-*,cert-*): calloc'd, so padding is alike */
    if (m->last_at && memcmp(&copy, &m->last, sizeof(policy_rule_t)) == 0) {
        return m->last_at;
    }

    m->text.len = 0;
    policy_text_attributes(&m->text, rule);

    if (m->text.failed) {
        m->failed = true;
        return 0;
    }

    memcpy(&m->last, &copy, sizeof(policy_rule_t));
    m->last_at = make_known(m, m->text.data, m->text.len);

    return m->last_at;
}


/* Where this text is, which is added if it is new. */

static uint32_t
make_known(maker_t *m, const char *text, size_t n)
{
    size_t     i;
    uint32_t   at, length;
    uint64_t   hash;
    known_t   *k;

    if (m->failed || !make_know_more(m)) {
        m->failed = true;
        return 0;
    }

    for (i = 0, hash = SNAPSHOT_HASH_START; i < n; i++) {
        hash = snapshot_hash_byte(hash, text[i]);
    }

    for (i = snapshot_hash_end(hash, false) & m->known_mask; /* void */ ;
         i = (i + 1) & m->known_mask)
    {
        k = &m->known[i];

        if (k->at == 0) {
            break;
        }

        memcpy(&length, m->data + k->at, sizeof(uint32_t));

        if (k->hash == hash && length == n
            && memcmp(m->data + k->at + sizeof(uint32_t), text, n) == 0)
        {
            return k->at;
        }
    }

    length = (uint32_t) n;
    at = make_bytes(m, &length, sizeof(uint32_t));
    (void) make_bytes(m, text, n);

    k->hash = hash;
    k->at = at;
    m->known_count++;

    return at;
}


/* At most half of them are taken. */

static bool
make_know_more(maker_t *m)
{
    size_t    i, at, mask;
    known_t  *known;

    if (m->known && m->known_count < m->known_mask / 2) {
        return true;
    }

    mask = m->known ? m->known_mask * 2 + 1 : 63;
    known = calloc(mask + 1, sizeof(known_t));

    if (known == NULL) {
        return false;
    }

    for (i = 0; m->known && i <= m->known_mask; i++) {

        if (m->known[i].at == 0) {
            continue;
        }

        for (at = snapshot_hash_end(m->known[i].hash, false) & mask;
             known[at].at; at = (at + 1) & mask)
        {
            /* void */
        }

        known[at] = m->known[i];
    }

    free(m->known);
    m->known = known;
    m->known_mask = mask;

    return true;
}


/* A rule's file is nearly always that of the rule before. */

static uint16_t
make_file(maker_t *m, const char *file)
{
    void    *list;
    size_t   i;

    if (file == NULL) {
        return 0;
    }

    if (file == m->file) {
        return (uint16_t) m->file_number;
    }

    for (i = 0; i < m->files_count; i++) {
        if (strcmp(m->files[i], file) == 0) {
            break;
        }
    }

    if (i == UINT16_MAX) {
        return 0;
    }

    if (i == m->files_count) {

        list = policy_grow(m->files, m->files_count, sizeof(char *));

        if (list == NULL) {
            m->failed = true;
            return 0;
        }

        m->files = list;
        m->files[m->files_count++] = file;
    }

    m->file = file;
    m->file_number = i + 1;

    return (uint16_t) m->file_number;
}


static void
make_slots(maker_t *m, size_t record)
{
    size_t              i, k, n, at, size;
    uint32_t            hash;
    uint64_t            h;
    const char         *host;
    snapshot_slot_t    *slots;
    snapshot_rule_t    *rules;
    snapshot_policy_t  *p;

    if (m->failed) {
        return;
    }

    n = POLICY_AT(m, record)->rules_count;

    for (size = 8; size < 2 * n; size *= 2) { /* void */ }

    at = make_room(m, size * sizeof(snapshot_slot_t));

    if (m->failed) {
        return;
    }

    p = POLICY_AT(m, record);
    p->slots = (uint32_t) at;
    p->slots_mask = (uint32_t) size - 1;

    slots = (snapshot_slot_t *) (void *) (m->data + at);
    rules = RULES_AT(m, p->rules);

    for (i = 0; i < n; i += rules[i].same) {

        host = (char *) m->data + rules[i].host;

        for (k = rules[i].host_len, h = SNAPSHOT_HASH_START; k-- > 0; ) {
            h = snapshot_hash_byte(h, host[k]);
        }

        hash = snapshot_hash_end(h, rules[i].wildcard);

        for (k = hash & (size - 1); slots[k].rule; k = (k + 1) & (size - 1)) {
            /* void */
        }

        slots[k].hash = hash;
        slots[k].rule = (uint32_t) i + 1;
    }
}


static void
make_ports(maker_t *m, const policy_t *policy, size_t record)
{
    size_t         i, n, at;
    uint16_t       port, ports[PROTOCOL_DOORS_MAX];
    unsigned char  seen[65536 / 8];

    memset(seen, 0, sizeof(seen));

    for (i = 0, n = 0; i < policy->rules_count && n < PROTOCOL_DOORS_MAX; i++) {

        port = policy->rules[i]->port;

        if (port && (seen[port / 8] & (1 << port % 8)) == 0) {
            seen[port / 8] |= (unsigned char) (1 << port % 8);
            ports[n++] = port;
        }
    }

    at = make_room(m, n * sizeof(uint16_t));

    if (!m->failed) {
        memcpy(m->data + at, ports, n * sizeof(uint16_t));
        POLICY_AT(m, record)->ports = (uint32_t) at;
        POLICY_AT(m, record)->ports_count = (uint32_t) n;
    }
}


/* Of the text that policy_dump would write, of which there is never all. */

static void
make_hash(maker_t *m, policy_t *policy, size_t record)
{
    char              *text;
    size_t             i, len;
    coder_t            c;
    EVP_MD_CTX        *md;
    unsigned char      digest[EVP_MAX_MD_SIZE];
    snapshot_rule_t   *r;

    md = EVP_MD_CTX_new();
    text = m->failed ? NULL : policy_text_bare(policy->set, policy, &len);

    memset(&c, 0, sizeof(coder_t));

    c.failed = md == NULL || text == NULL
               || EVP_DigestInit_ex(md, EVP_sha256(), NULL) != 1;

    /* the last two bytes close the rules and the policy */

    c.failed = c.failed || EVP_DigestUpdate(md, text, len - 2) != 1;

    for (i = 0; i < policy->rules_count && !c.failed; i++) {

        r = RULES_AT(m, POLICY_AT(m, record)->rules) + i;

        coder_text(&c, i ? "," : "");
        policy_text_host(&c, (char *) m->data + r->host, r->wildcard, r->port);
        coder_bytes(&c, (char *) m->data + r->attributes + sizeof(uint32_t),
                    *(uint32_t *) (void *) (m->data + r->attributes));
        coder_text(&c, "}");

        if (c.len > SNAPSHOT_HASHED) {
            c.failed = c.failed || EVP_DigestUpdate(md, c.data, c.len) != 1;
            c.len = 0;
        }
    }

    coder_text(&c, "]}");

    if (c.failed || EVP_DigestUpdate(md, c.data, c.len) != 1
        || EVP_DigestFinal_ex(md, digest, NULL) != 1)
    {
        m->failed = true;

    } else {
        policy_hash_digest(digest, policy->hash);
        memcpy(POLICY_AT(m, record)->hash, policy->hash,
               sizeof(policy->hash));
    }

    EVP_MD_CTX_free(md);
    free(text);
    free(c.data);
}


static uint32_t
make_bytes(maker_t *m, const void *bytes, size_t n)
{
    size_t  at;

    at = make_room(m, n);

    if (!m->failed && n) {
        memcpy(m->data + at, bytes, n);
    }

    return (uint32_t) at;
}


/* n bytes of zeros at the end, and where; aligned. */

static size_t
make_room(maker_t *m, size_t n)
{
    size_t          at, cap;
    unsigned char  *data;

    at = (m->len + 3) & ~(size_t) 3;

    if (m->failed || at + n > UINT32_MAX) {
        m->failed = true;
        return 0;
    }

    if (at + n > m->cap) {

        cap = (at + n) * 2;
        data = realloc(m->data, cap);

        if (data == NULL) {
            m->failed = true;
            return 0;
        }

        m->data = data;
        m->cap = cap;
    }

    memset(m->data + m->len, 0, at + n - m->len);
    m->len = at + n;

    return at;
}
