/*
 * What the launcher reads of certificates and writes for Java is what OpenSSL
 * and the format say.
 */

#include "unit.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <openssl/x509.h>

#include "env/certificate.h"
#include "env/jks.h"
#include "env/trust.h"


typedef struct {
    const char  *field;
    int          type;
    const char  *value;
} part_t;


static EVP_PKEY  *key;


static X509 *
certificate(const part_t *parts, size_t n)
{
    size_t      i;
    X509       *x;
    X509_NAME  *name;

    x = X509_new();
    name = X509_get_subject_name(x);

    for (i = 0; i < n && parts[i].field; i++) {
        assert_int_equal(X509_NAME_add_entry_by_txt(name, parts[i].field,
                             parts[i].type,
                             (const unsigned char *) parts[i].value, -1, -1,
                             0), 1);
    }

    assert_true(X509_set_version(x, 2));
    assert_true(ASN1_INTEGER_set(X509_get_serialNumber(x), 7));
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(x), 0));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(x), 3600));
    assert_true(X509_set_pubkey(x, key));
    assert_true(X509_sign(x, key, EVP_sha256()) > 0);

    return x;
}


static char *
text_of(X509 *x)
{
    BIO   *bio;
    char  *data, *text;
    long   n;

    bio = BIO_new(BIO_s_mem());
    assert_true(PEM_write_bio_X509(bio, x));
    n = BIO_get_mem_data(bio, &data);
    text = strndup(data, (size_t) n);
    BIO_free(bio);

    return text;
}


static const part_t  names[][4] = {
    { { "CN", MBSTRING_ASC, "agent-egress-ca" } },
    { { "C", MBSTRING_ASC, "DE" }, { "O", MBSTRING_ASC, "An  Example Org " },
      { "CN", MBSTRING_UTF8, "  Root\tCA 1" } },
    { { "O", MBSTRING_UTF8, "\xc3\x84pfel GmbH" },
      { "CN", MBSTRING_UTF8, "\xc3\x89TOILE A" } },
};


static void
test_pem(void **state)
{
    X509     *x;
    char     *text;
    long      n;
    size_t    i;
    uint8_t   der[CERTIFICATE_DER_MAX], *theirs;
    const char  *pem;

    (void) state;

    for (i = 0; i < COUNT(names); i++) {
        x = certificate(names[i], COUNT(names[i]));
        text = text_of(x);
        pem = text;

        theirs = NULL;
        n = i2d_X509(x, &theirs);
        expect(certificate_next(&pem, der) == n, "row %zu: length", i);
        expect(memcmp(der, theirs, (size_t) n) == 0, "row %zu: bytes", i);
        assert_int_equal(certificate_next(&pem, der), 0);

        OPENSSL_free(theirs);
        free(text);
        X509_free(x);
    }
}


static void
test_no_certificates(void **state)
{
    size_t    i;
    uint8_t   der[CERTIFICATE_DER_MAX];
    fault_t   fault;
    trust_t   trust;
    const char  *pem;

    static const char *const  texts[] = {
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        "-----BEGIN CERTIFICATE-----\nAAAA\n",
        "-----BEGIN CERTIFICATE-----\nA*AA\n-----END CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n",
    };

    (void) state;

    for (i = 0; i < COUNT(texts); i++) {
        pem = texts[i];
        expect(certificate_next(&pem, der) == -1, "row %zu", i);

        trust = (trust_t) { .pem = texts[i] };
        fault = (fault_t) { 0 };
        assert_int_equal(trust_prepare(&trust, NULL, 0, &fault), -1);
        assert_int_equal(fault.stage, STAGE_BROKER);
    }

    pem = "no PEM at all";
    assert_int_equal(certificate_next(&pem, der), 0);

    trust = (trust_t) { .pem = "" };
    fault = (fault_t) { 0 };
    assert_int_equal(trust_prepare(&trust, NULL, 0, &fault), -1);

    trust = (trust_t) { .pem = NULL };
    fault = (fault_t) { 0 };
    assert_int_equal(trust_prepare(&trust, NULL, 0, &fault), 0);
    assert_null(trust.java_tail);
}


static unsigned
u4(const uint8_t *p)
{
    return (unsigned) p[0] << 24 | (unsigned) p[1] << 16
           | (unsigned) p[2] << 8 | p[3];
}


