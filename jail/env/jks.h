/*
 * A trust store for Java.  It reads neither the system's bundle nor a
 * variable that names one, and its PKCS#12 reader finds no entries in what
 * OpenSSL writes: so JKS, which every version reads.
 */

#pragma once

#include <stddef.h>
#include <stdint.h>


#define JKS_PASSWORD  "changeit"        /* Java's own for its roots */


/*
 * The size in bytes of the store that jks_build() makes of the same arguments;
 * 0 when the text holds no certificates.
 */
size_t jks_size(const char *pem, const uint8_t *base, size_t base_len);

/*
 * Writes a store of jks_size() bytes: the certificates of a PEM text, and in
 * front of them the entries of another store.  base may be NULL, and is left
 * out when it is not JKS.
 */
void jks_build(uint8_t *store, const char *pem, const uint8_t *base,
    size_t base_len);
