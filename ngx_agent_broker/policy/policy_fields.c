/* The tables of what a set, a policy and a rule say. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/policy_fields.h"
#include "policy/policy_path.h"


#define AT(type, member)     .offset = offsetof(type, member)
#define LIST(type, member)                                                    \
    AT(type, member), .count = offsetof(type, member##_count)

#define SET(member)          AT(policy_set_t, member)
#define POLICY(member)       AT(policy_t, member)
#define RULE(member)         AT(policy_rule_t, member)

#define SET_LIST(member)     LIST(policy_set_t, member)
#define POLICY_LIST(member)  LIST(policy_t, member)
#define RULE_LIST(member)    LIST(policy_rule_t, member)


#define POLICY_BODY_MAX      (1ULL << 40)
#define POLICY_IDLE_MAX      86400000           /* ms: a day */


static int policy_field_number(const policy_field_t *field, void *object,
    const char *word, char err[POLICY_ERROR_MAX]);


static const policy_field_t  policy_launcher_fields[] = {
    { "uids", POLICY_IDS, POLICY_LIST(launcher_uids) },
    { "gids", POLICY_IDS, POLICY_LIST(launcher_gids) },
    { .name = NULL }
};


const policy_field_t  policy_set_fields[] = {
    { "generation", POLICY_COUNT, SET(generation) },
    { "trusted", POLICY_SET_TRUSTED, SET(trusted_pem) },
    { "certificates", POLICY_PEMS, SET(pems) },
    { "policies", POLICY_POLICIES, SET_LIST(policies) },
    { .name = NULL }
};


/* after its name */

const policy_field_t  policy_fields[] = {
    { "isolation", POLICY_STRING, POLICY(isolation),
      .policy_add = policy_choose_isolation },
    { "limits", POLICY_LIMITS, POLICY(limits) },
    { "bounds", POLICY_BOUNDS, POLICY(bounds) },
    { "request_body", POLICY_BYTES, POLICY(request_body),
      .bounds = { 1, POLICY_BODY_MAX, 10 << 20 } },
    { "idle", POLICY_TIME, POLICY(idle),
      .bounds = { 1000, POLICY_IDLE_MAX, 60000 } },
    { "writable", POLICY_WRITABLE, POLICY_LIST(writable) },
    { "readable", POLICY_STRINGS, POLICY_LIST(readable),
      .policy_add = policy_add_readable },
    { "env_despite_name", POLICY_STRINGS, POLICY_LIST(env_despite),
      .policy_add = policy_add_env_despite },
    { "env", POLICY_STRINGS, POLICY_LIST(env),
      .policy_add = policy_add_env },
    { "launchers", POLICY_OBJECT, .fields = policy_launcher_fields,
      .policy_add = policy_add_launcher },
    { "trusted", POLICY_SAME_TRUSTED, POLICY(set) },
    { "rules", POLICY_RULES, POLICY_LIST(rules) },
    { .name = NULL }
};


/* after its host and ports */

const policy_field_t  policy_rule_fields[] = {
    { "methods", POLICY_STRINGS, RULE_LIST(methods),
      .rule_add = policy_rule_add_method },
    { "path", POLICY_STRINGS, RULE_LIST(paths),
      .rule_add = policy_rule_add_path },
    { "plaintext", POLICY_FLAG, RULE(plaintext) },
    { "websocket", POLICY_FLAG, RULE(websocket) },
    { "tunnel", POLICY_FLAG, RULE(tunnel) },
    { "request_body", POLICY_BYTES, RULE(request_body),
      .bounds = { 1, POLICY_BODY_MAX, 0 } },
    { "idle", POLICY_TIME, RULE(idle),
      .bounds = { 1000, POLICY_IDLE_MAX, 0 } },
    { "reuse_after_body", POLICY_FLAG, RULE(reuse_after_body) },
    { "credential", POLICY_CREDENTIAL, RULE(credential) },
    { "credential_scope", POLICY_CHOICE, RULE(credential_wildcard),
      .choices = { "exact", "wildcard" } },
    { "client_credentials", POLICY_CHOICE, RULE(client_credentials),
      .choices = { "strip", "pass" } },
    { "cookies", POLICY_FLAG, RULE(cookies) },
    { "private", POLICY_RANGES, RULE_LIST(ranges),
      .rule_add = policy_rule_add_range },
    { "trusted", POLICY_TRUSTED, RULE(trusted_pem) },
    { "hint", POLICY_STRING_OR_NULL, RULE(hint),
      .rule_add = policy_rule_set_hint },
    { .name = NULL }
};


