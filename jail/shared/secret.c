/*
 * What looks like a credential.  The lengths are those of the kinds of tokens
 * as their issuers document them, or less; a name of an entry that begins in
 * the same way (npm_publish, sk-production) is shorter.
 */

#include <string.h>

#include "secret.h"


#define UNREADABLE_MIN  8
#define LETTERS_MAX     20
#define DIGITS_MAX      4
#define UNIT_MAX        2


#define KIND(begin, least)  { begin, sizeof(begin) - 1, least }


typedef struct {
    const char  *begin;
    size_t       len;
    size_t       least;         /* bytes after it */
} secret_kind_t;


static const char *secret_find(const char *text, size_t n, size_t *len);
static size_t secret_word(const char *p, size_t n);
static bool secret_is_value(const char *p, size_t n);
static bool secret_is_known(const char *p, size_t n);
static size_t secret_unreadable(const char *p, size_t n);
static bool secret_is_readable(const char *p, size_t n);
static bool secret_is_words(const char *p, size_t n);


static const secret_kind_t  secret_kinds[] = {
    KIND("sk-", 20),                      /* OpenAI, Anthropic and others */
    KIND("sk_live_", 16),                 /* Stripe */
    KIND("sk_test_", 16),
    KIND("rk_live_", 16),
    KIND("rk_test_", 16),
    KIND("whsec_", 24),
    KIND("ghp_", 30),                     /* GitHub */
    KIND("gho_", 30),
    KIND("ghu_", 30),
    KIND("ghs_", 30),
    KIND("ghr_", 30),
    KIND("github_pat_", 22),
    KIND("glpat-", 20),                   /* GitLab */
    KIND("gldt-", 20),
    KIND("glrt-", 20),
    KIND("glptt-", 20),
    KIND("AKIA", 16),                     /* Amazon */
    KIND("ASIA", 16),
    KIND("AIza", 30),                     /* Google */
    KIND("ya29.", 20),
    KIND("GOCSPX-", 20),
    KIND("xoxb-", 20),                    /* Slack */
    KIND("xoxp-", 20),
    KIND("xoxa-", 20),
    KIND("xoxr-", 20),
    KIND("xoxs-", 20),
    KIND("xapp-", 20),
    KIND("eyJ", 20),                      /* a JSON web token */
    KIND("npm_", 30),
    KIND("pypi-", 30),
    KIND("rubygems_", 30),
    KIND("dckr_pat_", 20),                /* Docker */
    KIND("hf_", 30),                      /* Hugging Face */
    KIND("gsk_", 30),                     /* Groq */
    KIND("xai-", 30),
    KIND("r8_", 30),                      /* Replicate */
    KIND("pplx-", 30),                    /* Perplexity */
    KIND("nvapi-", 30),
    KIND("SG.", 30),                      /* SendGrid */
    KIND("hvs.", 20),                     /* HashiCorp Vault */
    KIND("hvb.", 20),
    KIND("dop_v1_", 30),                  /* DigitalOcean */
    KIND("shpat_", 20),                   /* Shopify */
    KIND("lin_api_", 20),                 /* Linear */
    KIND("figd_", 20),
    KIND("sntrys_", 20),                  /* Sentry */
    KIND("AGE-SECRET-KEY-", 20),
};


void
secret_hide(char *text)
{
    char        *p;
    size_t       len;
    const char  *found;

    static const char  instead[] = "(not shown)";

    _Static_assert(sizeof(instead) - 1 <= SECRET_MIN, "it has room");

    p = text;

    while ((found = secret_find(p, strlen(p), &len)) != NULL) {
        p = text + (found - text);
        memcpy(p, instead, sizeof(instead) - 1);
        memmove(p + sizeof(instead) - 1, p + len, strlen(p + len) + 1);
        p += sizeof(instead) - 1;
    }
}


bool
secret_is_in(const char *text, size_t n)
{
    size_t  len;

    return secret_find(text, n, &len) != NULL;
}


