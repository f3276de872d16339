/*
 * One key serves all leaves of a mint: only the boxes trust it, and a key for
 * each name would only cost time.  A leaf that is not cached costs a signature
 * and the encoding of its key.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <openssl/ec.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include "door/mint.h"


#define MINT_DAY           (24 * 60 * 60)
#define MINT_LEAF_DAYS     7
#define MINT_RENEW_DAYS    3            /* then a leaf is signed again */
#define MINT_CA_DAYS       3652
#define MINT_BUCKETS       1024         /* a power of two */


typedef struct mint_leaf_s  mint_leaf_t;

struct mint_leaf_s {
    mint_leaf_t  *next;                 /* in the bucket */
    mint_leaf_t  *newer;                /* in the order of use */
    mint_leaf_t  *older;
    X509         *cert;
    time_t        signed_at;
    int           kind;                 /* authority_kind_t */
    char          host[AUTHORITY_HOST_MAX + 1];
};


struct mint_s {
    X509              *cert;
    mint_open_key_pt   open_key;
    void              *data;            /* of open_key */
    EVP_PKEY          *leaf_key;
    size_t             max;
    size_t             count;
    mint_leaf_t       *newest;
    mint_leaf_t       *oldest;
    mint_leaf_t       *buckets[MINT_BUCKETS];
};


typedef struct {
    int          nid;
    const char  *value;
} mint_extension_t;


static mint_leaf_t *mint_find(const mint_t *mint, const authority_t *name);
static X509 *mint_sign(const char *cn, int days, EVP_PKEY *key, X509 *issuer,
    EVP_PKEY *issuer_key, const authority_t *name,
    const mint_extension_t *extensions);
static int mint_number(X509 *cert);
static int mint_valid(X509 *cert, int days);
static int mint_extend(X509 *cert, X509 *issuer, int nid, const char *value);
static int mint_name(X509 *cert, const authority_t *name);
static size_t mint_bucket(const char *host);
static void mint_unlink(mint_t *mint, mint_leaf_t *leaf);
static void mint_link(mint_t *mint, mint_leaf_t *leaf);
static void mint_drop(mint_t *mint, mint_leaf_t *leaf);


int
mint_authority(X509 **cert, EVP_PKEY **key)
{
    char            cn[64];
    X509           *made;
    unsigned char   random[4];

    static const mint_extension_t  extensions[] = {
        { NID_basic_constraints, "critical,CA:TRUE,pathlen:0" },
        { NID_key_usage, "critical,keyCertSign,cRLSign" },
        { NID_subject_key_identifier, "hash" },
        { NID_undef, NULL }
    };

    *cert = NULL;
    *key = EVP_EC_gen("P-256");

    if (*key && RAND_bytes(random, sizeof(random)) == 1) {

        /* the name distinguishes two brokers on a host, not only the key */

        (void) snprintf(cn, sizeof(cn), "Agent broker %02x%02x%02x%02x",
                        random[0], random[1], random[2], random[3]);

        made = mint_sign(cn, MINT_CA_DAYS, *key, NULL, *key, NULL,
                         extensions);

        /* the one that was signed has a reference to the private key */

        *cert = made ? X509_dup(made) : NULL;
        X509_free(made);
    }

    if (*cert == NULL) {
        EVP_PKEY_free(*key);
        *key = NULL;
        return -1;
    }

    return 0;
}


const char *
mint_refuses(X509 *cert, EVP_PKEY *key)
{
    const char  *why;

    why = mint_refuses_pair(cert, key);

    if (why == NULL && !mint_is_current(cert)) {
        why = mint_left(cert) > 0 ? "the certificate is not valid yet"
                                  : "the certificate has expired";
    }

    return why;
}


const char *
mint_refuses_pair(X509 *cert, EVP_PKEY *key)
{
    if (X509_check_private_key(cert, key) != 1) {
        return "the key is not the certificate's";
    }

    if (X509_check_ca(cert) != 1
        || !(X509_get_key_usage(cert) & KU_KEY_CERT_SIGN))
    {
        return "the certificate is not an authority's "
               "(basicConstraints CA:TRUE, keyUsage keyCertSign)";
    }

    return NULL;
}


bool
mint_is_current(const X509 *cert)
{
    return X509_cmp_current_time(X509_get0_notBefore(cert)) < 0
           && X509_cmp_current_time(X509_get0_notAfter(cert)) > 0;
}


int64_t
mint_left(const X509 *cert)
{
    int  days, seconds;

    if (ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(cert)) != 1) {
        return 0;
    }

    return (int64_t) days * MINT_DAY + seconds;
}


X509 *
mint_renewed(X509 *cert, EVP_PKEY *key)
{
    X509  *x;

    x = X509_dup(cert);

    if (x == NULL
        || mint_number(x) != 0
        || mint_valid(x, MINT_CA_DAYS) != 0
        || X509_sign(x, key, EVP_sha256()) == 0)
    {
        X509_free(x);
        return NULL;
    }

    return x;
}


/* Since a day ago. */

