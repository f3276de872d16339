/*
 * `host`: a rule is added to a policy.  The index is kept with every rule, so
 * a host that another rule serves already is refused at its own line, and
 * adding 100,000 costs no more than looking them up.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/policy_fields.h"
#include "policy/policy_index.h"
#include "policy/policy_words.h"


static int policy_host_parse(const char *text, authority_t *a,
    char err[POLICY_ERROR_MAX]);
static const policy_rule_t *policy_host_overlap(const policy_t *policy,
    const policy_rule_t *rule);


policy_rule_t *
policy_add_rule(policy_t *policy, const char *text,
    char err[POLICY_ERROR_MAX])
{
    char            port[8];
    char            name[AUTHORITY_HOST_MAX + sizeof("[]:65535")];
    void           *list;
    authority_t     a;
    policy_rule_t  *rule;

    policy->earlier = NULL;

    if (policy_host_parse(text, &a, err) != 0) {
        return NULL;
    }

    list = policy_grow(policy->rules, policy->rules_count,
                       sizeof(policy_rule_t *));

    if (list == NULL) {
        (void) policy_no_memory(err);
        return NULL;
    }

    policy->rules = list;

    rule = calloc(1, sizeof(policy_rule_t));

    if (rule == NULL) {
        (void) policy_no_memory(err);
        return NULL;
    }

    rule->wildcard = (text[0] == '*');
    /* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): was parsed */
    rule->kind = a.kind;
    rule->port = a.has_port ? a.port : 0;
    policy_fields_default(policy_rule_fields, rule);

    port[0] = '\0';

    if (rule->port) {
        (void) snprintf(port, sizeof(port), ":%u", (unsigned) rule->port);
    }

    (void) snprintf(name, sizeof(name), a.kind == AUTHORITY_IPV6 ? "[%s]%s"
                                        : rule->wildcard ? "*.%s%s" : "%s%s",
                    a.host, port);

    rule->name = strdup(name);
    rule->host = strdup(a.host);

    if (rule->name == NULL || rule->host == NULL) {
        (void) policy_no_memory(err);
        goto failed;
    }

    policy->earlier = policy_host_overlap(policy, rule);

    if (policy->earlier) {
        (void) policy_error(err, "host", text,
                            "is served by an earlier rule on the same port "
                            "(a host without a port is on 80 and 443)");
        goto failed;
    }

    if (policy_index_add(policy, rule) != 0) {
        (void) policy_no_memory(err);
        goto failed;
    }

    policy->rules[policy->rules_count++] = rule;

    return rule;

failed:

    free(rule->name);
    free(rule->host);
    free(rule);

    return NULL;
}


/* Of a wildcard, what is behind its "*." */

static int
policy_host_parse(const char *text, authority_t *a,
    char err[POLICY_ERROR_MAX])
{
    char                phrase[128];
    size_t              i;
    const char         *host, *why;
    authority_error_t   rc;

    for (i = 0; text[i]; i++) {
        if ((unsigned char) text[i] >= 0x80) {
            return policy_error(err, "host", text,
                                "is not ASCII: write its xn-- form");
        }
    }

    host = text;

    if (text[0] == '*' && text[1] == '.') {
        host += 2;
    }

    if (strchr(host, '*')) {
        return policy_error(err, "host", text,
                            host == text && (text[1] == '\0' || text[1] == ':')
                            ? "is refused: it is every host; write a rule "
                              "for each, or \"*.example.com\" for all under "
                              "one domain"
                            : "is refused: \"*\" stands for whole labels at "
                              "the start, as in \"*.example.com\"");
    }

    rc = authority_parse((const unsigned char *) host, strlen(host), 443, a);

    if (rc != AUTHORITY_OK) {
        (void) snprintf(phrase, sizeof(phrase), "is refused: %s%s",
                        authority_strerror(rc),
                        strchr(host, '/') ? ": write it without scheme and "
                                            "path" : "");
        return policy_error(err, "host", text, phrase);
    }

    if (host != text && a->kind != AUTHORITY_NAME) {
        return policy_error(err, "host", text,
                            "is a wildcard over an IP address");
    }

    if (a->kind == AUTHORITY_NAME
        && (host[a->host_len] != '\0' && host[a->host_len] != ':'))
    {
        return policy_error(err, "host", text,
                            "has a dot at its end: write it without");
    }

    why = (host != text) ? policy_wildcard_refusal(a->host) : NULL;

    return why ? policy_error(err, "host", text, why) : 0;
}


/* An earlier rule of the same host that answers one of this one's ports. */

static const policy_rule_t *
policy_host_overlap(const policy_t *policy, const policy_rule_t *rule)
{
    size_t                i;
    const policy_rule_t  *other;

    static const uint16_t  standard[] = { 0, 80, 443 };

    if (rule->port != 0 && rule->port != 80 && rule->port != 443) {
        return policy_index_find(policy, rule->host, rule->wildcard,
                                 rule->port);
    }

    for (i = 0; i < 3; i++) {

        if (rule->port != 0 && standard[i] != 0 && standard[i] != rule->port) {
            continue;
        }

        other = policy_index_find(policy, rule->host, rule->wildcard,
                                  standard[i]);
        if (other) {
            return other;
        }
    }

    return NULL;
}
