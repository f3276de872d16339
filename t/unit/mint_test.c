/*
 * The boxes' authority: what it signs is believed for one name alone, as a
 * server's, and nothing below it signs.
 */

#include <unistd.h>

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "unit.h"

#include "door/mint.h"


#define DAY  (24 * 60 * 60)


static X509      *ca;
static EVP_PKEY  *ca_key;


static EVP_PKEY *
take(void *data)
{
    (void) EVP_PKEY_up_ref(data);

    return data;
}


static authority_t
named(const char *text)
{
    char         bracketed[64];
    authority_t  a;

    (void) snprintf(bracketed, sizeof(bracketed), "[%.60s]", text);

    expect(authority_parse_host((const unsigned char *) text, strlen(text),
                                &a) == AUTHORITY_OK
           || authority_parse((const unsigned char *) bracketed,
                              strlen(bracketed), 443, &a) == AUTHORITY_OK,
           "\"%s\" is no name", text);

    return a;
}


static X509 *
leaf(mint_t *mint, const char *text, bool *fresh)
{
    X509         *x;
    authority_t   name;

    name = named(text);
    x = mint_leaf(mint, &name, fresh);
    expect(x != NULL, "no leaf for \"%s\"", text);

    return x;
}


/* As a client in a box would: the chain, the purpose, and the name. */

static int
verified(X509 *x, X509 *between, const char *host, int purpose)
{
    int                    ok;
    X509_STORE            *store;
    X509_STORE_CTX        *ctx;
    X509_VERIFY_PARAM     *param;
    STACK_OF(X509)        *chain;

    store = X509_STORE_new();
    ctx = X509_STORE_CTX_new();
    chain = sk_X509_new_null();

    assert_int_equal(X509_STORE_add_cert(store, ca), 1);

    if (between) {
        (void) sk_X509_push(chain, between);
    }

    assert_int_equal(X509_STORE_CTX_init(ctx, store, x, chain), 1);

    param = X509_STORE_CTX_get0_param(ctx);

    X509_VERIFY_PARAM_set_purpose(param, purpose);
    X509_VERIFY_PARAM_set_flags(param, X509_V_FLAG_X509_STRICT);

    if (host && strspn(host, "0123456789abcdef.:") == strlen(host)) {
        assert_int_equal(X509_VERIFY_PARAM_set1_ip_asc(param, host), 1);

    } else if (host) {
        assert_int_equal(X509_VERIFY_PARAM_set1_host(param, host, 0), 1);
    }

    ok = X509_verify_cert(ctx) == 1 ? X509_V_OK
                                    : X509_STORE_CTX_get_error(ctx);

    sk_X509_free(chain);
    X509_STORE_CTX_free(ctx);
    X509_STORE_free(store);

    return ok;
}


static void
test_names(void **state)
{
    int      rc;
    bool     fresh;
    mint_t  *mint;
    size_t   i;

    static const struct {
        const char  *name;
        const char  *asked;
        int          error;
    } rows[] = {
        { "api.internal", "api.internal", X509_V_OK },
        { "api.internal", "API.Internal", X509_V_OK },
        { "api.internal", "x.api.internal", X509_V_ERR_HOSTNAME_MISMATCH },
        { "api.internal", "internal", X509_V_ERR_HOSTNAME_MISMATCH },
        { "api.internal", "api.internal.evil.example",
          X509_V_ERR_HOSTNAME_MISMATCH },
        { "api.internal", "192.0.2.1", X509_V_ERR_IP_ADDRESS_MISMATCH },
        { "a.packages.example", "a.packages.example", X509_V_OK },
        { "a.packages.example", "b.packages.example",
          X509_V_ERR_HOSTNAME_MISMATCH },
        { "192.0.2.1", "192.0.2.1", X509_V_OK },
        { "192.0.2.1", "192.0.2.2", X509_V_ERR_IP_ADDRESS_MISMATCH },
        { "192.0.2.1", "api.internal", X509_V_ERR_HOSTNAME_MISMATCH },
        { "2001:db8::1", "2001:db8::1", X509_V_OK },
        { "2001:db8::1", "2001:db8:0:0:0:0:0:1", X509_V_OK },
        { "2001:db8::1", "2001:db8::2", X509_V_ERR_IP_ADDRESS_MISMATCH },
        { "2001:db8::1", "32.1.13.184", X509_V_ERR_IP_ADDRESS_MISMATCH },

        /* a label of 63 bytes, and a name too long for a common name */
        { "a23456789012345678901234567890123456789012345678901234567890123"
          ".example", "a2345678901234567890123456789012345678901234567890"
          "1234567890123.example", X509_V_OK },
        { "x_y.example", "x_y.example", X509_V_OK },
    };

    (void) state;

    mint = mint_new(ca, take, ca_key, 100);

    for (i = 0; i < COUNT(rows); i++) {
        rc = verified(leaf(mint, rows[i].name, &fresh), NULL, rows[i].asked,
                      X509_PURPOSE_SSL_SERVER);
        expect(rc == rows[i].error, "a leaf for \"%s\" and \"%s\": %s",
               rows[i].name, rows[i].asked,
               X509_verify_cert_error_string(rc));
    }

    mint_free(mint);
}


