/*
 * A trust store for Java.  It reads neither the system's bundle nor a
 * variable that names one, and its PKCS#12 reader finds no entries in what
 * OpenSSL writes: so JKS, which every version reads.
 */

#pragma once

#include <stddef.h>
#include <stdint.h>


#define JKS_PASSWORD  "changeit"        /* Java's own for its roots */


#define JKS_HEAD      12                /* bytes before the entries */


/*
 * A store that adds to another one: a head of its own, the other's entries as
 * they are in its file, a tail.
 */

typedef struct {
    uint8_t   head[JKS_HEAD];
    int       base;                     /* the other's file; not owned */
    uint64_t  entries;                  /* their bytes, from JKS_HEAD on */
    uint32_t  count;
    size_t    tail_len;
} jks_t;


/*
 * Measures the store of the certificates of a PEM text behind those of base.
 * base may be -1; where it is not a regular file with a JKS store it is left
 * out, and jks->base is -1.  -1 if the text holds no certificates.
 */
int jks_plan(jks_t *jks, const char *pem, int base);

/*
 * Reads the other's entries and writes the tail of jks->tail_len bytes: the
 * certificates, and the digest of all.  -1 with errno if they cannot be read.
 */
int jks_tail(const jks_t *jks, const char *pem, uint8_t *tail);