const policy_field_t *
policy_field_find(const policy_field_t *fields, const char *name)
{
    while (strcmp(fields->name, name) != 0) {
        fields++;
    }

    return fields;
}


int
policy_field_add(const policy_field_t *field, void *object, const char *word,
    char err[POLICY_ERROR_MAX])
{
    bool               *flag;
    const char *const  *choices;

    static const char *const  flags[] = { "off", "on" };

    if (field->policy_add) {
        return field->policy_add(object, word, err);
    }

    if (field->rule_add) {
        return field->rule_add(object, word, err);
    }

    if (field->kind != POLICY_FLAG && field->kind != POLICY_CHOICE) {
        return policy_field_number(field, object, word, err);
    }

    choices = field->kind == POLICY_FLAG ? flags : field->choices;

    flag = (bool *) ((char *) object + field->offset);
    *flag = strcmp(word, choices[1]) == 0;

    if (!*flag && strcmp(word, choices[0]) != 0) {
        (void) snprintf(err, POLICY_ERROR_MAX, "it must be \"%s\" or \"%s\"",
                        choices[1], choices[0]);
        return -1;
    }

    return 0;
}


static int
policy_field_number(const policy_field_t *field, void *object,
    const char *word, char err[POLICY_ERROR_MAX])
{
    char           least[32], most[32];
    uint64_t      *value;
    limit_unit_t   unit;

    unit = field->kind == POLICY_TIME ? UNIT_TIME
           : field->kind == POLICY_BYTES ? UNIT_BYTES : UNIT_COUNT;

    value = (uint64_t *) ((char *) object + field->offset);

    if (limit_parse_unit(unit, word, strlen(word), value) == 0
        && *value >= field->bounds.min && *value <= field->bounds.max)
    {
        return 0;
    }

    (void) snprintf(err, POLICY_ERROR_MAX, "must be from %s to %s",
                    limit_unit_text(unit, field->bounds.min, least,
                                    sizeof(least)),
                    limit_unit_text(unit, field->bounds.max, most,
                                    sizeof(most)));

    return -1;
}


void
policy_fields_default(const policy_field_t *fields, void *object)
{
    for ( /* void */ ; fields->name; fields++) {
        if (fields->bounds.max) {
            *(uint64_t *) ((char *) object + fields->offset) =
                                                     fields->bounds.standard;
        }
    }
}


void
policy_fields_free(const policy_field_t *fields, void *object)
{
    char    *list;
    size_t   i, size;

    for ( /* void */ ; fields->name; fields++) {

        size = 0;

        switch (fields->kind) {

        case POLICY_OBJECT:
            policy_fields_free(fields->fields, object);
            continue;

        case POLICY_FLAG:
        case POLICY_CHOICE:
        case POLICY_COUNT:
        case POLICY_BYTES:
        case POLICY_TIME:
        case POLICY_LIMITS:
        case POLICY_BOUNDS:
        case POLICY_TRUSTED:            /* the set's, as the next ones */
        case POLICY_SET_TRUSTED:
        case POLICY_SAME_TRUSTED:
        case POLICY_PEMS:
            continue;

        case POLICY_STRINGS:
            size = sizeof(char *);
            break;

        case POLICY_WRITABLE:
            size = sizeof(policy_writable_t);   /* its path is first */
            break;

        default:
            break;
        }

        list = *(char **) ((char *) object + fields->offset);

        for (i = 0; size && i < *(size_t *) ((char *) object + fields->count);
             i++)
        {
            free(*(char **) (list + i * size));
        }

        free(list);
    }
}