static void
test_leaf(void **state)
{
    int             days, seconds;
    bool            fresh;
    X509           *x, *other;
    mint_t         *mint;
    GENERAL_NAMES  *names;

    (void) state;

    mint = mint_new(ca, take, ca_key, 100);
    x = leaf(mint, "api.internal", &fresh);

    assert_true(fresh);

    /* for a server and nothing else */

    assert_int_equal(verified(x, NULL, "api.internal",
                              X509_PURPOSE_SSL_CLIENT),
                     X509_V_ERR_INVALID_PURPOSE);
    assert_int_equal(X509_get_extended_key_usage(x), XKU_SSL_SERVER);
    assert_int_equal(X509_get_key_usage(x), KU_DIGITAL_SIGNATURE);
    assert_int_equal(X509_check_ca(x), 0);

    /* begun a day ago, over in a week: a box's clock may be behind */

    assert_int_equal(ASN1_TIME_diff(&days, &seconds,
                                    X509_get0_notBefore(x), NULL), 1);
    assert_int_equal(days, 1);
    assert_int_equal(ASN1_TIME_diff(&days, &seconds, NULL,
                                    X509_get0_notAfter(x)), 1);
    assert_in_range(days, 6, 7);

    /* one name, and that not only the common name */

    names = X509_get_ext_d2i(x, NID_subject_alt_name, NULL, NULL);
    assert_non_null(names);
    assert_int_equal(sk_GENERAL_NAME_num(names), 1);
    GENERAL_NAMES_free(names);

    /* serial numbers are never the same, and positive */

    (void) X509_up_ref(x);
    other = leaf(mint, "other.internal", &fresh);
    assert_int_not_equal(ASN1_INTEGER_cmp(X509_get0_serialNumber(x),
                                          X509_get0_serialNumber(other)), 0);
    assert_int_equal(ASN1_STRING_type(X509_get0_serialNumber(x)),
                     V_ASN1_INTEGER);
    assert_in_range(ASN1_STRING_length(X509_get0_serialNumber(x)), 8, 20);
    X509_free(x);

    /* the leaves' key is the mint's own, and not the authority's */

    assert_int_equal(X509_check_private_key(other, mint_key(mint)), 1);
    assert_int_not_equal(EVP_PKEY_eq(mint_key(mint), ca_key), 1);

    mint_free(mint);
}


