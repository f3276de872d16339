/*
 * The certificate authorities that programs in a box trust: the system's, and
 * the broker's, which signs the certificates of the TLS doors.  The broker's
 * is known in boxes only; nothing on the host ever trusts it.
 *
 * Every file below holds all of them, except TRUST_OWN, which has only the
 * broker's: for programs whose variable adds to the authorities they have.
 */

#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "shared/protocol.h"


/* in the box, without the first "/" */

#define TRUST_DIR     "etc/ssl/agent"
#define TRUST_BUNDLE  TRUST_DIR "/ca-bundle.crt"
#define TRUST_OWN     TRUST_DIR "/ca.crt"
#define TRUST_JAVA    TRUST_DIR "/cacerts"
#define TRUST_LAYER   TRUST_DIR "/certs"

#define TRUST_PEM_MAX  32768


typedef struct {
    const char  *pem;                   /* the broker's; NULL: it has none */
    char         hash[PROTOCOL_CA_HASH_LEN + 1];    /* or "" */
    uint8_t     *java;                  /* a store in JKS, or NULL: shared
                                           with the child, filled after the
                                           clone by trust_java_fill() */
    size_t       java_len;
    const uint8_t  *java_base;          /* the system's store, or NULL */
    size_t       java_base_len;
} trust_t;


/*
 * In the launcher: checks trust->pem, and makes room for a store for Java.
 * readable are the paths that the policy adds to the system's: a Java may be
 * there.
 */
int trust_prepare(trust_t *trust, const char *const *readable,
    unsigned nreadable, fault_t *fault);

/* Writes the store, where there is room for one: a third of a millisecond. */
void trust_java_fill(trust_t *trust);

void trust_free(trust_t *trust);
