/*
 * Checked before the box exists, so that the launcher reports a fault.  The
 * store for Java is made only if there is a Java: what costs time of it while
 * the child builds the rest of the box.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "env/certificate.h"
#include "env/trust.h"


static const char *const  trust_java_places[] = {
    "/usr/bin/java", "/usr/lib/jvm", NULL
};


/* where distributions keep the certificates that their Java trusts */

static const char *const  trust_java_stores[] = {
    "/etc/ssl/certs/java/cacerts", "/etc/pki/java/cacerts", NULL
};


static int trust_has_java(const char *const *readable, unsigned nreadable);
static int trust_java(trust_t *trust, fault_t *fault);


int
trust_prepare(trust_t *trust, const char *const *readable,
    unsigned nreadable, fault_t *fault)
{
    uint8_t      der[CERTIFICATE_DER_MAX];
    const char  *pem;

    if (trust->pem == NULL) {
        return 0;
    }

    pem = trust->pem;

    if (certificate_next(&pem, der) <= 0
        || strlen(trust->pem) > TRUST_PEM_MAX)
    {
        return fault_set(fault, STAGE_BROKER, EPROTO,
                         "\"ca\" in the broker's answer is not a "
                         "certificate");
    }

    return trust_has_java(readable, nreadable) ? trust_java(trust, fault) : 0;
}


int
trust_java_fill(trust_t *trust, fault_t *fault)
{
    if (trust->java_tail
        && jks_tail(&trust->java, trust->pem, trust->java_tail) != 0)
    {
        return fault_set(fault, STAGE_BROKER, errno,
                         "the system's trust store for Java cannot be read");
    }

    return 0;
}


void
trust_free(trust_t *trust)
{
    if (trust->java_tail) {
        (void) munmap(trust->java_tail, trust->java.tail_len);
        trust->java_tail = NULL;
        descriptors_close(&trust->java.base, 1);
    }
}


static int
trust_has_java(const char *const *readable, unsigned nreadable)
{
    char                 path[300];
    unsigned             i;
    const char *const   *p;

    for (p = trust_java_places; *p; p++) {
        if (access(*p, F_OK) == 0) {
            return 1;
        }
    }

    for (i = 0; i < nreadable; i++) {
        (void) snprintf(path, sizeof(path), "%s/bin/java", readable[i]);

        if (access(path, F_OK) == 0) {
            return 1;
        }
    }

    return 0;
}


static int
trust_java(trust_t *trust, fault_t *fault)
{
    int                 base;
    void               *tail;
    const char *const  *p;

    base = -1;

    for (p = trust_java_stores; *p && base == -1; p++) {
        base = open(*p, O_RDONLY|O_NONBLOCK|O_CLOEXEC);
    }

    if (jks_plan(&trust->java, trust->pem, base) != 0) {
        descriptors_close(&base, 1);
        return fault_set(fault, STAGE_BROKER, 0,
                         "cannot make a trust store for Java from "
                         "\"ca\" in the broker's answer");
    }

    if (trust->java.base == -1) {
        descriptors_close(&base, 1);
    }

    tail = mmap(NULL, trust->java.tail_len, PROT_READ|PROT_WRITE,
                MAP_SHARED|MAP_ANONYMOUS, -1, 0);

    if (tail == MAP_FAILED) {
        descriptors_close(&trust->java.base, 1);
        return fault_set(fault, STAGE_BROKER, errno, "no memory");
    }

    trust->java_tail = tail;

    return 0;
}
