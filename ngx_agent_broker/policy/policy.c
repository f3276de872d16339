/*
 * What a policy says about the box and its launchers.  The directives and the
 * loader of the text form add words by the same functions, so nothing that
 * one refuses comes in by the other.
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

#include "jail/shared/box_paths.h"
#include "jail/shared/secret.h"
#include "policy/policy.h"
#include "policy/policy_words.h"


int
policy_choose_isolation(policy_t *policy, const char *text,
    char err[POLICY_ERROR_MAX])
{
    free(policy->isolation);
    policy->isolation = strdup(text);

    return policy->isolation ? 0 : policy_no_memory(err);
}


int
policy_add_env(policy_t *policy, const char *name,
    char err[POLICY_ERROR_MAX])
{
    size_t       i;
    const char  *why;

    why = policy_env_refusal(name);

    for (i = 0; i < policy->env_despite_count; i++) {
        if (strcmp(policy->env_despite[i], name) == 0) {
            break;
        }
    }

    if (why == NULL && i == policy->env_despite_count && secret_is_name(name)) {
        why = "means a secret, and a box holds none: put it into the vault and "
              "name it in the \"host\" that needs it, or, if its values are "
              "public, write \"env_despite_name\" instead of \"env\"";
    }

    if (why) {
        return policy_error(err, "env", name, why);
    }

    if (policy->env_count == BOX_ENV_MAX) {
        return policy_error(err, "env", name, "is one more than a box can be "
                            "given: a policy has at most 64");
    }

    return policy_list_add(&policy->env, &policy->env_count, &name,
                           sizeof(char *), true, "env", name, err);
}


int
policy_add_env_despite(policy_t *policy, const char *name,
    char err[POLICY_ERROR_MAX])
{
    if (!secret_is_name(name)) {
        return policy_error(err, "env_despite_name", name,
                            "does not mean a secret: write it with \"env\"");
    }

    return policy_list_add(&policy->env_despite, &policy->env_despite_count,
                           &name, sizeof(char *), true, "env_despite_name",
                           name, err);
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

    if (policy->readable_count == BOX_READABLE_MAX) {
        return policy_error(err, "readable", path, "is one more than a box can "
                            "be given: a policy has at most 32");
    }

    return policy_list_add(&policy->readable, &policy->readable_count, &path,
                           sizeof(char *), true, "readable", path, err);
}


int
policy_add_writable(policy_t *policy, const char *path, uint64_t bytes,
    char err[POLICY_ERROR_MAX])
{
    const char         *why;
    policy_writable_t   item;

    why = policy_writable_refusal(path);

    if (why) {
        return policy_error(err, "writable", path, why);
    }

    /* the limit's table has the bounds of a task's memory: the same here */

    if (bytes < 4096 || bytes > limit_table[LIMIT_MEMORY].max) {
        return policy_error(err, "writable", path,
                            "must have a size from 4k to 16t");
    }

    if (policy->writable_count == BOX_WRITABLE_MAX) {
        return policy_error(err, "writable", path, "is one more than a box can "
                            "be given: a policy has at most 16");
    }

    item.path = NULL;
    item.bytes = bytes;

    return policy_list_add(&policy->writable, &policy->writable_count, &item,
                           sizeof(policy_writable_t), true, "writable", path,
                           err);
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

    return group ? policy_add_launcher_id(&policy->launcher_gids,
                                          &policy->launcher_gids_count, id,
                                          err)
                 : policy_add_launcher_id(&policy->launcher_uids,
                                          &policy->launcher_uids_count, id,
                                          err);
}


int
policy_add_launcher_id(uint32_t **list, size_t *count, uint64_t id,
    char err[POLICY_ERROR_MAX])
{
    char      text[16];
    uint32_t  item;

    item = (uint32_t) id;
    (void) snprintf(text, sizeof(text), "%u", (unsigned) item);

    return policy_list_add(list, count, &item, sizeof(uint32_t), false,
                           "launchers", text, err);
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
