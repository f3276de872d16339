/*
 * The format, all of it big-endian:
 *
 *   u4 0xfeedfeed, u4 version 2, u4 number of entries
 *   for each: u4 2 (a trusted certificate), utf alias, u8 time in ms,
 *             utf "X.509", u4 length, the certificate in DER
 *   SHA-1 of the password in UTF-16, "Mighty Aphrodite", and all of the above
 *
 * where utf is a u2 length and the bytes.  Entries of another store are copied
 * unchanged: an entry does not depend on the others.
 */

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define OPENSSL_SUPPRESS_DEPRECATED     /* EVP, and SHA1(), cost 1 ms */
#include <openssl/sha.h>

#include "env/certificate.h"
#include "env/jks.h"


#define JKS_MAGIC      0xfeedfeedu
#define JKS_VERSION    2
#define JKS_TRUSTED    2
#define JKS_HEAD       12
#define JKS_ENTRY_MAX  (64 + CERTIFICATE_DER_MAX)
#define JKS_CERTS_MAX  8


static bool jks_is_store(const uint8_t *base, size_t len);
static uint8_t *jks_entry(uint8_t *p, unsigned n, const uint8_t *der,
    size_t len);
static uint8_t *jks_number(uint8_t *p, uint64_t value, unsigned bytes);
static uint8_t *jks_utf(uint8_t *p, const char *text);
static uint32_t jks_u4(const uint8_t *p);


size_t
jks_size(const char *pem, const uint8_t *base, size_t base_len)
{
    long      n;
    size_t    len;
    uint8_t   der[CERTIFICATE_DER_MAX], entry[JKS_ENTRY_MAX];
    unsigned  own;

    len = JKS_HEAD + SHA_DIGEST_LENGTH;

    if (jks_is_store(base, base_len)) {
        len = base_len;
    }

    for (own = 0; (n = certificate_next(&pem, der)) > 0; own++) {

        if (own == JKS_CERTS_MAX) {
            break;
        }

        len += (size_t) (jks_entry(entry, own, der, (size_t) n) - entry);
    }

    return own == 0 || n < 0 ? 0 : len;
}


void
jks_build(uint8_t *store, const char *pem, const uint8_t *base,
    size_t base_len)
{
    long         n;
    SHA_CTX      sha;
    uint8_t     *p, der[CERTIFICATE_DER_MAX];
    unsigned     count, own;
    const char  *password;

    count = 0;
    p = store + JKS_HEAD;

    if (jks_is_store(base, base_len)) {
        count = jks_u4(base + 8);
        (void) memcpy(store, base, base_len);
        p = store + base_len - SHA_DIGEST_LENGTH;
    }

    for (own = 0; (n = certificate_next(&pem, der)) > 0; own++) {

        if (own == JKS_CERTS_MAX) {
            break;
        }

        p = jks_entry(p, own, der, (size_t) n);
    }

    (void) jks_number(store, JKS_MAGIC, 4);
    (void) jks_number(store + 4, JKS_VERSION, 4);
    (void) jks_number(store + 8, count + own, 4);

    (void) SHA1_Init(&sha);

    for (password = JKS_PASSWORD; *password; password++) {
        (void) SHA1_Update(&sha, ((char [2]) { 0, *password }), 2);
    }

    (void) SHA1_Update(&sha, "Mighty Aphrodite", 16);
    (void) SHA1_Update(&sha, store, (size_t) (p - store));
    (void) SHA1_Final(p, &sha);
}


static bool
jks_is_store(const uint8_t *base, size_t len)
{
    return base && len >= JKS_HEAD + SHA_DIGEST_LENGTH
           && jks_u4(base) == JKS_MAGIC && jks_u4(base + 4) == JKS_VERSION;
}


static uint8_t *
jks_entry(uint8_t *p, unsigned n, const uint8_t *der, size_t len)
{
    char  alias[32];

    (void) snprintf(alias, sizeof(alias), "agent-broker-%u", n);

    p = jks_number(p, JKS_TRUSTED, 4);
    p = jks_utf(p, alias);
    p = jks_number(p, 0, 8);
    p = jks_utf(p, "X.509");
    p = jks_number(p, len, 4);
    (void) memcpy(p, der, len);

    return p + len;
}


static uint8_t *
jks_number(uint8_t *p, uint64_t value, unsigned bytes)
{
    while (bytes > 0) {
        *p++ = (uint8_t) (value >> (8 * --bytes));
    }

    return p;
}


static uint8_t *
jks_utf(uint8_t *p, const char *text)
{
    size_t  n;

    n = strlen(text);
    p = jks_number(p, n, 2);
    (void) memcpy(p, text, n);

    return p + n;
}


static uint32_t
jks_u4(const uint8_t *p)
{
    return (uint32_t) p[0] << 24 | (uint32_t) p[1] << 16
           | (uint32_t) p[2] << 8 | p[3];
}
