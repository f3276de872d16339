/*
 * Adding rules to a policy and words to a rule.  The index is kept with every
 * rule, so a host that another rule serves already is refused at its own line,
 * and adding 100,000 costs no more than looking them up.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/policy_internal.h"


static const policy_rule_t *overlapping(const policy_t *policy,
    const policy_rule_t *rule);


policy_rule_t *
policy_add_rule(policy_t *policy, const char *text,
    char err[POLICY_ERROR_MAX])
{
    char                phrase[128], port[8];
    char                name[AUTHORITY_HOST_MAX + sizeof("[]:65535")];
    void               *list;
    size_t              i, n;
    authority_t         a;
    const char         *host, *why;
    policy_rule_t      *rule;
    authority_error_t   rc;

    policy->earlier = NULL;

    for (i = 0; text[i]; i++) {
        if ((unsigned char) text[i] >= 0x80) {
            (void) policy_error(err, "host", text,
                                "is not ASCII: write its xn-- form");
            return NULL;
        }
    }

    host = text;

    if (text[0] == '*' && text[1] == '.') {
        host += 2;
    }

    if (strchr(host, '*')) {
        (void) policy_error(err, "host", text,
                            host == text && (text[1] == '\0' || text[1] == ':')
                            ? "is refused: it is every host; write a rule "
                              "for each, or \"*.example.com\" for all under "
                              "one domain"
                            : "is refused: \"*\" stands for whole labels at "
                              "the start, as in \"*.example.com\"");
        return NULL;
    }

    n = strlen(host);
    rc = authority_parse((const unsigned char *) host, n, 443, &a);

    if (rc != AUTHORITY_OK) {
        (void) snprintf(phrase, sizeof(phrase), "is refused: %s%s",
                        authority_strerror(rc),
                        strchr(host, '/') ? ": write it without scheme and "
                                            "path" : "");
        (void) policy_error(err, "host", text, phrase);
        return NULL;
    }

    if (host != text && a.kind != AUTHORITY_NAME) {
        (void) policy_error(err, "host", text,
                            "is a wildcard over an IP address");
        return NULL;
    }

    if (a.kind == AUTHORITY_NAME
        && (host[a.host_len] != '\0' && host[a.host_len] != ':'))
    {
        (void) policy_error(err, "host", text,
                            "has a dot at its end: write it without");
        return NULL;
    }

    why = (host != text) ? policy_wildcard_refusal(a.host) : NULL;

    if (why) {
        (void) policy_error(err, "host", text, why);
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

    rule->wildcard = (host != text);
    rule->kind = a.kind;
    rule->port = a.has_port ? a.port : 0;

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
        policy_rule_free(policy->set, rule);
        return NULL;
    }

    policy->earlier = overlapping(policy, rule);

    if (policy->earlier) {
        (void) policy_error(err, "host", text,
                            "is served by an earlier rule on the same port "
                            "(a host without a port is on 80 and 443)");
        policy_rule_free(policy->set, rule);
        return NULL;
    }

    if (policy_index_add(policy, rule) != 0) {
        (void) policy_no_memory(err);
        policy_rule_free(policy->set, rule);
        return NULL;
    }

    policy->rules[policy->rules_count++] = rule;

    return rule;
}


int
policy_rule_add_method(policy_rule_t *rule, const char *method,
    char err[POLICY_ERROR_MAX])
{
    if (strchr(method, ',')) {
        return policy_error(err, "method", method,
                            "is no method: separate them by spaces, as in "
                            "\"methods GET POST\"");
    }

    if (!policy_is_method(method)) {
        return policy_error(err, "method", method,
                            "is no method: they are written in capitals");
    }

    if (strcmp(method, "CONNECT") == 0) {
        return policy_error(err, "method", method,
                            "is never passed on: the requests inside it are "
                            "judged");
    }

    return policy_add_string(&rule->methods, &rule->methods_count, method,
                             "method", err);
}


int
policy_rule_add_range(policy_rule_t *rule, const char *text,
    char err[POLICY_ERROR_MAX])
{
    void             *list;
    size_t            i;
    const char       *why;
    address_range_t   range;

    if (address_range_parse(text, strlen(text), &range, &why) != 0) {
        return policy_error(err, "private", text, why);
    }

    why = policy_range_refusal(&range);

    if (why) {
        return policy_error(err, "private", text, why);
    }

    for (i = 0; i < rule->ranges_count; i++) {
        if (memcmp(&rule->ranges[i], &range, sizeof(address_range_t)) == 0) {
            return policy_error(err, "private", text, "is repeated");
        }
    }

    list = policy_grow(rule->ranges, rule->ranges_count,
                       sizeof(address_range_t));

    if (list == NULL) {
        return policy_no_memory(err);
    }

    rule->ranges = list;
    rule->ranges[rule->ranges_count++] = range;

    return 0;
}


int
policy_rule_set_hint(policy_rule_t *rule, const char *text,
    char err[POLICY_ERROR_MAX])
{
    if (rule->hint) {
        return policy_error(err, "hint", text, "is a second one");
    }

    if (!policy_is_plain_text(text, POLICY_HINT_MAX)) {
        return policy_error(err, "hint", text,
                            "is not one line of 1 to 256 bytes of text");
    }

    rule->hint = strdup(text);

    return rule->hint ? 0 : policy_no_memory(err);
}


bool
policy_rule_allows_method(const policy_rule_t *rule, const char *method,
    size_t n)
{
    bool    get;
    size_t  i;

    get = (n == 3 && memcmp(method, "GET", 3) == 0)
          || (n == 4 && memcmp(method, "HEAD", 4) == 0);

    if (rule->methods_count == 0) {
        return get;
    }

    for (i = 0; i < rule->methods_count; i++) {
        if ((strlen(rule->methods[i]) == n
             && memcmp(rule->methods[i], method, n) == 0)
            || (get && n == 4 && strcmp(rule->methods[i], "GET") == 0))
        {
            return true;
        }
    }

    return false;
}


void
policy_rule_free(policy_set_t *set, policy_rule_t *rule)
{
    if (rule->data && set->data_free) {
        set->data_free(rule->data);
    }

    if (rule->pem == NULL) {
        free(rule->trusted_pem);
    }

    policy_free_strings(rule->methods, rule->methods_count);
    free(rule->ranges);
    free(rule->credential);
    free(rule->hint);
    free(rule->name);
    free(rule->host);
    free(rule);
}


/* An earlier rule of the same host that answers one of this one's ports. */

static const policy_rule_t *
overlapping(const policy_t *policy, const policy_rule_t *rule)
{
    size_t                i;
    const policy_rule_t  *other;

    static const uint16_t  standard[] = { 0, 80, 443 };

    if (rule->port != 0 && rule->port != 80 && rule->port != 443) {
        return policy_index_port(policy, rule->host, rule->wildcard,
                                 rule->port);
    }

    for (i = 0; i < 3; i++) {

        if (rule->port != 0 && standard[i] != 0 && standard[i] != rule->port) {
            continue;
        }

        other = policy_index_port(policy, rule->host, rule->wildcard,
                                  standard[i]);
        if (other) {
            return other;
        }
    }

    return NULL;
}
