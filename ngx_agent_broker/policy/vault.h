/*
 * The vault: a file of named tokens that only the master reads.  Values are
 * never put into a message, a variable or a log.
 *
 *     # comment
 *     api_internal = sk_live_0123456789abcdef
 *
 * With a key every value is sealed (see vault_seal.c), without one none is:
 *
 *     api_internal = {gcm1}BASE64
 */

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>


#define VAULT_NAME_MAX   64     /* [A-Za-z0-9_.-], starts with a letter or _ */
#define VAULT_VALUE_MIN  16
#define VAULT_VALUE_MAX  4096   /* printable ASCII without blanks */
#define VAULT_FILE_MAX   (1024 * 1024)
#define VAULT_KEY_SIZE   32
#define VAULT_ERROR_MAX  1024


typedef struct vault_s  vault_t;


/*
 * Reads and checks the file, and that of the key if key_path is not NULL.
 * Each is opened O_NOFOLLOW|O_CLOEXEC|O_NONBLOCK, a regular file with one link,
 * of root or of `owner`, no group or other bits, on a local file system, in a
 * directory that nobody but root and `owner` can write (sticky does not help).
 * Returns NULL with one sentence in err (path, line, entry and cause, and the
 * command that fixes it, e.g. "chmod 600 PATH"), never with a value, nor with
 * a name that may be one.
 * The caller owns the result: vault_free cleanses it.
 */
vault_t *vault_load(const char *path, const char *key_path, uid_t owner,
    char err[VAULT_ERROR_MAX]);

/*
 * Only the parser: n bytes of a vault file; `name` is used in messages.  key
 * has VAULT_KEY_SIZE bytes, or is NULL.
 */
vault_t *vault_parse(const char *name, const unsigned char *p, size_t n,
    const unsigned char *key, char err[VAULT_ERROR_MAX]);

void vault_free(vault_t *vault);

size_t vault_count(const vault_t *vault);

bool vault_has(const vault_t *vault, const char *name);

/* Is the value NAME:PASSWORD?  RFC 7617 section 2. */
bool vault_is_pair(const vault_t *vault, const char *name);

/*
 * The pointer-free form for shared memory: writes at most cap bytes to dst
 * and returns the size needed (more than cap: nothing was written).
 */
size_t vault_pack(const vault_t *vault, unsigned char *dst, size_t cap);

/*
 * Finds a value in the packed form (bounds-checked against n).  The value is
 * not copied and has no NUL.  NULL when it is not there.
 */
const unsigned char *vault_packed_find(const unsigned char *packed, size_t n,
    const char *name, size_t *len);

/* Is any of the values in the text? */
bool vault_packed_is_in(const unsigned char *packed, size_t n,
    const char *text, size_t len);
