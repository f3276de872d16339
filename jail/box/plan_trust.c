/*
 * What a box trusts, put in its place.  The files are the box's own, in one
 * directory whose name does not depend on the host; and whatever name the
 * host has for them leads there as well, for programs that look at no
 * variable.
 *
 * The directory /etc/ssl/certs is the host's with a layer of ours over it:
 * one overlay costs a thirtieth of what its 300 links do.  Where there can be
 * none (a kernel without, or with mounts in that directory) it is the host's,
 * and the bundle is mounted over the host's own.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "box/plan_trust.h"


#define TRUST_CERTS       "etc/ssl/certs"
#define TRUST_BUNDLE_MAX  (64u << 20)
#define TRUST_SAME_HASH   10            /* names that may share one */


/* the system's authorities in one file, as distributions name it */

static const char *const  trust_bundles[] = {
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/ssl/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/tls/cert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    NULL
};


static const mount_op_t  trust_layer[] = {
    { .kind = M_DIR, .path = TRUST_LAYER, .mode = 0755 },
    { .kind = M_LINK, .path = TRUST_LAYER "/ca-certificates.crt",
      .arg = "/" TRUST_BUNDLE }
};

static const mount_op_t  trust_layer_java[] = {
    { .kind = M_DIR, .path = TRUST_LAYER "/java", .mode = 0755 },
    { .kind = M_LINK, .path = TRUST_LAYER "/java/cacerts",
      .arg = "/" TRUST_JAVA }
};

/* the layer's name is looked up in the box, the host's in the old root */

static const mount_op_t  trust_overlay[] = {
    { .kind = M_DIR, .path = TRUST_CERTS, .mode = 0755 },
    { .kind = M_OVERLAY, .path = TRUST_CERTS,
      .arg = TRUST_LAYER ":/" TRUST_CERTS }
};

static const mount_op_t  trust_link[] = {
    { .kind = M_LINK, .path = TRUST_CERTS, .arg = "agent/certs" }
};

#define ADD(list, ops)                                                       \
    plan_trust_add(list, ops, sizeof(ops) / sizeof((ops)[0]))


static int plan_trust_add(mount_list_t *list, const mount_op_t *ops,
    size_t n);
static int plan_trust_own(mount_list_t *list, const trust_t *trust);
static int plan_trust_hash(mount_list_t *list, const trust_t *trust);


int
plan_trust_files(mount_list_t *list, const trust_t *trust)
{
    int          has;
    struct stat  st;

    has = lstat("/" TRUST_CERTS, &st) == 0;

    if (!has && errno != ENOENT) {
        return -1;
    }

    if (trust->pem == NULL) {
        return 1;
    }

    if (plan_trust_own(list, trust) != 0) {
        return -1;
    }

    if (has && !S_ISDIR(st.st_mode)) {
        return 1;
    }

    if (ADD(list, trust_layer) != 0
        || plan_trust_hash(list, trust) != 0
        || (trust->java && ADD(list, trust_layer_java) != 0))
    {
        return -1;
    }

    return has ? ADD(list, trust_overlay) : ADD(list, trust_link);
}


int
plan_trust_names(mount_list_t *list, const trust_t *trust)
{
    mount_op_t          op;
    const char *const  *p;

    if (trust->pem == NULL) {
        return 0;
    }

    op = (mount_op_t) { .kind = M_COVER, .arg = TRUST_BUNDLE };

    for (p = trust_bundles; *p; p++) {
        op.path = *p + 1;

        if (mount_list_add(list, &op) != 0) {
            return -1;
        }
    }

    op = (mount_op_t) {
        .kind = M_COVER, .path = TRUST_CERTS "/java/cacerts", .arg = TRUST_JAVA
    };

    return trust->java ? mount_list_add(list, &op) : 0;
}


static int
plan_trust_add(mount_list_t *list, const mount_op_t *ops, size_t n)
{
    size_t  i;

    for (i = 0; i < n; i++) {
        if (mount_list_add(list, &ops[i]) != 0) {
            return -1;
        }
    }

    return 0;
}


/* A host without any bundle has boxes that trust the broker only. */

static int
plan_trust_own(mount_list_t *list, const trust_t *trust)
{
    int                 len;
    char               *text;
    const char *const  *p;

    for (p = trust_bundles; *p && access(*p, R_OK) != 0; p++) { /* void */ }

    len = asprintf(&text, "%s%s", *p ? "\n" : "", trust->pem);

    if (len == -1) {
        return -1;
    }

    const mount_op_t  ops[] = {
        { .kind = M_DIR, .path = TRUST_DIR, .mode = 0755 },
        { .kind = M_FILE, .path = TRUST_BUNDLE, .mode = 0444, .fd = -1,
          .host = *p, .size = TRUST_BUNDLE_MAX,
          .arg = text, .len = (size_t) len },
        { .kind = M_FILE, .path = TRUST_OWN, .mode = 0444, .fd = -1,
          .arg = trust->pem, .len = strlen(trust->pem) },
        { .kind = M_FILE, .path = TRUST_JAVA, .mode = 0444, .fd = -1,
          .arg = (const char *) trust->java, .len = trust->java_len }
    };

    return plan_trust_add(list, ops, trust->java ? 4 : 3);
}


/* Names may have the same hash: the first number that is free. */

static int
plan_trust_hash(mount_list_t *list, const trust_t *trust)
{
    char         host[sizeof("/" TRUST_CERTS) + CERTIFICATE_HASH_LEN + 8];
    char        *path;
    unsigned     i;
    mount_op_t   op;
    struct stat  st;

    for (i = 0; i < TRUST_SAME_HASH && trust->hash[0]; i++) {
        (void) snprintf(host, sizeof(host), "/" TRUST_CERTS "/%s.%u",
                        trust->hash, i);

        if (lstat(host, &st) == 0) {
            continue;
        }

        if (asprintf(&path, TRUST_LAYER "/%s.%u", trust->hash, i) == -1) {
            return -1;
        }

        op = (mount_op_t) {
            .kind = M_LINK, .path = path, .arg = "/" TRUST_OWN
        };

        return mount_list_add(list, &op);
    }

    return 0;
}
