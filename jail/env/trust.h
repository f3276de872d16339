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
#include "env/jks.h"
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
    jks_t        java;                  /* behind the system's store; `base`
                                           is owned */
    uint8_t     *java_tail;             /* or NULL: no Java; shared with the
                                           child, filled after the clone by
                                           trust_java_fill() */
} trust_t;


/*
 * In the launcher: checks trust->pem, and makes room for a store for Java.
 * readable are the paths that the policy adds to the system's: a Java may be
 * there.
 */
int trust_prepare(trust_t *trust, const char *const *readable,
    unsigned nreadable, fault_t *fault);

/*
 * Fills the store's tail, where there is one: a fifth of a millisecond, most of
 * it for the digest.  -1 with the fault set.
 */
int trust_java_fill(trust_t *trust, fault_t *fault);

void trust_free(trust_t *trust);
