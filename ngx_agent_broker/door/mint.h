/*
 * The mint: a certificate authority that only boxes trust, and the leaf
 * certificates that it signs.  A client that trusts it believes the broker for
 * every name, so it lives outside the boxes, signs only names that a policy
 * allows (the caller checks that), and cannot sign another authority.
 *
 * Sources: RFC 5280 section 4.2 (extensions), RFC 6125 (names).
 */

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openssl/evp.h>
#include <openssl/x509.h>

#include "parse/authority.h"


typedef struct mint_s  mint_t;


/*
 * A new authority: P-256, ten years, pathlen 0.  Returns 0 with references
 * that the caller owns, or -1 (OpenSSL's error queue says why).
 */
int mint_authority(X509 **cert, EVP_PKEY **key);

/*
 * NULL, or why this pair cannot sign leaves (a constant phrase): now, or
 * whatever the time is.
 */
const char *mint_refuses(X509 *cert, EVP_PKEY *key);
const char *mint_refuses_pair(X509 *cert, EVP_PKEY *key);

/* Is it valid now?  The seconds until its end; 0 or less: it is past. */
bool mint_is_current(const X509 *cert);
int64_t mint_left(const X509 *cert);

/*
 * The same authority with the same key, for ten years from now: leaves that
 * one of the two certificates verifies the other verifies as well.  The caller
 * owns it; NULL on an error.
 */
X509 *mint_renewed(X509 *cert, EVP_PKEY *key);

/*
 * Do the system's trusted roots include this authority, or sign it?  Then
 * programs outside the boxes would trust its leaves too.
 */
bool mint_is_system_trusted(X509 *cert);

/* The authority's key, which the caller frees; NULL on an error. */
typedef EVP_PKEY *(*mint_open_key_pt)(void *data);

/*
 * A mint with a new leaf key and a cache of at most max leaves, of which the
 * least recently used is dropped first.  Takes its own reference to cert; the
 * authority's key is opened for each signature, and not kept.
 */
mint_t *mint_new(X509 *cert, mint_open_key_pt open_key, void *data,
    size_t max);
void mint_free(mint_t *mint);

/*
 * A leaf for one name: DNS or IP subjectAltName, serverAuth, valid for a week,
 * though not past the authority's end, and since a day ago (a box's clock may
 * be behind).  The result belongs to
 * the mint and is valid until the next call; take a reference to keep it.
 * *fresh: it was signed now, not cached.  NULL on an error.
 */
X509 *mint_leaf(mint_t *mint, const authority_t *name, bool *fresh);

EVP_PKEY *mint_key(mint_t *mint);

/* Would mint_leaf() have to sign? */
bool mint_has(const mint_t *mint, const authority_t *name);

/* How many leaves are cached. */
size_t mint_cached(const mint_t *mint);
