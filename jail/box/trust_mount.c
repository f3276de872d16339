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
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "box/mount_ops.h"
#include "box/report.h"
#include "env/trust.h"


#define TRUST_BUNDLE_MAX  (4 << 20)
#define TRUST_CERTS       "etc/ssl/certs"
#define TRUST_TRIES       10000


/* the system's authorities in one file, as distributions name it */

static const char *const  trust_bundles[] = {
    "etc/ssl/certs/ca-certificates.crt",
    "etc/ssl/certs/ca-bundle.crt",
    "etc/ssl/ca-bundle.pem",
    "etc/ssl/cert.pem",
    "etc/pki/tls/certs/ca-bundle.crt",
    "etc/pki/tls/cert.pem",
    "etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    NULL
};


static int trust_bundle(setup_t *s);
static int trust_write(setup_t *s, const char *path, const void *data,
    size_t len);
static int trust_certs(setup_t *s);
static int trust_layer(setup_t *s);
static int trust_link(setup_t *s, const char *target, const char *name);
static int trust_over(setup_t *s, const char *source, const char *path);


/* Before what the host has of these names: the layer goes below it. */

int
trust_files(setup_t *s)
{
    const trust_t  *trust;

    trust = &s->spec->trust;

    if (trust->pem == NULL) {
        return mount_host(s, TRUST_CERTS, true);
    }

    if (mkdirat(s->root, TRUST_DIR, 0755) != 0
        || trust_bundle(s) != 0
        || trust_write(s, TRUST_OWN, trust->pem, strlen(trust->pem)) != 0
        || (trust->java && trust_write(s, TRUST_JAVA, trust->java,
                                       trust->java_len) != 0))
    {
        return report_detail(s, "/" TRUST_DIR);
    }

    return trust_certs(s);
}


/* After them: what still is the host's gets ours over it. */

int
trust_names(setup_t *s)
{
    const char *const  *p;

    if (s->spec->trust.pem == NULL) {
        return 0;
    }

    for (p = trust_bundles; *p; p++) {
        if (trust_over(s, TRUST_BUNDLE, *p) != 0) {
            return report_detail(s, "/%s", *p);
        }
    }

    if (s->spec->trust.java) {
        return trust_over(s, TRUST_JAVA, TRUST_CERTS "/java/cacerts");
    }

    return 0;
}


/* A host without any has boxes that trust the broker only. */

static int
trust_bundle(setup_t *s)
{
    int                 in, out;
    char                host[128];
    size_t              len;
    ssize_t             n;
    const char         *pem;
    const char *const  *p;

    out = openat(s->root, TRUST_BUNDLE, O_WRONLY|O_CREAT|O_EXCL|O_CLOEXEC,
                 0444);

    if (out == -1) {
        return -1;
    }

    in = -1;

    for (p = trust_bundles; *p && in == -1; p++) {
        (void) snprintf(host, sizeof(host), "/%s", *p);
        in = open(host, O_RDONLY|O_NONBLOCK|O_NOCTTY|O_CLOEXEC);
    }

    if (in != -1) {
        do {
            n = sendfile(out, in, NULL, TRUST_BUNDLE_MAX);
        } while (n > 0 || (n == -1 && errno == EINTR));

        if (n == -1 || close(in) != 0 || write(out, "\n", 1) != 1) {
            return -1;
        }
    }

    pem = s->spec->trust.pem;
    len = strlen(pem);

    return write(out, pem, len) == (ssize_t) len ? close(out) : -1;
}


static int
trust_write(setup_t *s, const char *path, const void *data, size_t len)
{
    int  fd;

    fd = openat(s->root, path, O_WRONLY|O_CREAT|O_EXCL|O_CLOEXEC, 0444);

    if (fd == -1 || write(fd, data, len) != (ssize_t) len) {
        return -1;
    }

    return close(fd);
}


static int
trust_certs(setup_t *s)
{
    int          tree;
    struct stat  st;

    static const char *const  layers[] = {
        "lowerdir", TRUST_LAYER ":/" TRUST_CERTS, NULL
    };

    if (lstat("/" TRUST_CERTS, &st) != 0) {

        if (errno != ENOENT || trust_layer(s) != 0) {
            return -1;
        }

        return symlinkat("agent/certs", s->root, TRUST_CERTS);
    }

    if (!S_ISDIR(st.st_mode)) {
        return mount_host(s, TRUST_CERTS, true);
    }

    /* the layer's name is seen from here, the host's from the old root */

    if (trust_layer(s) != 0 || mkdirat(s->root, TRUST_CERTS, 0755) != 0) {
        return -1;
    }

    tree = mount_fs("overlay", layers, RDONLY|NOSUID|NODEV|NOEXEC);

    return tree == -1 ? mount_host(s, TRUST_CERTS, true)
                      : mount_attach(s, tree, TRUST_CERTS);
}


static int
trust_layer(setup_t *s)
{
    char         link[32];
    unsigned     i;
    struct stat  st;

    if (mkdirat(s->root, TRUST_LAYER, 0755) != 0
        || trust_link(s, "/" TRUST_BUNDLE, "ca-certificates.crt")
           != 0)
    {
        return -1;
    }

    /* names may have the same hash: the first number that is free */

    for (i = 0; i < 10 && s->spec->trust.hash[0]; i++) {
        (void) snprintf(link, sizeof(link), "/" TRUST_CERTS "/%s.%u",
                        s->spec->trust.hash, i);

        if (lstat(link, &st) != 0) {

            if (trust_link(s, "/" TRUST_OWN,
                           link + sizeof("/" TRUST_CERTS)) != 0)
            {
                return -1;
            }

            break;
        }
    }

    if (s->spec->trust.java == NULL) {
        return 0;
    }

    return mkdirat(s->root, TRUST_LAYER "/java", 0755) != 0
           || trust_link(s, "/" TRUST_JAVA, "java/cacerts") != 0
           ? -1 : 0;
}


static int
trust_link(setup_t *s, const char *target, const char *name)
{
    char  path[128];

    (void) snprintf(path, sizeof(path), TRUST_LAYER "/%s", name);

    return symlinkat(target, s->root, path);
}


/* The name is looked up in the box, whatever its links begin with. */

static int
trust_over(setup_t *s, const char *source, const char *path)
{
    int              fd, tree, tries;
    struct stat      theirs, ours;
    struct open_how  how;

    how = (struct open_how) {
        .flags = O_PATH|O_CLOEXEC,
        .resolve = RESOLVE_IN_ROOT|RESOLVE_NO_MAGICLINKS
    };

    tries = TRUST_TRIES;

    /* EAGAIN: somebody mounted or renamed something while ".." was followed */

    do {
        fd = (int) syscall(SYS_openat2, s->root, path, &how, sizeof(how));
    } while (fd == -1 && errno == EAGAIN && --tries);

    if (fd == -1) {
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 : -1;
    }

    if (fstat(fd, &theirs) != 0 || fstatat(s->root, source, &ours, 0) != 0) {
        return -1;
    }

    if (!S_ISREG(theirs.st_mode)
        || (theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino))
    {
        return close(fd);
    }

    tree = sys_open_tree(s->root, source, OPEN_TREE_CLONE|OPEN_TREE_CLOEXEC);

    if (tree == -1
        || mount_attr(tree, RDONLY|NOSUID|NODEV|NOEXEC, 0) != 0
        || sys_move_mount(tree, "", fd, "", MOVE_MOUNT_F_EMPTY_PATH
                                            |MOVE_MOUNT_T_EMPTY_PATH) != 0)
    {
        return -1;
    }

    (void) close(tree);

    return close(fd);
}
