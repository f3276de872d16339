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


static void plan_trust_own(mount_list_t *list, const trust_t *trust);
static void plan_trust_layer(mount_list_t *list, const trust_t *trust);
static void plan_trust_file(mount_list_t *list, const char *path,
    const char *const *hosts, const void *data, size_t len);


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

    plan_trust_own(list, trust);

    if (has && !S_ISDIR(st.st_mode)) {
        return 1;
    }

    plan_trust_layer(list, trust);

    if (!has) {
        mount_list_add(list, (mount_op_t) {
            .kind = M_LINK, .path = TRUST_CERTS, .arg = "agent/certs"
        });
        return 0;
    }

    /* the layer's name is looked up in the box, the host's in the old root */

    mount_list_add(list, (mount_op_t) {
        .kind = M_DIR, .path = TRUST_CERTS, .mode = 0755
    });
    mount_list_add(list, (mount_op_t) {
        .kind = M_OVERLAY, .path = TRUST_CERTS,
        .arg = TRUST_LAYER ":/" TRUST_CERTS
    });

    return 0;
}


void
plan_trust_names(mount_list_t *list, const trust_t *trust)
{
    const char *const  *p;

    for (p = trust_bundles; trust->pem && *p; p++) {
        mount_list_add(list, (mount_op_t) {
            .kind = M_COVER, .path = *p + 1, .arg = TRUST_BUNDLE
        });
    }

    if (trust->java_tail) {
        mount_list_add(list, (mount_op_t) {
            .kind = M_COVER, .path = TRUST_CERTS "/java/cacerts",
            .arg = TRUST_JAVA
        });
    }
}


/* A host without any bundle has boxes that trust the broker only. */

static void
plan_trust_own(mount_list_t *list, const trust_t *trust)
{
    const char         *text;
    const char *const  *p;

    /* which of these the box can read is seen when it opens them */

    for (p = trust_bundles; *p && access(*p, R_OK) != 0; p++) { /* void */ }

    text = mount_list_text(list, "%s%s", *p ? "\n" : "", trust->pem);

    mount_list_add(list, (mount_op_t) {
        .kind = M_DIR, .path = TRUST_DIR, .mode = 0755
    });
    plan_trust_file(list, TRUST_BUNDLE, p, text, strlen(text));
    plan_trust_file(list, TRUST_OWN, NULL, trust->pem, strlen(trust->pem));

    if (trust->java_tail) {
        mount_list_add(list, (mount_op_t) {
            .kind = M_FILE, .path = TRUST_JAVA, .mode = 0444,
            .head = (const char *) trust->java.head, .head_len = JKS_HEAD,
            .fd = trust->java.base, .offset = JKS_HEAD,
            .size = trust->java.entries,
            .arg = (const char *) trust->java_tail,
            .len = trust->java.tail_len, .is_awaited = true
        });
    }
}


static void
plan_trust_layer(mount_list_t *list, const trust_t *trust)
{
    char         host[sizeof("/" TRUST_CERTS) + PROTOCOL_CA_HASH_LEN + 16];
    unsigned     i;
    struct stat  st;

    mount_list_add(list, (mount_op_t) {
        .kind = M_DIR, .path = TRUST_LAYER, .mode = 0755
    });
    mount_list_add(list, (mount_op_t) {
        .kind = M_LINK, .path = TRUST_LAYER "/ca-certificates.crt",
        .arg = "/" TRUST_BUNDLE
    });

    /* names may have the same hash: the first number that is free */

    for (i = 0; i < TRUST_SAME_HASH && trust->hash[0]; i++) {
        (void) snprintf(host, sizeof(host), "/" TRUST_CERTS "/%s.%u",
                        trust->hash, i);

        if (lstat(host, &st) != 0) {
            mount_list_add(list, (mount_op_t) {
                .kind = M_LINK, .arg = "/" TRUST_OWN,
                .path = mount_list_text(list, TRUST_LAYER "/%s.%u",
                                        trust->hash, i)
            });
            break;
        }
    }

    if (trust->java_tail) {
        mount_list_add(list, (mount_op_t) {
            .kind = M_DIR, .path = TRUST_LAYER "/java", .mode = 0755
        });
        mount_list_add(list, (mount_op_t) {
            .kind = M_LINK, .path = TRUST_LAYER "/java/cacerts",
            .arg = "/" TRUST_JAVA
        });
    }
}


static void
plan_trust_file(mount_list_t *list, const char *path,
    const char *const *hosts, const void *data, size_t len)
{
    mount_list_add(list, (mount_op_t) {
        .kind = M_FILE, .path = path, .mode = 0444, .fd = -1,
        .host = hosts ? hosts[0] : NULL,
        .others = hosts && hosts[0] ? hosts + 1 : NULL,
        .size = TRUST_BUNDLE_MAX, .arg = data, .len = len
    });
}
