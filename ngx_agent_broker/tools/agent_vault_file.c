/*
 * The file of a vault, changed by agent-vault.
 *
 * One at a time: a change begins with the lock of the directory, and ends with
 * the process.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include <openssl/rand.h>

#include "tools/agent_vault.h"


#define LOCK_TRIES  1000            /* of 10 ms */

static const char  what[] = "vault";


static int agent_vault_read(agent_vault_t *av, bool may_be_new,
    char err[VAULT_ERROR_MAX]);
static int agent_vault_parse(agent_vault_t *av, char err[VAULT_ERROR_MAX]);
static int agent_vault_lock(const char *path, int dir,
    char err[VAULT_ERROR_MAX]);
static size_t agent_vault_write_text(const agent_vault_t *av,
    const agent_vault_change_t *changes, const agent_vault_change_t *added,
    unsigned char *dst);
static size_t agent_vault_put(unsigned char *dst, size_t at, const void *p,
    size_t n);



int
agent_vault_open(agent_vault_t *av, const char *path, const char *key_path,
    bool is_change, bool may_be_new, char err[VAULT_ERROR_MAX])
{
    struct stat  st;
    const char  *slash;

    memset(av, 0, sizeof(agent_vault_t));

    slash = strrchr(path, '/');

    av->dir = -1;
    av->path = path;
    av->base = slash ? slash + 1 : path;

    /* root may look after the vault of a broker that another user starts */

    av->owner = (geteuid() == 0 && lstat(path, &st) == 0) ? st.st_uid
                                                          : geteuid();

    if (key_path && vault_file_key(key_path, av->owner, &av->key, err) != 0) {
        return -1;
    }

    av->dir = vault_file_directory(what, path, O_RDONLY, av->owner, err);

    if (av->dir == -1
        || (is_change && agent_vault_lock(path, av->dir, err) != 0)
        || agent_vault_read(av, may_be_new, err) != 0
        || agent_vault_parse(av, err) != 0)
    {
        return -1;
    }

    return 0;
}


int
agent_vault_open_values(agent_vault_t *av, char err[VAULT_ERROR_MAX])
{
    vault_bad_t  bad;

    av->values = malloc(av->count * sizeof(vault_line_t) + 1);

    if (av->values == NULL) {
        return vault_file_refuse(err, "no memory");
    }

    if (av->count) {
        memcpy(av->values, av->lines, av->count * sizeof(vault_line_t));
    }

    if (vault_seal_open_lines(av->key.data, av->values, av->count,
                              &av->opened, &bad)
        != 0)
    {
        vault_bad_say(av->path, &bad, err);
        return -1;
    }

    return 0;
}


void
agent_vault_close(agent_vault_t *av)
{
    vault_memory_free(&av->text);
    vault_memory_free(&av->key);
    vault_memory_free(&av->opened);

    free(av->lines);
    free(av->values);

    if (av->dir != -1) {
        (void) close(av->dir);
    }
}


static int
agent_vault_read(agent_vault_t *av, bool may_be_new, char err[VAULT_ERROR_MAX])
{
    int          fd, rc;
    struct stat  st;

    if (may_be_new
        && fstatat(av->dir, av->base, &st, AT_SYMLINK_NOFOLLOW) != 0
        && errno == ENOENT)
    {
        if (vault_memory_alloc(&av->text, 1) != 0) {
            return vault_file_refuse(err, "no memory");
        }

        return 0;
    }

    fd = vault_file_open(what, av->path, av->dir, av->owner, &av->st, err);
    if (fd == -1) {
        return -1;
    }

    rc = vault_file_read(what, av->path, fd, &av->st, &av->text, &av->n, err);
    av->exists = (rc == 0);

    (void) close(fd);

    return rc;
}


static int
agent_vault_parse(agent_vault_t *av, char err[VAULT_ERROR_MAX])
{
    size_t       i;
    vault_bad_t  bad;

    av->lines = vault_lines(av->text.data, av->n, &av->count, &bad);

    if (av->lines == NULL) {
        vault_bad_say(av->path, &bad, err);
        return -1;
    }

    for (i = 0; i < av->count; i++) {
        av->is_sealed |= vault_lines_is_sealed(&av->lines[i]);
    }

    return 0;
}


/* Waits for others for 10 seconds. */

static int
agent_vault_lock(const char *path, int dir, char err[VAULT_ERROR_MAX])
{
    int                           i;
    static const struct timespec  pause = { 0, 10 * 1000 * 1000 };

    for (i = 0; i < LOCK_TRIES; i++) {

        if (flock(dir, LOCK_EX | LOCK_NB) == 0) {

            if (unlinkat(dir, AGENT_VAULT_NEW, 0) != 0
                && faccessat(dir, AGENT_VAULT_NEW, F_OK, AT_SYMLINK_NOFOLLOW)
                   == 0)
            {
                return vault_file_refuse(err, "\"%s\", which was left beside "
                                         "\"%s\", cannot be removed: %s",
                                         AGENT_VAULT_NEW, path,
                                         strerror(errno));
            }

            return 0;
        }

        if (errno != EWOULDBLOCK && errno != EINTR) {
            break;
        }

        (void) nanosleep(&pause, NULL);
    }

    return vault_file_refuse(err, "the directory of \"%s\" cannot be locked: "
                             "%s", path,
                             errno == EWOULDBLOCK
                             ? "another process has had the lock for 10 s"
                             : strerror(errno));
}