static int
mint_valid(X509 *cert, int days)
{
    return X509_gmtime_adj(X509_getm_notBefore(cert), -MINT_DAY)
           && X509_gmtime_adj(X509_getm_notAfter(cert),
                              (long) days * MINT_DAY)
           ? 0 : -1;
}


bool
mint_is_system_trusted(X509 *cert)
{
    bool             trusted;
    X509_STORE      *store;
    X509_STORE_CTX  *ctx;

    trusted = true;             /* also if the check fails */

    store = X509_STORE_new();
    ctx = X509_STORE_CTX_new();

    if (store && ctx && X509_STORE_set_default_paths(store) == 1
        && X509_STORE_CTX_init(ctx, store, cert, NULL) == 1)
    {
        X509_VERIFY_PARAM_set_flags(X509_STORE_CTX_get0_param(ctx),
                                    X509_V_FLAG_PARTIAL_CHAIN
                                    | X509_V_FLAG_NO_CHECK_TIME);

        trusted = (X509_verify_cert(ctx) == 1);
    }

    X509_STORE_CTX_free(ctx);
    X509_STORE_free(store);

    return trusted;
}


mint_t *
mint_new(X509 *cert, mint_open_key_pt open_key, void *data, size_t max)
{
    mint_t  *mint;

    mint = calloc(1, sizeof(mint_t));
    if (mint == NULL) {
        return NULL;
    }

    mint->leaf_key = EVP_EC_gen("P-256");
    if (mint->leaf_key == NULL) {
        free(mint);
        return NULL;
    }

    (void) X509_up_ref(cert);

    mint->cert = cert;
    mint->open_key = open_key;
    mint->data = data;
    mint->max = max > 0 ? max : 1;

    return mint;
}


void
mint_free(mint_t *mint)
{
    if (mint == NULL) {
        return;
    }

    while (mint->oldest) {
        mint_drop(mint, mint->oldest);
    }

    X509_free(mint->cert);
    EVP_PKEY_free(mint->leaf_key);
    free(mint);
}


bool
mint_has(const mint_t *mint, const authority_t *name)
{
    return mint_find(mint, name) != NULL;
}


static mint_leaf_t *
mint_find(const mint_t *mint, const authority_t *name)
{
    mint_leaf_t  *leaf;

    for (leaf = mint->buckets[mint_bucket(name->host)];
         leaf;
         leaf = leaf->next)
    {
        if (leaf->kind == (int) name->kind
            && strcmp(leaf->host, name->host) == 0)
        {
            break;
        }
    }

    return leaf;
}


X509 *
mint_leaf(mint_t *mint, const authority_t *name, bool *fresh)
{
    time_t        now;
    size_t        bucket;
    EVP_PKEY     *key;
    mint_leaf_t  *leaf;

    static const mint_extension_t  extensions[] = {
        { NID_basic_constraints, "critical,CA:FALSE" },
        { NID_key_usage, "critical,digitalSignature" },
        { NID_ext_key_usage, "serverAuth" },
        { NID_authority_key_identifier, "keyid" },
        { NID_undef, NULL }
    };

    now = time(NULL);
    leaf = mint_find(mint, name);

    /* a leaf from the future (the clock was set back) is dropped too */

    if (leaf && (now < leaf->signed_at || mint_left(leaf->cert) <= 0
                 || now - leaf->signed_at > MINT_RENEW_DAYS * MINT_DAY))
    {
        mint_drop(mint, leaf);
        leaf = NULL;
    }

    if (leaf) {
        *fresh = false;

        if (leaf != mint->newest) {
            mint_unlink(mint, leaf);
            mint_link(mint, leaf);
        }

        return leaf->cert;
    }

    leaf = calloc(1, sizeof(mint_leaf_t));
    if (leaf == NULL) {
        return NULL;
    }

    /* at most 64 characters; clients check only the subjectAltName */

    key = mint->open_key(mint->data);

    leaf->cert = key ? mint_sign(name->host_len <= 64 ? name->host
                                                      : "agent broker leaf",
                                 MINT_LEAF_DAYS, mint->leaf_key, mint->cert,
                                 key, name, extensions)
                     : NULL;

    EVP_PKEY_free(key);

    if (leaf->cert == NULL) {
        free(leaf);
        return NULL;
    }

    *fresh = true;

    leaf->signed_at = now;
    leaf->kind = (int) name->kind;
    memcpy(leaf->host, name->host, (size_t) name->host_len + 1);

    if (mint->count == mint->max) {
        mint_drop(mint, mint->oldest);
    }

    bucket = mint_bucket(leaf->host);

    leaf->next = mint->buckets[bucket];
    mint->buckets[bucket] = leaf;
    mint_link(mint, leaf);
    mint->count++;

    return leaf->cert;
}


EVP_PKEY *
mint_key(mint_t *mint)
{
    return mint->leaf_key;
}


size_t
mint_cached(const mint_t *mint)
{
    return mint->count;
}


/*
 * A certificate that began a day ago.  Without an issuer it is its own; without
 * a name it has no subjectAltName.
 */