/* The whole store, as the child puts it together; malloc'd. */

static uint8_t *
built(const char *text, const uint8_t *base, size_t base_len, size_t *len)
{
    int       fd;
    jks_t     jks;
    uint8_t  *store, *tail;

    fd = -1;

    if (base) {
        fd = memfd_create("store", MFD_CLOEXEC);
        assert_int_equal(write(fd, base, base_len), base_len);
    }

    assert_int_equal(jks_plan(&jks, text, fd), 0);

    /* of exactly that size, so that a sanitizer sees a byte too much */

    tail = malloc(jks.tail_len);
    assert_non_null(tail);
    assert_int_equal(jks_tail(&jks, text, tail), 0);

    *len = JKS_HEAD + jks.entries + jks.tail_len;
    store = malloc(*len);
    assert_non_null(store);

    (void) memcpy(store, jks.head, JKS_HEAD);
    assert_int_equal(pread(jks.base, store + JKS_HEAD, jks.entries, JKS_HEAD),
                     jks.base == -1 ? -1 : (ssize_t) jks.entries);
    (void) memcpy(store + JKS_HEAD + jks.entries, tail, jks.tail_len);
    free(tail);

    if (fd != -1) {
        (void) close(fd);
    }

    return store;
}


static void
test_cut(const char *text, const uint8_t *base, size_t len)
{
    int      fd;
    jks_t    jks;
    uint8_t  tail[4096];

    fd = memfd_create("store", MFD_CLOEXEC);
    assert_int_equal(write(fd, base, len), len);
    assert_int_equal(jks_plan(&jks, text, fd), 0);
    assert_int_equal(jks.base, fd);
    assert_true(jks.tail_len <= sizeof(tail));
    assert_int_equal(ftruncate(fd, (off_t) len / 2), 0);
    assert_int_equal(jks_tail(&jks, text, tail), -1);
    assert_int_equal(errno, EIO);
    (void) close(fd);
}


static void
test_store(void **state)
{
    X509     *x;
    char     *text;
    size_t    len, both_len, password;
    uint8_t  *store, *both, der[CERTIFICATE_DER_MAX], *p;
    uint8_t   digest[SHA_DIGEST_LENGTH], *all;
    unsigned  n;

    static const uint8_t  prefix[] = "\0c\0h\0a\0n\0g\0e\0i\0tMighty Aphrodite";

    (void) state;

    x = certificate(names[0], 1);
    text = text_of(x);
    p = der;
    n = (unsigned) i2d_X509(x, &p);

    store = built(text, NULL, 0, &len);
    assert_int_equal(u4(store), 0xfeedfeed);
    assert_int_equal(u4(store + 4), 2);
    assert_int_equal(u4(store + 8), 1);
    assert_int_equal(u4(store + 12), 2);
    assert_memory_equal(store + len - SHA_DIGEST_LENGTH - n, der, n);

    password = sizeof(prefix) - 1;
    all = malloc(password + len);
    (void) memcpy(all, prefix, password);
    (void) memcpy(all + password, store, len - SHA_DIGEST_LENGTH);
    (void) SHA1(all, password + len - SHA_DIGEST_LENGTH, digest);
    assert_memory_equal(store + len - SHA_DIGEST_LENGTH, digest,
                        SHA_DIGEST_LENGTH);

    /* behind another's entries, and alone when the other is no store */

    both = built(text, store, len, &both_len);
    assert_int_equal(u4(both + 8), 2);
    assert_memory_equal(both + 12, store + 12, len - 12 - SHA_DIGEST_LENGTH);
    free(both);

    /* one that is cut short while it is read is told */

    test_cut(text, store, len);

    store[0] = 0;
    both = built(text, store, len, &both_len);
    assert_int_equal(u4(both + 8), 1);
    assert_int_equal(both_len, len);

    free(both);
    free(all);
    free(store);
    free(text);
    X509_free(x);
}


int
main(void)
{
    int                      rc;
    const struct CMUnitTest  tests[] = {
        PROMISE("a certificate is decoded as by OpenSSL", test_pem),
        PROMISE("what is not a certificate is refused", test_no_certificates),
        PROMISE("a store for Java holds the certificates", test_store),
    };

    key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    rc = unit_run(tests);
    EVP_PKEY_free(key);

    return rc;
}