int
agent_vault_replace(agent_vault_t *av, const agent_vault_change_t *changes,
    const agent_vault_change_t *added, agent_vault_as_t how,
    char err[VAULT_ERROR_MAX])
{
    int              rc;
    size_t           n, count;
    vault_t         *vault;
    vault_bad_t      bad;
    vault_line_t    *lines;
    vault_memory_t   text;

    n = agent_vault_write_text(av, changes, added, NULL);

    if (n > VAULT_FILE_MAX) {
        return vault_file_refuse(err, "vault \"%s\" would be larger than "
                                 "1 MiB", av->path);
    }

    if (vault_memory_alloc(&text, n + 1) != 0) {
        return vault_file_refuse(err, "no memory");
    }

    (void) agent_vault_write_text(av, changes, added, text.data);

    /* what nginx would refuse does not replace what it takes */

    if (how == AGENT_VAULT_AS_LINES) {
        lines = vault_lines(text.data, n, &count, &bad);
        rc = lines ? 0 : -1;
        free(lines);

        if (rc != 0) {
            vault_bad_say(av->path, &bad, err);
        }

    } else {
        vault = vault_parse(av->path, text.data, n,
                            how == AGENT_VAULT_WITH_KEY ? av->key.data
                                                        : NULL, err);
        rc = vault ? 0 : -1;
        vault_free(vault);
    }

    if (rc == 0) {
        rc = agent_vault_store(av->path, av->dir, av->base,
                               av->exists ? &av->st : NULL, text.data, n, err);
    }

    vault_memory_free(&text);

    return rc;
}


/* The length of the new text, which is written to dst unless it is NULL. */

static size_t
agent_vault_write_text(const agent_vault_t *av,
    const agent_vault_change_t *changes, const agent_vault_change_t *added,
    unsigned char *dst)
{
    size_t                i, n;
    const vault_line_t   *line;
    const unsigned char  *p, *last, *end;

    n = 0;
    p = av->text.data;
    last = p + av->n;

    for (i = 0; changes && i < av->count; i++) {

        line = &av->lines[i];

        if (changes[i].is_removed) {

            for (end = line->name; end > p && end[-1] != '\n'; end--) {
                /* void */
            }

            n = agent_vault_put(dst, n, p, (size_t) (end - p));
            p = memchr(line->value, '\n', (size_t) (last - line->value));
            p = p ? p + 1 : last;

        } else if (changes[i].text) {
            n = agent_vault_put(dst, n, p, (size_t) (line->value - p));
            n = agent_vault_put(dst, n, changes[i].text, changes[i].len);
            p = line->value + line->value_len;
        }
    }

    n = agent_vault_put(dst, n, p, (size_t) (last - p));

    if (added) {

        if (av->n && last[-1] != '\n') {
            n = agent_vault_put(dst, n, "\n", 1);
        }

        n = agent_vault_put(dst, n, added->text, added->len);
    }

    return n;
}


static size_t
agent_vault_put(unsigned char *dst, size_t at, const void *p, size_t n)
{
    if (dst && n) {
        memcpy(dst + at, p, n);
    }

    return at + n;
}


int
agent_vault_new_key(const char *path, char err[VAULT_ERROR_MAX])
{
    int              dir, rc;
    const char      *slash;
    vault_memory_t   key;

    dir = vault_file_directory("the vault's key", path, O_RDONLY, geteuid(),
                               err);
    if (dir == -1) {
        return -1;
    }

    if (vault_memory_alloc(&key, VAULT_KEY_SIZE) != 0) {
        (void) close(dir);
        return vault_file_refuse(err, "no memory");
    }

    slash = strrchr(path, '/');

    rc = agent_vault_lock(path, dir, err);

    if (rc == 0 && faccessat(dir, slash ? slash + 1 : path, F_OK,
                             AT_SYMLINK_NOFOLLOW)
                   == 0)
    {
        rc = vault_file_refuse(err, "\"%s\" is there already: nothing was "
                               "changed", path);
    }

    if (rc == 0 && RAND_bytes(key.data, VAULT_KEY_SIZE) != 1) {
        rc = vault_file_refuse(err, "there are no random bytes");
    }

    if (rc == 0) {
        rc = agent_vault_store(path, dir, slash ? slash + 1 : path, NULL,
                               key.data, VAULT_KEY_SIZE, err);
    }

    vault_memory_free(&key);
    (void) close(dir);

    return rc;
}
