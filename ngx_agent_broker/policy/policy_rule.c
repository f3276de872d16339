/*
 * The words of a rule.  The directives and the loader of the text form add
 * them by the same functions, so nothing that one refuses comes in by the
 * other.
 */

#include <stdlib.h>
#include <string.h>

#include "policy/policy.h"
#include "policy/policy_words.h"


int
policy_rule_add_method(policy_rule_t *rule, const char *method,
    char err[POLICY_ERROR_MAX])
{
    if (strchr(method, ',')) {
        return policy_error(err, "method", method,
                            "is not a method: separate them by spaces, as in "
                            "\"methods GET POST\"");
    }

    if (!policy_is_method(method)) {
        return policy_error(err, "method", method,
                            "is not a method: write it in capitals");
    }

    if (strcmp(method, "CONNECT") == 0) {
        return policy_error(err, "method", method,
                            "is never passed on: the requests inside it are "
                            "judged");
    }

    return policy_list_add(&rule->methods, &rule->methods_count, &method,
                           sizeof(char *), true, "method", method, err);
}


int
policy_rule_add_range(policy_rule_t *rule, const char *text,
    char err[POLICY_ERROR_MAX])
{
    const char       *why;
    address_range_t   range;

    if (address_range_parse(text, strlen(text), &range, &why) != 0) {
        return policy_error(err, "private", text, why);
    }

    why = policy_range_refusal(&range);

    if (why) {
        return policy_error(err, "private", text, why);
    }

    return policy_list_add(&rule->ranges, &rule->ranges_count, &range,
                           sizeof(address_range_t), false, "private", text,
                           err);
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


int
policy_rule_imply_methods(policy_rule_t *rule)
{
    char    err[POLICY_ERROR_MAX];
    size_t  i, k;

    static const char *const  implied[] = { "GET", "HEAD" };

    for (i = 0; i < 2; i++) {

        for (k = 0; k < rule->methods_count; k++) {
            if (strcmp(rule->methods[k], implied[i]) == 0) {
                break;
            }
        }

        if (k == rule->methods_count
            && policy_rule_allows_method(rule, implied[i], strlen(implied[i]))
            && policy_rule_add_method(rule, implied[i], err) != 0)
        {
            return -1;
        }
    }

    return 0;
}


int
policy_rule_trust(policy_rule_t *rule, const char *trusted_pem)
{
    char        *text;
    size_t       n, len;
    const char  *crl;

    if (rule->trusted_pem) {
        trusted_pem = rule->trusted_pem;

        if (rule->crl_pem == NULL) {
            return 0;
        }
    }

    if (trusted_pem == NULL && rule->crl_pem == NULL) {
        return 0;
    }

    trusted_pem = trusted_pem ? trusted_pem : "";
    crl = rule->crl_pem ? rule->crl_pem : "";

    n = strlen(trusted_pem);
    len = strlen(crl);

    text = malloc(n + len + 2);

    if (text == NULL) {
        return -1;
    }

    memcpy(text, trusted_pem, n);

    if (n && len) {
        text[n++] = '\n';
    }

    memcpy(text + n, crl, len + 1);

    free(rule->trusted_pem);
    rule->trusted_pem = text;

    free(rule->crl_pem);
    rule->crl_pem = NULL;

    return 0;
}
