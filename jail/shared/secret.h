/*
 * What looks like a credential: the one list of known tokens, and the one
 * measure of unknown ones.  A text that looks like one is never printed, and
 * not taken for a name.
 *
 * A word is a run of letters, digits, "_", "-", "." and "+".  It looks like a
 * credential when it has at least 16 bytes and
 *
 *   - begins as a known kind of token does, and is as long as these are, or
 *   - at least 8 of its bytes are in parts that are not readable.
 *
 * Its parts are what "_", "-", "." and "+" separate.  One is readable when it
 * is a number that may have a unit of 2 letters, or letters that may end in 4
 * digits: up to 20 of one case, or words of at least 3 letters with a capital
 * each (internalApiKey).  Random text is not: of 24 letters and digits 1 text
 * in 100,000 is readable, of 16 one in 3,000 (in 100 if all are small letters).
 * A passphrase of words is, like a name; nothing tells them apart.
 */

#pragma once

#include <stdbool.h>
#include <stddef.h>


#define SECRET_MIN  16          /* bytes; nothing shorter is a credential */


/* Each such word of the text becomes "(not shown)", which is shorter. */
void secret_hide(char *text);

/* Is any of its words one?  The text needs no NUL. */
bool secret_is_in(const char *text, size_t n);

/* Is a word one for certain: of a known kind, and not readable? */
bool secret_is_token(const char *p, size_t n);


/* secret_scan.c */

/*
 * What a long text has of credentials that are certain: "a token", "a private
 * key" or "an address with a password"; NULL: nothing.  A quarter of a
 * millisecond a MiB.
 */
const char *secret_scan(const char *text, size_t n);


/* secret_names.c */

/* Does the name of a variable mean a secret?  GITHUB_TOKEN, apiKey */
bool secret_is_name(const char *name);

/* Does the name of a file?  ".env", "id_rsa", ".aws/credentials" */
bool secret_is_file(const char *path);
