/*
 * What every file of the policy builds on.  A message quotes a foreign word
 * without the bytes that would forge a line of a log, and without what looks
 * like a credential: nginx -t may be run for others to see, and error.log has
 * what a reload said.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/sha.h>

#include "jail/shared/secret.h"
#include "policy/policy_base.h"


#define QUOTED_MAX  96          /* bytes of a foreign word in a message */


int
policy_error(char err[POLICY_ERROR_MAX], const char *what, const char *value,
    const char *why)
{
    char    shown[QUOTED_MAX + 4];
    size_t  i;

    for (i = 0; i < QUOTED_MAX && value[i]; i++) {
        shown[i] = (value[i] > 0x1f && value[i] < 0x7f) ? value[i] : '?';
    }

    (void) strcpy(shown + i, value[i] ? "..." : "");

    /* a path is none, and has odd names of directories */

    if (shown[0] != '/') {
        secret_hide(shown);
    }

    (void) snprintf(err, POLICY_ERROR_MAX, "%s \"%s\" %s", what, shown, why);

    return -1;
}


int
policy_no_memory(char err[POLICY_ERROR_MAX])
{
    (void) strcpy(err, "no memory");

    return -1;
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


int
policy_list_add(void *list, size_t *count, const void *item, size_t size,
    bool is_string, const char *what, const char *text,
    char err[POLICY_ERROR_MAX])
{
    char    *at, *grown;
    size_t   i;

    for (i = 0; i < *count; i++) {

        at = *(char **) list + i * size;

        if (is_string ? strcmp(*(char **) at, text) == 0
                      : memcmp(at, item, size) == 0)
        {
            return policy_error(err, what, text, "is repeated");
        }
    }

    grown = policy_grow(*(void **) list, *count, size);

    if (grown == NULL) {
        return policy_no_memory(err);
    }

    *(void **) list = grown;
    at = grown + i * size;
    memcpy(at, item, size);

    if (is_string) {

        *(char **) at = strdup(text);

        if (*(char **) at == NULL) {
            return policy_no_memory(err);
        }
    }

    (*count)++;

    return 0;
}


void
policy_hash_text(const void *p, size_t n, char dst[POLICY_HASH_LEN + 1])
{
    unsigned char  digest[SHA256_DIGEST_LENGTH];

    (void) SHA256(p, n, digest);
    policy_hash_digest(digest, dst);
}


void
policy_hash_digest(const unsigned char digest[32],
    char dst[POLICY_HASH_LEN + 1])
{
    size_t  i;

    (void) strcpy(dst, "sha256:");

    for (i = 0; i < SHA256_DIGEST_LENGTH; i++) {
        (void) sprintf(dst + 7 + 2 * i, "%02x", digest[i]);
    }
}
