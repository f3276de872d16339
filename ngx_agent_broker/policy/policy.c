/*
 * Sets of policies, and what a policy says about the box and its launchers;
 * rules are in policy_rule.c.  The directives of the configuration and the
 * loader of the text form (policy_load.c) go through the same functions, so
 * nothing that one refuses comes in by the other.
 *
 * Every word is judged where it is added (policy_words.c), what depends on
 * several words when all are there (policy_check.c).
 */

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/sha.h>

#include "policy/policy_internal.h"


#define QUOTED_MAX  96          /* bytes of a foreign word in a message */


static void policy_free(policy_set_t *set, policy_t *policy);


policy_set_t *
policy_set_new(void)
{
    return calloc(1, sizeof(policy_set_t));
}


void
policy_set_free(policy_set_t *set)
{
    size_t         i;
    policy_pem_t  *pem;

    if (set == NULL) {
        return;
    }

    for (i = 0; i < set->policies_count; i++) {
        policy_free(set, set->policies[i]);
    }

    free(set->policies);

    if (set->data && set->data_free) {
        set->data_free(set->data);
    }

    if (set->pem == NULL) {
        free(set->trusted_pem);
    }

    while (set->pems) {
        pem = set->pems;
        set->pems = pem->next;
        free(pem->text);
        free(pem);
    }

    free(set);
}


policy_t *
policy_set_add(policy_set_t *set, const char *name,
    char err[POLICY_ERROR_MAX])
{
    void      *list;
    policy_t  *policy;

    if (!policy_is_name(name)) {
        (void) policy_error(err, "policy", name,
                            "is no name: 1 to 64 letters, digits, \"_\", "
                            "\".\" and \"-\", the last two not first");
        return NULL;
    }

    if (policy_set_find(set, name)) {
        (void) policy_error(err, "policy", name, "is defined already");
        return NULL;
    }

    list = policy_grow(set->policies, set->policies_count, sizeof(policy_t *));

    if (list == NULL) {
        (void) policy_no_memory(err);
        return NULL;
    }

    set->policies = list;

    policy = calloc(1, sizeof(policy_t));

    if (policy == NULL) {
        (void) policy_no_memory(err);
        return NULL;
    }

    policy->set = set;
    (void) strcpy(policy->name, name);
    limits_default(policy->limits);
    bounds_default(policy->bounds);

    policy->isolation = strdup("namespaces");

    if (policy->isolation == NULL) {
        free(policy);
        (void) policy_no_memory(err);
        return NULL;
    }

    set->policies[set->policies_count++] = policy;

    return policy;
}


const policy_t *
policy_set_find(const policy_set_t *set, const char *name)
{
    size_t  i;

    for (i = 0; i < set->policies_count; i++) {
        if (strcmp(set->policies[i]->name, name) == 0) {
            return set->policies[i];
        }
    }

    return NULL;
}


int
policy_add_env(policy_t *policy, const char *name,
    char err[POLICY_ERROR_MAX])
{
    const char  *why;

    why = policy_env_refusal(name);

    if (why) {
        return policy_error(err, "env", name, why);
    }

    return policy_add_string(&policy->env, &policy->env_count, name, "env",
                             err);
}


int
policy_add_readable(policy_t *policy, const char *path,
    char err[POLICY_ERROR_MAX])
{
    const char  *why;

    why = policy_readable_refusal(path);

    if (why) {
        return policy_error(err, "readable", path, why);
    }

    return policy_add_string(&policy->readable, &policy->readable_count, path,
                             "readable", err);
}


