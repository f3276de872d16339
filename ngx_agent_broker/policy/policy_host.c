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


policy_rule_t *
policy_add_rule(policy_t *policy, const char *text,
    char err[POLICY_ERROR_MAX])
{
    void           *list;
    policy_rule_t  *rule;

    policy->earlier = NULL;

    list = policy_grow(policy->rules, policy->rules_count,
                       sizeof(policy_rule_t *));

    if (list == NULL) {
        (void) policy_no_memory(err);
        return NULL;
    }

    policy->rules = list;

    rule = policy_rule_new(text, err);

    if (rule == NULL) {
        return NULL;
    }

    if (policy_index_add(policy, rule) != 0) {
        (void) (policy->earlier
                ? policy_error(err, "host", text,
                               "is served by an earlier rule on the same port "
                               "(a host without a port is on 80 and 443)")
                : policy_no_memory(err));
        free(rule);
        return NULL;
    }

    policy->rules[policy->rules_count++] = rule;

    return rule;
}


/* One piece of memory: the rule, its host, and its name if that is longer. */

policy_rule_t *
policy_rule_new(const char *text, char err[POLICY_ERROR_MAX])
{
    char            port[8];
    size_t          size;
    authority_t     a;
    policy_rule_t  *rule;

    if (policy_host_parse(text, &a, err) != 0) {
        return NULL;
    }

    /* NOLINTNEXTLINE(clang-analyzer-core.*): was parsed */
    size = sizeof(policy_rule_t) + a.host_len + 1;

    rule = calloc(1, size + a.host_len + sizeof("*.[]:65535"));

    if (rule == NULL) {
        (void) policy_no_memory(err);
        return NULL;
    }

    rule->wildcard = (text[0] == '*');
    /* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): was parsed */
    rule->kind = a.kind;
    rule->port = a.has_port ? a.port : 0;
    policy_fields_default(policy_rule_fields, rule);

    rule->host = (char *) (rule + 1);
    memcpy(rule->host, a.host, a.host_len + 1);
    rule->name = rule->host;

    if (rule->port || rule->wildcard || a.kind == AUTHORITY_IPV6) {

        port[0] = '\0';

        if (rule->port) {
            (void) snprintf(port, sizeof(port), ":%u", (unsigned) rule->port);
        }

        rule->name = (char *) rule + size;
        (void) sprintf(rule->name, a.kind == AUTHORITY_IPV6 ? "[%s]%s"
                                   : rule->wildcard ? "*.%s%s" : "%s%s",
                       a.host, port);
    }

    return rule;
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
