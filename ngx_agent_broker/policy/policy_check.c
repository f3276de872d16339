/*
 * What can be judged only when a rule or a policy is complete.  The
 * configuration test and the loader both end here: nothing unchecked reaches a
 * request.
 */

#include <stdio.h>
#include <string.h>

#include "policy/policy.h"
#include "policy/policy_words.h"


#define STANDING_DOORS  5       /* proxy, dns by udp and tcp, web at 80, 443 */


static const char *policy_check_attributes(const policy_rule_t *rule);
static const char *policy_check_port(const policy_rule_t *rule);
static const char *policy_check_localhost(const policy_rule_t *rule);
static const char *policy_check_address(const policy_rule_t *rule);
static bool policy_is_localhost(const policy_rule_t *rule);
static bool policy_holds_loopback(const address_range_t *range);


static const char *const  isolations[] = {
    "namespaces", "gvisor", "microvm"
};


int
policy_rule_check(const policy_rule_t *rule, char err[POLICY_ERROR_MAX])
{
    char         shown[AUTHORITY_HOST_MAX + 4];
    const char  *why;

    why = policy_check_attributes(rule);

    if (why == NULL) {
        why = policy_check_port(rule);
    }

    if (why == NULL && policy_is_localhost(rule)) {
        why = policy_check_localhost(rule);
    }

    if (why == NULL && rule->kind != AUTHORITY_NAME) {
        why = policy_check_address(rule);
    }

    if (why == NULL) {
        return 0;
    }

    (void) snprintf(shown, sizeof(shown), "%s%s", rule->wildcard ? "*." : "",
                    rule->host);

    return policy_error(err, "host", shown, why);
}


/* Attributes that exclude each other.  Here and below: NULL, or why not. */

static const char *
policy_check_attributes(const policy_rule_t *rule)
{
    size_t  i;

    if (rule->credential && rule->plaintext) {
        return "would send its credential in cleartext: \"plaintext\" and a "
               "credential exclude each other";
    }

    if (rule->credential && rule->wildcard && !rule->credential_wildcard) {
        return "is a wildcard, and a credential needs an exact host, or "
               "\"credential_scope wildcard\" to send it to every host under "
               "this name";
    }

    if (rule->credential && rule->client_credentials) {
        return "has a credential: \"client_credentials pass\" is for hosts "
               "without one";
    }

    if (rule->cookies && rule->credential == NULL) {
        return "has \"cookies\", which has no effect without a credential: "
               "cookies are passed on";
    }

    if (rule->credential_wildcard
        && (rule->credential == NULL || !rule->wildcard))
    {
        return "has \"credential_scope wildcard\", which is for a wildcard "
               "that has a credential";
    }

    if (rule->tunnel && rule->client_credentials) {
        return "has \"tunnel\", which passes TLS on unread: no "
               "\"client_credentials\" goes with it";
    }

    if (rule->tunnel && rule->wildcard) {
        return "has \"tunnel\", which needs an exact host";
    }

    if (rule->tunnel && (rule->credential || rule->plaintext)) {
        return "has \"tunnel\", which passes TLS on unread: no credential and "
               "no \"plaintext\" goes with it";
    }

    if (rule->tunnel && rule->paths_count) {
        return "has \"tunnel\", which passes requests on unread: no \"path\" "
               "goes with it";
    }

    if (rule->plaintext && rule->port == 0) {
        return "has \"plaintext\", which needs an exact port";
    }

    for (i = 0; i < rule->methods_count; i++) {
        if (rule->credential && strcmp(rule->methods[i], "TRACE") == 0) {
            return "has a credential, which TRACE would send back";
        }
    }

    return NULL;
}


static const char *
policy_check_port(const policy_rule_t *rule)
{
    size_t  i;

    /* the box's doors: two cannot listen on one port */

    if (rule->port == PROTOCOL_PORT_DNS) {
        return "has port 53, where a box asks for names";
    }

    if (rule->port == PROTOCOL_PORT_PROXY) {
        return "has port 8899, where a box has its proxy";
    }

    for (i = 0; i < rule->ranges_count; i++) {
        if (rule->port == 0 && policy_holds_loopback(&rule->ranges[i])) {
            return "opens the broker's own loopback, which needs an exact "
                   "port";
        }
    }

    return NULL;
}