int
policy_add_writable(policy_t *policy, const char *path, uint64_t bytes,
    char err[POLICY_ERROR_MAX])
{
    void        *list;
    size_t       i;
    const char  *why;

    why = policy_writable_refusal(path);

    if (why) {
        return policy_error(err, "writable", path, why);
    }

    /* the limit's table has the bounds of a task's memory: the same here */

    if (bytes < 4096 || bytes > limit_table[LIMIT_MEMORY].max) {
        return policy_error(err, "writable", path,
                            "must have a size from 4k to 16t");
    }

    for (i = 0; i < policy->writable_count; i++) {
        if (strcmp(policy->writable[i].path, path) == 0) {
            return policy_error(err, "writable", path, "is repeated");
        }
    }

    list = policy_grow(policy->writable, policy->writable_count,
                       sizeof(policy_writable_t));

    if (list == NULL) {
        return policy_no_memory(err);
    }

    policy->writable = list;
    policy->writable[i].path = strdup(path);
    policy->writable[i].bytes = bytes;

    if (policy->writable[i].path == NULL) {
        return policy_no_memory(err);
    }

    policy->writable_count++;

    return 0;
}


int
policy_add_launcher(policy_t *policy, const char *text,
    char err[POLICY_ERROR_MAX])
{
    bool            group;
    char           *end;
    const char     *name;
    unsigned long   id;
    struct group   *gr;
    struct passwd  *pw;

    group = (strncmp(text, "group:", 6) == 0);

    if (!group && strncmp(text, "user:", 5) != 0) {
        return policy_error(err, "launchers", text,
                            "is neither user:NAME nor group:NAME");
    }

    name = text + (group ? 6 : 5);

    if (name[0] >= '0' && name[0] <= '9') {

        errno = 0;
        id = strtoul(name, &end, 10);

        if (errno || *end != '\0' || (name[0] == '0' && name[1])
            || id >= UINT32_MAX)
        {
            return policy_error(err, "launchers", text, "has a malformed id");
        }

    } else if (group) {

        gr = getgrnam(name);

        if (gr == NULL) {
            return policy_error(err, "launchers", text,
                                "names a group that does not exist");
        }

        id = gr->gr_gid;

    } else {

        pw = getpwnam(name);

        if (pw == NULL) {
            return policy_error(err, "launchers", text,
                                "names a user who does not exist");
        }

        id = pw->pw_uid;
    }

    return policy_add_launcher_id(policy, group, (uint32_t) id, err);
}


int
policy_add_launcher_id(policy_t *policy, bool group, uint32_t id,
    char err[POLICY_ERROR_MAX])
{
    char    text[16];
    void   *list;
    size_t  i, count;

    count = group ? policy->launcher_gids_count : policy->launcher_uids_count;

    for (i = 0; i < count; i++) {
        if (id == (group ? policy->launcher_gids[i]
                         : policy->launcher_uids[i]))
        {
            (void) snprintf(text, sizeof(text), "%u", (unsigned) id);
            return policy_error(err, "launchers", text, "is repeated");
        }
    }

    list = group ? (void *) policy->launcher_gids
                 : (void *) policy->launcher_uids;

    list = policy_grow(list, count, sizeof(uid_t));

    if (list == NULL) {
        return policy_no_memory(err);
    }

    if (group) {
        policy->launcher_gids = list;
        policy->launcher_gids[policy->launcher_gids_count++] = id;

    } else {
        policy->launcher_uids = list;
        policy->launcher_uids[policy->launcher_uids_count++] = id;
    }

    return 0;
}


bool
policy_allows_launcher(const policy_t *policy, uid_t uid,
    const gid_t *groups, size_t groups_count, uid_t owner)
{
    size_t  i, k;

    if (uid == 0) {
        return true;
    }

    if (policy->launcher_uids_count == 0 && policy->launcher_gids_count == 0) {
        return uid == owner;
    }

    for (i = 0; i < policy->launcher_uids_count; i++) {
        if (policy->launcher_uids[i] == uid) {
            return true;
        }
    }

    for (i = 0; i < policy->launcher_gids_count; i++) {
        for (k = 0; k < groups_count; k++) {
            if (policy->launcher_gids[i] == groups[k]) {
                return true;
            }
        }
    }

    return false;
}


