/*
 * PEM by its two lines and base64 (RFC 7468); DER by its tags and lengths
 * (X.690), as deep as the subject of a certificate (RFC 5280, 4.1).  The text
 * comes from the broker, and is still read as a stranger's: every length is
 * judged against what is left.
 */

#include <stdio.h>
#include <string.h>

#define OPENSSL_SUPPRESS_DEPRECATED     /* EVP, and SHA1(), cost 1 ms */
#include <openssl/sha.h>

#include "env/certificate.h"


#define CERTIFICATE_NAME_MAX  1024      /* bytes of a canonical name */

#define DER_INTEGER    0x02
#define DER_OID        0x06
#define DER_UTF8       0x0c
#define DER_PRINTABLE  0x13
#define DER_IA5        0x16
#define DER_VISIBLE    0x1a
#define DER_SEQUENCE   0x30
#define DER_SET        0x31
#define DER_VERSION    0xa0


/* A value: its tag, and the bytes that are left of it. */

typedef struct {
    const uint8_t  *p;
    size_t          len;
} der_t;


static int certificate_digit(char c);
static bool der_take(der_t *from, unsigned tag, der_t *value);
static size_t certificate_attribute(der_t *name, uint8_t *out, size_t max);
static size_t certificate_text(const der_t *text, uint8_t *out);
static bool certificate_is_space(uint8_t c);


long
certificate_next(const char **pem, uint8_t der[CERTIFICATE_DER_MAX])
{
    int          digit;
    size_t       n, bits;
    uint32_t     value;
    const char  *p, *end;

    static const char  begin[] = "-----BEGIN CERTIFICATE-----";
    static const char  finish[] = "-----END CERTIFICATE-----";

    p = strstr(*pem, "-----BEGIN ");

    if (p == NULL) {
        return 0;
    }

    end = strstr(p, finish);

    if (strncmp(p, begin, sizeof(begin) - 1) != 0 || end == NULL) {
        return -1;
    }

    n = 0;
    bits = 0;
    value = 0;

    for (p += sizeof(begin) - 1; p < end; p++) {

        if (strchr(" \t\r\n=", *p)) {
            continue;
        }

        digit = certificate_digit(*p);

        if (digit == -1) {
            return -1;
        }

        value = value << 6 | (uint32_t) digit;
        bits += 6;

        if (bits >= 8) {

            if (n == CERTIFICATE_DER_MAX) {
                return -1;
            }

            bits -= 8;
            der[n++] = (uint8_t) (value >> bits);
        }
    }

    *pem = end + sizeof(finish) - 1;

    return n ? (long) n : -1;
}


static int
certificate_digit(char c)
{
    const char  *p;

    static const char  digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    p = c ? strchr(digits, c) : NULL;

    return p ? (int) (p - digits) : -1;
}


/*
 * OpenSSL hashes the name in a form in which names that mean the same are the
 * same: each attribute's text as UTF-8, in lower case, without spaces at its
 * ends and with one for many inside; the parts one after the other, without
 * the sequence around them.
 */

bool
certificate_hash(const uint8_t *der, size_t len,
    char hash[CERTIFICATE_HASH_LEN + 1])
{
    der_t    all, certificate, tbs, skipped, name;
    size_t   n, used;
    SHA_CTX  sha;
    uint8_t  out[CERTIFICATE_NAME_MAX], digest[SHA_DIGEST_LENGTH];

    all = (der_t) { der, len };

    if (!der_take(&all, DER_SEQUENCE, &certificate)
        || !der_take(&certificate, DER_SEQUENCE, &tbs))
    {
        return false;
    }

    (void) der_take(&tbs, DER_VERSION, &skipped);

    if (!der_take(&tbs, DER_INTEGER, &skipped)          /* serial */
        || !der_take(&tbs, DER_SEQUENCE, &skipped)      /* signature */
        || !der_take(&tbs, DER_SEQUENCE, &skipped)      /* issuer */
        || !der_take(&tbs, DER_SEQUENCE, &skipped)      /* validity */
        || !der_take(&tbs, DER_SEQUENCE, &name))
    {
        return false;
    }

    for (n = 0; name.len; n += used) {
        used = certificate_attribute(&name, out + n, sizeof(out) - n);

        if (used == 0) {
            return false;
        }
    }

    (void) SHA1_Init(&sha);
    (void) SHA1_Update(&sha, out, n);
    (void) SHA1_Final(digest, &sha);

    (void) sprintf(hash, "%02x%02x%02x%02x", digest[3], digest[2], digest[1],
                   digest[0]);

    return true;
}


/* SET { SEQUENCE { OID, text } } in its canonical form; 0: another form. */

static size_t
certificate_attribute(der_t *name, uint8_t *out, size_t max)
{
    size_t   n;
    der_t    set, attribute, oid, text;
    uint8_t  canonical[CERTIFICATE_NAME_MAX];

    if (!der_take(name, DER_SET, &set)
        || !der_take(&set, DER_SEQUENCE, &attribute) || set.len != 0
        || !der_take(&attribute, DER_OID, &oid))
    {
        return 0;
    }

    if ((!der_take(&attribute, DER_UTF8, &text)
         && !der_take(&attribute, DER_PRINTABLE, &text)
         && !der_take(&attribute, DER_IA5, &text)
         && !der_take(&attribute, DER_VISIBLE, &text))
        || attribute.len != 0)
    {
        return 0;
    }

    /* so that every length is one byte: names are at most 64 characters */

    if (text.len > 100 || oid.len > 20) {
        return 0;
    }

    n = certificate_text(&text, canonical);

    if (8 + oid.len + n > max) {
        return 0;
    }

    *out++ = DER_SET;
    *out++ = (uint8_t) (6 + oid.len + n);
    *out++ = DER_SEQUENCE;
    *out++ = (uint8_t) (4 + oid.len + n);
    *out++ = DER_OID;
    *out++ = (uint8_t) oid.len;
    (void) memcpy(out, oid.p, oid.len);
    out += oid.len;
    *out++ = DER_UTF8;
    *out++ = (uint8_t) n;
    (void) memcpy(out, canonical, n);

    return 8 + oid.len + n;
}


static size_t
certificate_text(const der_t *text, uint8_t *out)
{
    size_t   i, n;
    uint8_t  c;

    n = 0;

    for (i = 0; i < text->len; i++) {
        c = text->p[i];

        if (certificate_is_space(c)) {

            if (n && out[n - 1] != ' ') {
                out[n++] = ' ';
            }

            continue;
        }

        out[n++] = c >= 'A' && c <= 'Z' ? c | 0x20 : c;
    }

    return n && out[n - 1] == ' ' ? n - 1 : n;
}


static bool
certificate_is_space(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}


/* False, and nothing taken, when the next value has another tag. */

static bool
der_take(der_t *from, unsigned tag, der_t *value)
{
    size_t          len, bytes;
    const uint8_t  *p, *end;

    p = from->p;
    end = p + from->len;

    if (from->len < 2 || *p++ != tag) {
        return false;
    }

    len = *p++;

    if (len & 0x80) {
        bytes = len & 0x7f;

        if (bytes == 0 || bytes > 3 || (size_t) (end - p) < bytes) {
            return false;
        }

        for (len = 0; bytes; bytes--) {
            len = len << 8 | *p++;
        }
    }

    if ((size_t) (end - p) < len) {
        return false;
    }

    *value = (der_t) { p, len };
    from->p = p + len;
    from->len = (size_t) (end - from->p);

    return true;
}