static void
test_authority(void **state)
{
    int        days, seconds;
    X509      *cert;
    EVP_PKEY  *key;

    (void) state;

    assert_int_equal(X509_check_ca(ca), 1);
    assert_int_equal(X509_get_pathlen(ca), 0);
    assert_int_equal(X509_get_key_usage(ca),
                     KU_KEY_CERT_SIGN | KU_CRL_SIGN);
    assert_int_equal(EVP_PKEY_get_bits(ca_key), 256);

    assert_int_equal(ASN1_TIME_diff(&days, &seconds,
                                    X509_get0_notBefore(ca), NULL), 1);
    assert_int_equal(days, 1);
    assert_int_equal(ASN1_TIME_diff(&days, &seconds, NULL,
                                    X509_get0_notAfter(ca)), 1);
    assert_in_range(days, 3650, 3652);

    /* another is another, by key and by name */

    assert_int_equal(mint_authority(&cert, &key), 0);
    assert_int_not_equal(EVP_PKEY_eq(key, ca_key), 1);
    assert_int_not_equal(X509_NAME_cmp(X509_get_subject_name(cert),
                                       X509_get_subject_name(ca)), 0);
    X509_free(cert);
    EVP_PKEY_free(key);
}


/* A certificate of the authority's with what is asked for. */

static X509 *
made(EVP_PKEY *key, X509 *issuer, EVP_PKEY *issuer_key, const char *basic,
    const char *usage, long from, long to)
{
    size_t           i;
    X509            *x;
    X509V3_CTX       ctx;
    X509_EXTENSION  *ext;

    const struct {
        int          nid;
        const char  *value;
    } rows[] = {
        { NID_basic_constraints, basic },
        { NID_key_usage, usage },
        { NID_subject_key_identifier, "hash" },
        { NID_authority_key_identifier,
          X509_get0_subject_key_id(issuer ? issuer : ca) ? "keyid" : NULL },
    };

    x = X509_new();

    assert_int_equal(X509_set_version(x, X509_VERSION_3), 1);
    assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(x), 4711), 1);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(x), from));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(x), to));
    assert_int_equal(X509_NAME_add_entry_by_txt(X509_get_subject_name(x),
        "CN", MBSTRING_ASC, (const unsigned char *) "made", -1, -1, 0), 1);
    assert_int_equal(X509_set_issuer_name(x, X509_get_subject_name(
                                                issuer ? issuer : x)), 1);
    assert_int_equal(X509_set_pubkey(x, key), 1);

    for (i = 0; i < COUNT(rows); i++) {

        if (rows[i].value == NULL) {
            continue;
        }

        X509V3_set_ctx_nodb(&ctx);
        X509V3_set_ctx(&ctx, issuer ? issuer : x, x, NULL, NULL, 0);
        ext = X509V3_EXT_conf_nid(NULL, &ctx, rows[i].nid, rows[i].value);
        assert_non_null(ext);
        assert_int_equal(X509_add_ext(x, ext, -1), 1);
        X509_EXTENSION_free(ext);
    }

    assert_int_not_equal(X509_sign(x, issuer_key, EVP_sha256()), 0);

    return x;
}


/* pathlen 0: whoever gets a certificate of the authority signs nothing. */

static void
test_no_authority_below(void **state)
{
    int        rc;
    X509      *below, *x;
    bool       fresh;
    mint_t    *mint;
    EVP_PKEY  *key;

    (void) state;

    key = EVP_EC_gen("P-256");
    below = made(key, ca, ca_key, "critical,CA:TRUE", "keyCertSign", -DAY,
                 DAY);
    mint = mint_new(below, take, key, 4);
    x = leaf(mint, "api.internal", &fresh);

    rc = verified(x, below, "api.internal", X509_PURPOSE_SSL_SERVER);
    expect(rc == X509_V_ERR_PATH_LENGTH_EXCEEDED,
           "a leaf of an authority below: %s",
           X509_verify_cert_error_string(rc));

    mint_free(mint);
    X509_free(below);

    /* nor can the leaves' key, with the certificate it has */

    mint = mint_new(ca, take, ca_key, 4);
    below = leaf(mint, "api.internal", &fresh);
    x = made(key, below, mint_key(mint), "critical,CA:FALSE", NULL, -DAY,
             DAY);

    assert_int_not_equal(verified(x, below, NULL, X509_PURPOSE_SSL_SERVER),
                         X509_V_OK);

    X509_free(x);
    mint_free(mint);
    EVP_PKEY_free(key);
}