static void
policy_free(policy_set_t *set, policy_t *policy)
{
    size_t  i;

    policy_index_free(policy);

    for (i = 0; i < policy->rules_count; i++) {
        policy_rule_free(set, policy->rules[i]);
    }

    for (i = 0; i < policy->writable_count; i++) {
        free(policy->writable[i].path);
    }

    policy_free_strings(policy->readable, policy->readable_count);
    policy_free_strings(policy->env, policy->env_count);

    free(policy->rules);
    free(policy->writable);
    free(policy->launcher_uids);
    free(policy->launcher_gids);
    free(policy->isolation);
    free(policy);
}


int
policy_add_string(char ***list, size_t *count, const char *text,
    const char *what, char err[POLICY_ERROR_MAX])
{
    char    *copy;
    void    *grown;
    size_t   i;

    for (i = 0; i < *count; i++) {
        if (strcmp((*list)[i], text) == 0) {
            return policy_error(err, what, text, "is repeated");
        }
    }

    grown = policy_grow(*list, *count, sizeof(char *));

    if (grown == NULL) {
        return policy_no_memory(err);
    }

    *list = grown;
    copy = strdup(text);

    if (copy == NULL) {
        return policy_no_memory(err);
    }

    (*list)[(*count)++] = copy;

    return 0;
}


void
policy_free_strings(char **list, size_t count)
{
    while (count > 0) {
        free(list[--count]);
    }

    free(list);
}


/* Room doubles when the count reaches a power of two. */

void *
policy_grow(void *array, size_t count, size_t size)
{
    if (count & (count - 1)) {
        return array;
    }

    return reallocarray(array, count ? count * 2 : 1, size);
}


void
policy_hash_text(const void *p, size_t n, char dst[POLICY_HASH_LEN + 1])
{
    size_t         i;
    unsigned char  digest[SHA256_DIGEST_LENGTH];

    (void) SHA256(p, n, digest);

    (void) strcpy(dst, "sha256:");

    for (i = 0; i < sizeof(digest); i++) {
        (void) sprintf(dst + 7 + 2 * i, "%02x", digest[i]);
    }
}


int
policy_set_adopt_pem(policy_set_t *set, char **text, policy_pem_t **pem)
{
    char           hash[POLICY_HASH_LEN + 1];
    policy_pem_t  *p;

    if (*text == NULL || *pem != NULL) {
        return 0;
    }

    if (!policy_is_pem(*text)) {
        return -1;
    }

    policy_hash_text(*text, strlen(*text), hash);

    p = policy_set_find_pem(set, hash);

    if (p) {
        free(*text);
        *text = p->text;
        *pem = p;
        return 0;
    }

    p = calloc(1, sizeof(policy_pem_t));

    if (p == NULL) {
        return -1;
    }

    p->text = *text;
    (void) strcpy(p->hash, hash);
    p->next = set->pems;
    set->pems = p;
    *pem = p;

    return 0;
}


policy_pem_t *
policy_set_find_pem(const policy_set_t *set, const char *hash)
{
    policy_pem_t  *p;

    for (p = set->pems; p && strcmp(p->hash, hash) != 0; p = p->next) {
        /* void */
    }

    return p;
}


/* The foreign word is shown without the bytes that would forge a log line. */

int
policy_error(char err[POLICY_ERROR_MAX], const char *what, const char *value,
    const char *why)
{
    char    shown[QUOTED_MAX + 4];
    size_t  i;

    for (i = 0; value[i] && i < QUOTED_MAX; i++) {
        shown[i] = (value[i] > 0x1f && value[i] < 0x7f) ? value[i] : '?';
    }

    (void) strcpy(shown + i, value[i] ? "..." : "");

    (void) snprintf(err, POLICY_ERROR_MAX, "%s \"%s\" %s", what, shown, why);

    return -1;
}


int
policy_no_memory(char err[POLICY_ERROR_MAX])
{
    (void) strcpy(err, "no memory");

    return -1;
}