static X509 *
mint_sign(const char *cn, int days, EVP_PKEY *key, X509 *issuer,
    EVP_PKEY *issuer_key, const authority_t *name,
    const mint_extension_t *extensions)
{
    X509                    *x;
    X509_NAME               *subject;
    const mint_extension_t  *ext;

    x = X509_new();
    if (x == NULL) {
        return NULL;
    }

    issuer = issuer ? issuer : x;
    subject = X509_get_subject_name(x);

    if (mint_number(x) != 0
        || X509_set_version(x, X509_VERSION_3) != 1
        || mint_valid(x, days) != 0
        || X509_NAME_add_entry_by_NID(subject, NID_commonName, MBSTRING_ASC,
                                      (const unsigned char *) cn, -1, -1, 0)
           != 1
        || X509_set_issuer_name(x, X509_get_subject_name(issuer)) != 1
        || X509_set_pubkey(x, key) != 1
        || (name && mint_name(x, name) != 0))
    {
        goto failed;
    }

    for (ext = extensions; ext->value; ext++) {
        if (mint_extend(x, issuer, ext->nid, ext->value) != 0) {
            goto failed;
        }
    }

    /* no client looks at a leaf once its authority is past */

    if (issuer != x
        && ASN1_TIME_compare(X509_get0_notAfter(x),
                             X509_get0_notAfter(issuer)) > 0
        && X509_set1_notAfter(x, X509_get0_notAfter(issuer)) != 1)
    {
        goto failed;
    }

    if (X509_sign(x, issuer_key, EVP_sha256()) != 0) {
        return x;
    }

failed:

    X509_free(x);

    return NULL;
}


/* A random serial number. */

static int
mint_number(X509 *cert)
{
    int             rc;
    BIGNUM         *n;
    unsigned char   serial[16];

    if (RAND_bytes(serial, sizeof(serial)) != 1) {
        return -1;
    }

    serial[0] &= 0x7f;                  /* positive, and never zero */
    serial[0] |= 0x40;

    n = BN_bin2bn(serial, sizeof(serial), NULL);

    rc = n && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(cert)) ? 0 : -1;

    BN_free(n);

    return rc;
}


static int
mint_extend(X509 *cert, X509 *issuer, int nid, const char *value)
{
    int              rc;
    X509V3_CTX       ctx;
    X509_EXTENSION  *ext;

    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);

    ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    if (ext == NULL) {
        return -1;
    }

    rc = X509_add_ext(cert, ext, -1);

    X509_EXTENSION_free(ext);

    return rc == 1 ? 0 : -1;
}


/* The subjectAltName is made from the parsed name, not parsed from text. */

static int
mint_name(X509 *cert, const authority_t *name)
{
    int             rc;
    bool            is_name;
    ASN1_STRING    *value;
    GENERAL_NAME   *one;
    GENERAL_NAMES  *names;

    rc = -1;
    is_name = (name->kind == AUTHORITY_NAME);

    names = GENERAL_NAMES_new();
    one = GENERAL_NAME_new();
    value = is_name ? ASN1_IA5STRING_new() : ASN1_OCTET_STRING_new();

    if (names && one && value
        && ASN1_STRING_set(value, is_name ? (const void *) name->host
                                          : name->address,
                           is_name ? name->host_len
                           : name->kind == AUTHORITY_IPV4 ? 4 : 16)
           == 1
        && sk_GENERAL_NAME_push(names, one) > 0)
    {
        /* names owns one now, and one the value */

        GENERAL_NAME_set0_value(one, is_name ? GEN_DNS : GEN_IPADD, value);

        if (X509_add1_ext_i2d(cert, NID_subject_alt_name, names, 0, 0) == 1) {
            rc = 0;
        }

    } else {
        ASN1_STRING_free(value);
        GENERAL_NAME_free(one);
    }

    GENERAL_NAMES_free(names);

    return rc;
}


/* FNV-1a: the names are the policy's, so no box can choose colliding ones. */

static size_t
mint_bucket(const char *host)
{
    size_t  hash;

    for (hash = 2166136261u; *host; host++) {
        hash = (hash ^ (unsigned char) *host) * 16777619u;
    }

    return hash & (MINT_BUCKETS - 1);
}


static void
mint_unlink(mint_t *mint, mint_leaf_t *leaf)
{
    *(leaf->newer ? &leaf->newer->older : &mint->newest) = leaf->older;
    *(leaf->older ? &leaf->older->newer : &mint->oldest) = leaf->newer;
}


static void
mint_link(mint_t *mint, mint_leaf_t *leaf)
{
    leaf->newer = NULL;
    leaf->older = mint->newest;

    *(mint->newest ? &mint->newest->newer : &mint->oldest) = leaf;
    mint->newest = leaf;
}


static void
mint_drop(mint_t *mint, mint_leaf_t *leaf)
{
    mint_leaf_t  **p;

    for (p = &mint->buckets[mint_bucket(leaf->host)]; *p; p = &(*p)->next) {
        if (*p == leaf) {
            *p = leaf->next;
            break;
        }
    }

    mint_unlink(mint, leaf);
    mint->count--;

    X509_free(leaf->cert);
    free(leaf);
}
