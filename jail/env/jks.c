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

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPENSSL_SUPPRESS_DEPRECATED     /* EVP, and SHA1(), cost 1 ms */
#include <openssl/sha.h>

#include "env/certificate.h"
#include "env/jks.h"


#define JKS_MAGIC      0xfeedfeedu
#define JKS_VERSION    2
#define JKS_TRUSTED    2
#define JKS_ENTRY_MAX  (64 + CERTIFICATE_DER_MAX)
#define JKS_CERTS_MAX  8
#define JKS_BASE_MAX   (2 << 20)        /* bytes of the other store */
#define JKS_BLOCK      16384


static void jks_base(jks_t *jks, int base);
static uint8_t *jks_entry(uint8_t *p, unsigned n, const uint8_t *der,
    size_t len);
static uint8_t *jks_number(uint8_t *p, uint64_t value, unsigned bytes);
static uint8_t *jks_utf(uint8_t *p, const char *text);
static uint32_t jks_u4(const uint8_t *p);


int
jks_plan(jks_t *jks, const char *pem, int base)
{
    long      n;
    uint8_t   der[CERTIFICATE_DER_MAX], entry[JKS_ENTRY_MAX];
    unsigned  own;

    *jks = (jks_t) { .base = -1, .tail_len = SHA_DIGEST_LENGTH };

    for (own = 0; own < JKS_CERTS_MAX; own++) {
        n = certificate_next(&pem, der);

        if (n <= 0) {
            break;
        }

        jks->tail_len += (size_t) (jks_entry(entry, own, der, (size_t) n)
                                   - entry);
    }

    if (own == 0 || n < 0) {
        return -1;
    }

    jks_base(jks, base);

    (void) jks_number(jks->head, JKS_MAGIC, 4);
    (void) jks_number(jks->head + 4, JKS_VERSION, 4);
    (void) jks_number(jks->head + 8, jks->count + own, 4);

    return 0;
}


static void
jks_base(jks_t *jks, int base)
{
    struct stat  st;

    if (base != -1 && fstat(base, &st) == 0 && S_ISREG(st.st_mode)
        && st.st_size >= JKS_HEAD + SHA_DIGEST_LENGTH
        && st.st_size <= JKS_BASE_MAX
        && pread(base, jks->head, JKS_HEAD, 0) == JKS_HEAD
        && jks_u4(jks->head) == JKS_MAGIC
        && jks_u4(jks->head + 4) == JKS_VERSION)
    {
        jks->base = base;
        jks->count = jks_u4(jks->head + 8);
        jks->entries = (uint64_t) st.st_size - JKS_HEAD - SHA_DIGEST_LENGTH;
    }
}


int
jks_tail(const jks_t *jks, const char *pem, uint8_t *tail)
{
    long         n;
    SHA_CTX      sha;
    uint8_t      der[CERTIFICATE_DER_MAX], block[JKS_BLOCK], *p;
    ssize_t      size;
    uint64_t     done;
    unsigned     own;
    const char  *password;

    (void) SHA1_Init(&sha);

    for (password = JKS_PASSWORD; *password; password++) {
        (void) SHA1_Update(&sha, ((char [2]) { 0, *password }), 2);
    }

    (void) SHA1_Update(&sha, "Mighty Aphrodite", 16);
    (void) SHA1_Update(&sha, jks->head, JKS_HEAD);

    for (done = 0; done < jks->entries; done += (uint64_t) size) {
        size = pread(jks->base, block, jks->entries - done < sizeof(block)
                                       ? jks->entries - done : sizeof(block),
                     JKS_HEAD + (off_t) done);

        if (size <= 0) {
            errno = size == 0 ? EIO : errno;
            return -1;
        }

        (void) SHA1_Update(&sha, block, (size_t) size);
    }

    p = tail;

    for (own = 0; own < JKS_CERTS_MAX; own++) {
        n = certificate_next(&pem, der);

        if (n <= 0) {
            break;
        }

        p = jks_entry(p, own, der, (size_t) n);
    }

    (void) SHA1_Update(&sha, tail, (size_t) (p - tail));
    (void) SHA1_Final(p, &sha);

    return 0;
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