static void
test_cache(void **state)
{
    bool         fresh;
    X509        *a, *b;
    char         name[32];
    size_t       i;
    mint_t      *mint;
    authority_t  first;

    (void) state;

    mint = mint_new(ca, take, ca_key, 3);

    a = leaf(mint, "a.example", &fresh);
    assert_true(fresh);
    b = leaf(mint, "b.example", &fresh);
    (void) leaf(mint, "c.example", &fresh);
    assert_int_equal(mint_cached(mint), 3);

    /* the same name is the same leaf, and counts as used */

    assert_ptr_equal(leaf(mint, "a.example", &fresh), a);
    assert_false(fresh);
    assert_ptr_equal(leaf(mint, "b.example", &fresh), b);
    assert_ptr_equal(leaf(mint, "a.example", &fresh), a);
    assert_ptr_equal(leaf(mint, "a.example", &fresh), a);

    /* now c is the least recently used, then b */

    (void) leaf(mint, "d.example", &fresh);
    assert_true(fresh);
    assert_int_equal(mint_cached(mint), 3);

    first = named("c.example");
    assert_false(mint_has(mint, &first));
    first = named("b.example");
    assert_true(mint_has(mint, &first));

    (void) leaf(mint, "e.example", &fresh);
    assert_false(mint_has(mint, &first));
    first = named("a.example");
    assert_true(mint_has(mint, &first));

    /* asking whether it has one does not use it */

    (void) leaf(mint, "f.example", &fresh);
    assert_false(mint_has(mint, &first));

    /* thousands of names stay in their bound */

    for (i = 0; i < 500; i++) {
        (void) snprintf(name, sizeof(name), "h%zu.example", i);
        (void) leaf(mint, name, &fresh);
        expect(fresh && mint_cached(mint) == 3, "%zu are cached",
               mint_cached(mint));
    }

    /* who holds a leaf keeps it when it is dropped */

    a = leaf(mint, "held.example", &fresh);
    (void) X509_up_ref(a);

    for (i = 0; i < 10; i++) {
        (void) snprintf(name, sizeof(name), "g%zu.example", i);
        (void) leaf(mint, name, &fresh);
    }

    assert_int_equal(verified(a, NULL, "held.example",
                              X509_PURPOSE_SSL_SERVER), X509_V_OK);
    X509_free(a);

    mint_free(mint);

    /* a bound of none is one of one */

    mint = mint_new(ca, take, ca_key, 0);
    (void) leaf(mint, "a.example", &fresh);
    (void) leaf(mint, "b.example", &fresh);
    assert_int_equal(mint_cached(mint), 1);
    mint_free(mint);
    mint_free(NULL);
}


/* An address and a name of the same text are two. */

static void
test_kinds(void **state)
{
    bool          fresh;
    X509         *x;
    mint_t       *mint;
    authority_t   name;

    (void) state;

    mint = mint_new(ca, take, ca_key, 10);

    name = named("192.0.2.1");
    name.kind = AUTHORITY_NAME;             /* as no parser gives it */

    x = mint_leaf(mint, &name, &fresh);
    assert_int_equal(verified(x, NULL, "192.0.2.1", X509_PURPOSE_SSL_SERVER),
                     X509_V_ERR_IP_ADDRESS_MISMATCH);

    x = leaf(mint, "192.0.2.1", &fresh);
    assert_true(fresh);
    assert_int_equal(verified(x, NULL, "192.0.2.1", X509_PURPOSE_SSL_SERVER),
                     X509_V_OK);
    assert_int_equal(mint_cached(mint), 2);

    mint_free(mint);
}


