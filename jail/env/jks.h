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
 * The certificates of a PEM text, and in front of them the entries of another
 * store; base may be NULL, and is left out when it is not JKS.  malloc'd, of
 * *len bytes; NULL without memory or when the text holds no certificates.
 */
uint8_t *jks_build(const char *pem, const uint8_t *base, size_t base_len,
    size_t *len);