/* The first word that looks like a credential, or NULL. */

static const char *
secret_find(const char *text, size_t n, size_t *len)
{
    size_t       len_of;
    const char  *p, *last;

    last = text + n;

    for (p = text; p < last; p += len_of ? len_of : 1) {

        len_of = secret_word(p, (size_t) (last - p));

        if (secret_is_value(p, len_of)) {
            *len = len_of;
            return p;
        }
    }

    return NULL;
}


static size_t
secret_word(const char *p, size_t n)
{
    size_t  i;

    for (i = 0; i < n; i++) {

        if (!((p[i] >= 'a' && p[i] <= 'z') || (p[i] >= 'A' && p[i] <= 'Z')
              || (p[i] >= '0' && p[i] <= '9') || p[i] == '_' || p[i] == '-'
              || p[i] == '.' || p[i] == '+'))
        {
            break;
        }
    }

    return i;
}


static bool
secret_is_value(const char *p, size_t n)
{
    if (n < SECRET_MIN) {
        return false;
    }

    return secret_is_known(p, n) || secret_unreadable(p, n) >= UNREADABLE_MIN;
}


bool
secret_is_token(const char *p, size_t n)
{
    return secret_is_known(p, n) && secret_unreadable(p, n) >= UNREADABLE_MIN;
}


/* Does it begin as a known kind of token, and is it as long as these are? */

static bool
secret_is_known(const char *p, size_t n)
{
    size_t                i;
    const secret_kind_t  *kind;

    if (n < SECRET_MIN) {
        return false;
    }

    for (i = 0; i < sizeof(secret_kinds) / sizeof(secret_kinds[0]); i++) {

        kind = &secret_kinds[i];

        if (p[0] == kind->begin[0] && p[1] == kind->begin[1]
            && n >= kind->len + kind->least
            && memcmp(p, kind->begin, kind->len) == 0)
        {
            return true;
        }
    }

    return false;
}


/* How many of its bytes are in parts that are not readable. */

static size_t
secret_unreadable(const char *p, size_t n)
{
    size_t  i, start, unreadable;

    unreadable = 0;

    for (start = 0, i = 0; i <= n; i++) {

        if (i < n && p[i] != '_' && p[i] != '-' && p[i] != '.' && p[i] != '+')
        {
            continue;
        }

        if (!secret_is_readable(p + start, i - start)) {
            unreadable += i - start;
        }

        start = i + 1;
    }

    return unreadable;
}


/* One part of a word. */

static bool
secret_is_readable(const char *p, size_t n)
{
    size_t  i, digits;

    for (i = 0; i < n && p[i] >= '0' && p[i] <= '9'; i++) { /* void */ }

    if (i > 0 && n - i <= UNIT_MAX) {
        return true;
    }

    for (digits = 0;
         n > 0 && p[n - 1] >= '0' && p[n - 1] <= '9';
         n--)
    {
        digits++;
    }

    return digits <= DIGITS_MAX && secret_is_words(p, n);
}


/* Letters of one case, or words that begin with a capital. */

static bool
secret_is_words(const char *p, size_t n)
{
    size_t  i, upper, lower, run;

    upper = 0;
    lower = 0;
    run = 3;                    /* of the word before: none was too short */

    for (i = 0; i < n; i++) {

        if (p[i] >= 'A' && p[i] <= 'Z') {
            upper++;
            continue;
        }

        if (p[i] < 'a' || p[i] > 'z') {
            return false;
        }

        lower++;
    }

    if (upper == 0 || lower == 0) {
        return n <= LETTERS_MAX;
    }

    for (i = 0; i < n; i++) {

        if (p[i] >= 'A' && p[i] <= 'Z') {

            if (i > 0 && run < 3) {
                return false;
            }

            run = 0;
        }

        run++;

        if (run > LETTERS_MAX) {
            return false;
        }
    }

    return run >= 3;
}