static void
test_refused(void **state)
{
    size_t       i;
    X509        *x;
    EVP_PKEY    *key;
    const char  *why;

    static const struct {
        const char  *what;
        const char  *basic;
        const char  *usage;
        long         to;
        const char  *why;               /* a part of it; NULL: accepted */
    } rows[] = {
        { "an authority", "critical,CA:TRUE,pathlen:0", "keyCertSign", DAY,
          NULL },
        { "one that may have others below", "CA:TRUE",
          "keyCertSign,cRLSign", DAY, NULL },
        { "a leaf", "CA:FALSE", "keyCertSign", DAY, "CA:TRUE" },
        { "no basicConstraints", NULL, "digitalSignature", DAY, "CA:TRUE" },
        { "no key usage for it", "CA:TRUE", "digitalSignature", DAY,
          "keyCertSign" },
        { "an expired one", "CA:TRUE", "keyCertSign", -60, "expired" },
    };

    (void) state;

    key = EVP_EC_gen("P-256");

    for (i = 0; i < COUNT(rows); i++) {

        x = made(key, NULL, key, rows[i].basic, rows[i].usage, -2 * DAY,
                 rows[i].to);
        why = mint_refuses(x, key);

        expect((why == NULL) == (rows[i].why == NULL)
               && (why == NULL || strstr(why, rows[i].why)),
               "%s: %s", rows[i].what, why ? why : "accepted");

        /* nor with the key of another */

        why = mint_refuses(x, ca_key);
        expect(why && strstr(why, "key"), "%s, with another's key: %s",
               rows[i].what, why ? why : "accepted");

        X509_free(x);
    }

    assert_null(mint_refuses(ca, ca_key));

    EVP_PKEY_free(key);
}


/* The roots that OpenSSL is told of by SSL_CERT_FILE, as by the system. */

static void
test_system_trusted(void **state)
{
    FILE      *f;
    char       path[] = "/tmp/mint_test.XXXXXX";
    X509      *other, *root, *below;
    EVP_PKEY  *other_key, *key;

    (void) state;

    assert_int_equal(mint_authority(&other, &other_key), 0);

    assert_int_not_equal(mkstemp(path), -1);
    assert_int_equal(setenv("SSL_CERT_FILE", path, 1), 0);
    assert_int_equal(setenv("SSL_CERT_DIR", "/nonexistent", 1), 0);

    f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(PEM_write_X509(f, other), 1);
    (void) fclose(f);

    assert_true(mint_is_system_trusted(other));
    assert_false(mint_is_system_trusted(ca));

    /* one that a system root has signed is believed like it, even expired */

    key = EVP_EC_gen("P-256");
    root = made(key, NULL, key, "critical,CA:TRUE", "keyCertSign", -DAY, DAY);
    below = made(ca_key, root, key, "critical,CA:TRUE", "keyCertSign",
                 -2 * DAY, -DAY);

    f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(PEM_write_X509(f, root), 1);
    (void) fclose(f);

    assert_true(mint_is_system_trusted(root));
    assert_true(mint_is_system_trusted(below));
    assert_false(mint_is_system_trusted(ca));
    assert_false(mint_is_system_trusted(other));

    assert_int_equal(unlink(path), 0);
    X509_free(other);
    X509_free(root);
    X509_free(below);
    EVP_PKEY_free(other_key);
    EVP_PKEY_free(key);
}


int
main(void)
{
    int  rc;

    const struct CMUnitTest  tests[] = {
        PROMISE("a leaf is believed for its name or address only",
                test_names),
        PROMISE("a leaf is a server's, for a week, begun a day ago",
                test_leaf),
        PROMISE("an authority signs for ten years, each has its own key",
                test_authority),
        PROMISE("an authority signed by the boxes' own is not believed",
                test_no_authority_below),
        PROMISE("leaves are cached, the least recently used goes first",
                test_cache),
        PROMISE("an address is not the name of the same text", test_kinds),
        PROMISE("what cannot sign leaves is refused", test_refused),
        PROMISE("an authority that the system trusts is found out",
                test_system_trusted),
    };

    if (mint_authority(&ca, &ca_key) != 0) {
        return 1;
    }

    rc = unit_run(tests);

    X509_free(ca);
    EVP_PKEY_free(ca_key);

    return rc;
}
