/*
 * The mint: a certificate authority for boxes alone, and the leaf
 * certificates that it signs.  Whoever trusts this authority trusts the
 * broker for every name, so it lives outside the boxes, signs only names that
 * a policy allows (the caller's duty), and can sign no authority below it.
 *
 * Sources: RFC 5280 section 4.2 (extensions), RFC 6125 (names).
 */

#ifndef MINT_H
#define MINT_H

#include <stdbool.h>
#include <stddef.h>

#include <openssl/evp.h>
#include <openssl/x509.h>

#include "parse/authority.h"


typedef struct mint_s  mint_t;


/*
 * A new authority: P-256, ten years, pathlen 0.  0 with references that the
 * caller owns, or -1 (OpenSSL's error queue says why).
 */
int mint_authority(X509 **cert, EVP_PKEY **key);

/* NULL, or a constant sentence why this pair cannot sign leaves. */
const char *mint_refuses(X509 *cert, EVP_PKEY *key);

/*
 * Would the system's own roots vouch for this authority?  Then the boxes
 * would not be the only ones to believe its leaves.
 */
bool mint_is_system_trusted(X509 *cert);

/*
 * A mint of its own leaf key and a cache of at most max leaves, the least
 * recently used one dropped first.  Takes references of its own.
 */
mint_t *mint_new(X509 *cert, EVP_PKEY *key, size_t max);
void mint_free(mint_t *mint);

/*
 * A leaf for one name: DNS or IP subjectAltName, serverAuth, a week long,
 * begun a day ago (a box's clock may be behind).  The result is the mint's,
 * valid until the next call; take a reference to keep it.  *fresh: signed
 * now, not cached.  NULL on an error.
 */
X509 *mint_leaf(mint_t *mint, const authority_t *name, bool *fresh);

EVP_PKEY *mint_key(mint_t *mint);
X509 *mint_cert(mint_t *mint);

/* Would mint_leaf() have to sign? */
bool mint_has(const mint_t *mint, const authority_t *name);

/* How many leaves are cached. */
size_t mint_cached(const mint_t *mint);


#endif /* MINT_H */
