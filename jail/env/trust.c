/*
 * Checked before the box exists, so that the launcher reports a fault.  The
 * store for Java is made only if there is a Java, and while the child builds
 * the rest of the box.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "env/certificate.h"
#include "env/jks.h"
#include "env/trust.h"


#define TRUST_STORE_MAX  (2 << 20)      /* bytes of the system's store */


static const char *const  trust_java_places[] = {
    "/usr/bin/java", "/usr/lib/jvm", NULL
};


/* where distributions keep the certificates that their Java trusts */

static const char *const  trust_java_stores[] = {
    "/etc/ssl/certs/java/cacerts", "/etc/pki/java/cacerts", NULL
};


static int trust_has_java(const char *const *readable, unsigned nreadable);
static int trust_java(trust_t *trust, fault_t *fault);
static const uint8_t *trust_map(const char *path, size_t *len);


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


void
trust_java_fill(trust_t *trust)
{
    if (trust->java) {
        jks_build(trust->java, trust->pem, trust->java_base,
                  trust->java_base_len);
    }
}


void
trust_free(trust_t *trust)
{
    if (trust->java) {
        (void) munmap(trust->java, trust->java_len);
        trust->java = NULL;
    }

    if (trust->java_base) {
        (void) munmap((void *) trust->java_base, trust->java_base_len);
        trust->java_base = NULL;
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
    void               *store;
    const char *const  *p;

    for (p = trust_java_stores; *p && trust->java_base == NULL; p++) {
        trust->java_base = trust_map(*p, &trust->java_base_len);
    }

    trust->java_len = jks_size(trust->pem, trust->java_base,
                               trust->java_base_len);

    if (trust->java_len == 0) {
        return fault_set(fault, STAGE_BROKER, 0,
                         "cannot make a trust store for Java from "
                         "\"ca\" in the broker's answer");
    }

    store = mmap(NULL, trust->java_len, PROT_READ|PROT_WRITE,
                 MAP_SHARED|MAP_ANONYMOUS, -1, 0);

    if (store == MAP_FAILED) {
        return fault_set(fault, STAGE_BROKER, errno, "no memory");
    }

    trust->java = store;

    return 0;
}


/* NULL if there is none: then the store holds only the broker's. */

static const uint8_t *
trust_map(const char *path, size_t *len)
{
    int           fd;
    void         *p;
    struct stat   st;

    fd = open(path, O_RDONLY|O_NONBLOCK|O_CLOEXEC);

    if (fd == -1) {
        return NULL;
    }

    p = MAP_FAILED;

    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0
        && st.st_size <= TRUST_STORE_MAX)
    {
        *len = (size_t) st.st_size;
        p = mmap(NULL, *len, PROT_READ, MAP_PRIVATE, fd, 0);
    }

    (void) close(fd);

    return p == MAP_FAILED ? NULL : p;
}
