/* What the sources of the policy share; no one else includes it. */

#ifndef POLICY_INTERNAL_H
#define POLICY_INTERNAL_H

#include "policy/policy.h"


#define POLICY_TEXT_VERSION  1


/* One text of trusted certificates, shared by the rules that name it. */

typedef struct policy_pem_s  policy_pem_t;

struct policy_pem_s {
    policy_pem_t  *next;
    char          *text;
    char           hash[POLICY_HASH_LEN + 1];
};


/* Adds a rule to the policy's index, made when missing; -1: no memory. */
int policy_index_add(policy_t *policy, policy_rule_t *rule);

/* Of the host itself (all its rules), or of the host with exactly this port
   (0: the rule without one); NULL when there is none. */
policy_rule_t *policy_index_host(const policy_t *policy, const char *host,
    bool wildcard);
policy_rule_t *policy_index_port(const policy_t *policy, const char *host,
    bool wildcard, uint16_t port);

void policy_index_free(policy_t *policy);


/* Makes room for one more element; NULL: no memory, and the old one stays. */
void *policy_grow(void *array, size_t count, size_t size);

/* "sha256:" and hex digits of n bytes. */
void policy_hash_text(const void *p, size_t n,
    char dst[POLICY_HASH_LEN + 1]);

/*
 * Replaces *text, malloc'd or already one of the set's, by the set's copy
 * and frees it.  *pem is set with it.  -1: no memory, or no PEM text.
 */
int policy_set_adopt_pem(policy_set_t *set, char **text, policy_pem_t **pem);

/* By its hash; NULL: there is none. */
policy_pem_t *policy_set_find_pem(const policy_set_t *set, const char *hash);

/* Adds a user (or group) id to the launchers; a repeated one is refused. */
int policy_add_launcher_id(policy_t *policy, bool group, uint32_t id,
    char err[POLICY_ERROR_MAX]);

/* Adds a copy to a list of strings; a repeated one is refused. */
int policy_add_string(char ***list, size_t *count, const char *text,
    const char *what, char err[POLICY_ERROR_MAX]);
void policy_free_strings(char **list, size_t count);

void policy_rule_free(policy_set_t *set, policy_rule_t *rule);

int policy_no_memory(char err[POLICY_ERROR_MAX]);


/* Why no rule may have this `private` range; NULL: it may. */
const char *policy_range_refusal(const address_range_t *range);


/* policy_words.c: the grammar of the words that policies are made of. */

bool policy_is_name(const char *text);
bool policy_is_method(const char *text);
bool policy_is_path(const char *text);
bool policy_is_plain_text(const char *text, size_t max);
bool policy_is_pem(const char *text);
const char *policy_env_refusal(const char *name);
const char *policy_readable_refusal(const char *path);
const char *policy_writable_refusal(const char *path);
const char *policy_wildcard_refusal(const char *host);


#endif /* POLICY_INTERNAL_H */