static const char *
policy_check_localhost(const policy_rule_t *rule)
{
    size_t  i;

    for (i = 0; i < rule->ranges_count; i++) {
        if (policy_holds_loopback(&rule->ranges[i])) {
            break;
        }
    }

    if (rule->port == 0 || i == rule->ranges_count) {
        return "is the broker's own host, not the box: if that is meant, "
               "write its port and \"private 127.0.0.0/8\"";
    }

    return NULL;
}


static const char *
policy_check_address(const policy_rule_t *rule)
{
    size_t       i;
    address_t    a;
    const char  *kind;

    if (!address_parse_v4(rule->host, strlen(rule->host), &a)) {
        (void) address_parse_v6(rule->host, strlen(rule->host), &a);
    }

    switch (address_judge(&a, rule->ranges, rule->ranges_count,
                          rule->port != 0, &kind))
    {
    case ADDRESS_ALLOWED:

        for (i = 0; i < rule->ranges_count; i++) {
            if (address_range_holds(&rule->ranges[i], &a)) {
                return NULL;
            }
        }

        return rule->ranges_count == 0 ? NULL
               : "is an address that no range of its \"private\" holds: "
                 "remove \"private\"";

    case ADDRESS_FORBIDDEN:
        return "is an address that no rule opens";

    case ADDRESS_LOOPBACK:
        return "is a loopback address: it needs an exact port and a "
               "\"private\" range";

    default: /* ADDRESS_SPECIAL */
        return "is an address of a special range: it needs \"private\"";
    }
}


int
policy_check(const policy_t *policy, char err[POLICY_ERROR_MAX])
{
    size_t          i, doors;
    uint16_t        port;
    unsigned char   seen[65536 / 8];

    for (i = 0; ; i++) {

        if (i == sizeof(isolations) / sizeof(char *)) {
            return policy_error(err, "isolation", policy->isolation,
                                "is not one of namespaces, gvisor, microvm");
        }

        if (strcmp(policy->isolation, isolations[i]) == 0) {
            break;
        }
    }

    for (i = 0; i < LIMIT_COUNT; i++) {
        if (policy->limits[i] < limit_table[i].min
            || policy->limits[i] > limit_table[i].max)
        {
            return policy_error(err, "limit", limit_table[i].directive,
                                "is out of its bounds");
        }
    }

    for (i = 0; i < BOUND_COUNT; i++) {
        if (policy->bounds[i] < 1
            || policy->bounds[i] > bound_table[i].max)
        {
            return policy_error(err, "bound", bound_table[i].directive,
                                "is out of its bounds");
        }
    }

    doors = STANDING_DOORS;
    memset(seen, 0, sizeof(seen));
    seen[80 / 8] |= 1 << 80 % 8;
    seen[443 / 8] |= 1 << 443 % 8;

    for (i = 0; i < policy->rules_count; i++) {

        if (policy_rule_check(policy->rules[i], err) != 0) {
            return -1;
        }

        port = policy->rules[i]->port;

        if (port && (seen[port / 8] & (1 << port % 8)) == 0) {
            seen[port / 8] |= (unsigned char) (1 << port % 8);
            doors++;
        }
    }

    if (doors > PROTOCOL_DOORS_MAX) {
        return policy_error(err, "policy", policy->name,
                            "has rules on more than 59 ports besides 80 and "
                            "443, and each port is a door of the box");
    }

    return 0;
}


/* RFC 6761 section 6.3: it and what is under it are loopback. */

static bool
policy_is_localhost(const policy_rule_t *rule)
{
    size_t  n;

    static const char  name[] = "localhost";

    n = strlen(rule->host);

    return n >= sizeof(name) - 1
           && strcmp(rule->host + n - (sizeof(name) - 1), name) == 0
           && (n == sizeof(name) - 1 || rule->host[n - sizeof(name)] == '.');
}


static bool
policy_holds_loopback(const address_range_t *range)
{
    static const address_t  v4 = { false, { 127, 0, 0, 1 } };
    static const address_t  v6 = { true, { [15] = 1 } };

    address_t  first;

    if (address_range_holds(range, &v4) || address_range_holds(range, &v6)) {
        return true;
    }

    first.v6 = range->v6;
    memcpy(first.bytes, range->bytes, 16);

    return !range->v6 && first.bytes[0] == 127;
}
