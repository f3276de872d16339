/*
 * The vault.  Two things are guarded: who can read or replace the file
 * (vault_file.c), and that no byte of a value gets anywhere but into the
 * packed form.
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* O_PATH */
#endif

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "policy/vault_internal.h"


struct vault_s {
    vault_memory_t  packed;
};


static vault_t *vault_load_text(const char *path, uid_t owner,
    const unsigned char *key, char err[VAULT_ERROR_MAX]);
static vault_t *vault_make(vault_line_t *lines, size_t count);


vault_t *
vault_load(const char *path, const char *key_path, uid_t owner,
    char err[VAULT_ERROR_MAX])
{
    vault_t         *vault;
    vault_memory_t   key;

    if (key_path == NULL) {
        return vault_load_text(path, owner, NULL, err);
    }

    if (vault_file_key(key_path, owner, &key, err) != 0) {
        return NULL;
    }

    vault = vault_load_text(path, owner, key.data, err);

    vault_memory_free(&key);

    return vault;
}


static vault_t *
vault_load_text(const char *path, uid_t owner, const unsigned char *key,
    char err[VAULT_ERROR_MAX])
{
    int              fd, dir;
    size_t           n;
    vault_t         *vault;
    struct stat      st;
    vault_memory_t   text;

    static const char  what[] = "vault";

    dir = vault_file_directory(what, path, O_PATH, owner, err);
    if (dir == -1) {
        return NULL;
    }

    fd = vault_file_open(what, path, dir, owner, &st, err);
    (void) close(dir);

    if (fd == -1) {
        return NULL;
    }

    vault = NULL;

    if (vault_file_read(what, path, fd, &st, &text, &n, err) == 0) {
        vault = vault_parse(path, text.data, n, key, err);
        vault_memory_free(&text);
    }

    (void) close(fd);

    return vault;
}


vault_t *
vault_parse(const char *name, const unsigned char *p, size_t n,
    const unsigned char *key, char err[VAULT_ERROR_MAX])
{
    size_t           i, count;
    vault_t         *vault;
    vault_bad_t      bad;
    vault_line_t    *lines;
    vault_memory_t   opened;

    opened.data = NULL;
    vault = NULL;

    lines = vault_lines(p, n, &count, &bad);

    if (lines == NULL) {
        vault_bad_say(name, &bad, err);
        return NULL;
    }

    for (i = 0; key == NULL && i < count; i++) {

        if (vault_lines_is_sealed(&lines[i])) {
            bad.why = "the value is sealed: name its key, \"agent_vault FILE "
                      "key=KEYFILE\"";
            bad.number = lines[i].number;
            bad.name = lines[i].name;
            bad.name_len = lines[i].name_len;
            break;
        }
    }

    if (key) {
        (void) vault_seal_open_lines(key, lines, count, &opened, &bad);
    }

    if (bad.why == NULL) {
        vault = vault_make(lines, count);

        if (vault == NULL) {
            bad.why = "no memory";
        }
    }

    if (bad.why) {
        vault_bad_say(name, &bad, err);
    }

    vault_memory_free(&opened);
    free(lines);

    return vault;
}


static vault_t *
vault_make(vault_line_t *lines, size_t count)
{
    vault_t  *vault;

    vault = calloc(1, sizeof(vault_t));

    if (vault == NULL
        || vault_memory_alloc(&vault->packed, vault_packed_size(lines, count))
           != 0)
    {
        free(vault);
        return NULL;
    }

    vault_packed_sort(lines, count);
    vault_packed_make(lines, count, vault->packed.data);

    return vault;
}


void
vault_free(vault_t *vault)
{
    if (vault) {
        vault_memory_free(&vault->packed);
        free(vault);
    }
}


size_t
vault_count(const vault_t *vault)
{
    return vault_packed_count(vault->packed.data, vault->packed.size);
}


bool
vault_has(const vault_t *vault, const char *name)
{
    size_t  len;

    return vault_packed_find(vault->packed.data, vault->packed.size, name,
                             &len)
           != NULL;
}


bool
vault_is_pair(const vault_t *vault, const char *name)
{
    size_t                len;
    const unsigned char  *value;

    value = vault_packed_find(vault->packed.data, vault->packed.size, name,
                              &len);

    return value && memchr(value, ':', len) != NULL;
}


size_t
vault_pack(const vault_t *vault, unsigned char *dst, size_t cap)
{
    if (vault->packed.size <= cap) {
        memcpy(dst, vault->packed.data, vault->packed.size);
    }

    return vault->packed.size;
}
