/*
 * Sealed values: name = {gcm1}BASE64(nonce, text, tag), AES-256-GCM with a
 * nonce of 12 random bytes and a tag of 16.  The entry's name is the associated
 * data, so that a value that is moved to another name does not open.
 *
 * A tag does not say why it is wrong.  Whoever reads the message wants to know
 * whether the key or the line is, so the other entries are tried: one that
 * opens clears the key, and one whose name opens the value tells where it is
 * from.
 */

#include <string.h>

#include <openssl/evp.h>
#include <openssl/rand.h>

#include "policy/vault_internal.h"


#define SEAL_LEN   (sizeof(VAULT_SEAL) - 1)
#define NONCE_LEN  12
#define TAG_LEN    16
#define BLOB_MAX   (NONCE_LEN + VAULT_VALUE_MAX + TAG_LEN)
#define BASE64_MAX ((BLOB_MAX + 2) / 3 * 4)

_Static_assert(SEAL_LEN + BASE64_MAX <= VAULT_SEALED_MAX,
               "a sealed value has room");


/* What is between the text and the opened value; cleansed after each use. */

typedef struct {
    unsigned char  blob[BASE64_MAX / 4 * 3];
    unsigned char  again[BASE64_MAX + 1];
    unsigned char  value[VAULT_VALUE_MAX];
} vault_seal_t;


static const char *vault_seal_decode(vault_seal_t *seal,
    const vault_line_t *line, size_t *len);
static bool vault_seal_open(vault_seal_t *seal, const unsigned char *key,
    const vault_line_t *name, size_t len);
static void vault_seal_explain(vault_seal_t *seal, const unsigned char *key,
    const vault_line_t *lines, size_t count, size_t wrong, size_t len,
    vault_bad_t *bad);


size_t
vault_seal_value(const unsigned char *key, const vault_line_t *line,
    char dst[VAULT_SEALED_MAX])
{
    int              n;
    bool             done;
    unsigned char    blob[BLOB_MAX], text[BASE64_MAX + 1];
    EVP_CIPHER_CTX  *ctx;

    ctx = EVP_CIPHER_CTX_new();

    done = ctx && RAND_bytes(blob, NONCE_LEN) == 1
           && EVP_EncryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, key, blob) == 1
           && EVP_EncryptUpdate(ctx, NULL, &n, line->name,
                                (int) line->name_len)
              == 1
           && EVP_EncryptUpdate(ctx, blob + NONCE_LEN, &n, line->value,
                                (int) line->value_len)
              == 1
           && EVP_EncryptFinal_ex(ctx, blob + NONCE_LEN + n, &n) == 1
           && EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, TAG_LEN,
                                  blob + NONCE_LEN + line->value_len)
              == 1;

    EVP_CIPHER_CTX_free(ctx);

    if (!done) {
        return 0;
    }

    n = EVP_EncodeBlock(text, blob,
                        (int) (NONCE_LEN + line->value_len + TAG_LEN));

    memcpy(dst, VAULT_SEAL, SEAL_LEN);
    memcpy(dst + SEAL_LEN, text, (size_t) n);

    return SEAL_LEN + (size_t) n;
}


int
vault_seal_open_lines(const unsigned char *key, vault_line_t *lines,
    size_t count, vault_memory_t *memory, vault_bad_t *bad)
{
    size_t           i, len, used;
    const char      *why;
    vault_seal_t    *seal;
    vault_memory_t   work;

    memset(bad, 0, sizeof(vault_bad_t));

    for (i = 0, len = 1; i < count; i++) {
        len += lines[i].value_len;              /* opened it is shorter */
    }

    if (vault_memory_alloc(memory, len) != 0) {
        bad->why = "no memory";
        return -1;
    }

    if (vault_memory_alloc(&work, sizeof(vault_seal_t)) != 0) {
        vault_memory_free(memory);
        bad->why = "no memory";
        return -1;
    }

    seal = (vault_seal_t *) work.data;

    /* lines[] is changed only when all of them have opened */

    for (i = 0, used = 0; i < count; i++) {

        why = vault_seal_decode(seal, &lines[i], &len);

        if (why == NULL && !vault_seal_open(seal, key, &lines[i], len)) {
            vault_seal_explain(seal, key, lines, count, i, len, bad);
            why = bad->why;
        }

        if (why == NULL) {
            why = vault_lines_judge_value(seal->value, len);
        }

        if (why) {
            bad->why = why;
            bad->number = lines[i].number;
            bad->name = lines[i].name;
            bad->name_len = lines[i].name_len;
            break;
        }

        memcpy(memory->data + used, seal->value, len);
        used += len;
    }

    for (i = 0, used = 0; bad->why == NULL && i < count; i++) {
        len = 0;
        (void) vault_seal_decode(seal, &lines[i], &len);
        lines[i].value = memory->data + used;
        lines[i].value_len = len;
        used += len;
    }

    vault_memory_free(&work);

    if (bad->why) {
        vault_memory_free(memory);
        return -1;
    }

    return 0;
}


/* NULL, or why not: blob has nonce, text and tag; *len is the text's. */

static const char *
vault_seal_decode(vault_seal_t *seal, const vault_line_t *line, size_t *len)
{
    size_t                n;
    const unsigned char  *p;

    if (!vault_lines_is_sealed(line)) {
        return "the value is not sealed, and with a key all must be: run "
               "\"agent-vault seal\"";
    }

    p = line->value + SEAL_LEN;
    n = line->value_len - SEAL_LEN;

    if (n > BASE64_MAX) {
        return "the sealed value is longer than one of 4096 characters";
    }

    if (n % 4) {
        return "the text behind {gcm1} is cut, or is not base64: its length "
               "is not a multiple of 4";
    }

    /* it takes what is not canonical: the text is made again, and compared */

    if (n == 0 || EVP_DecodeBlock(seal->blob, p, (int) n) < 0) {
        return n ? "the text behind {gcm1} is not base64"
                 : "there is nothing behind {gcm1}";
    }

    *len = n / 4 * 3 - (p[n - 1] == '=') - (p[n - 2] == '=');

    if ((size_t) EVP_EncodeBlock(seal->again, seal->blob, (int) *len) != n
        || memcmp(seal->again, p, n) != 0)
    {
        return "the text behind {gcm1} is not base64";
    }

    if (*len < NONCE_LEN + VAULT_VALUE_MIN + TAG_LEN) {
        return "the text behind {gcm1} is cut: it is shorter than any sealed "
               "value";
    }

    *len -= NONCE_LEN + TAG_LEN;

    return NULL;
}


/* Does the blob open under this name?  Then seal->value has its len bytes. */

static bool
vault_seal_open(vault_seal_t *seal, const unsigned char *key,
    const vault_line_t *name, size_t len)
{
    int              n;
    bool             done;
    unsigned char    rest[16];
    EVP_CIPHER_CTX  *ctx;

    if (len > VAULT_VALUE_MAX) {
        return false;
    }

    ctx = EVP_CIPHER_CTX_new();

    done = ctx
           && EVP_DecryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, key, seal->blob)
              == 1
           && EVP_DecryptUpdate(ctx, NULL, &n, name->name,
                                (int) name->name_len)
              == 1
           && EVP_DecryptUpdate(ctx, seal->value, &n, seal->blob + NONCE_LEN,
                                (int) len)
              == 1
           && EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, TAG_LEN,
                                  seal->blob + NONCE_LEN + len)
              == 1
           && EVP_DecryptFinal_ex(ctx, rest, &n) == 1;

    EVP_CIPHER_CTX_free(ctx);

    return done;
}


/* The blob has the len bytes of lines[wrong], which do not open. */

static void
vault_seal_explain(vault_seal_t *seal, const unsigned char *key,
    const vault_line_t *lines, size_t count, size_t wrong, size_t len,
    vault_bad_t *bad)
{
    size_t  i;

    for (i = 0; i < count; i++) {

        if (i != wrong && vault_seal_open(seal, key, &lines[i], len)) {
            bad->why = "the value was sealed for another entry, and does not "
                       "open as this one: it is that of";
            bad->origin = &lines[i];
            return;
        }
    }

    for (i = 0; i < count; i++) {

        if (i != wrong && vault_seal_decode(seal, &lines[i], &len) == NULL
            && vault_seal_open(seal, key, &lines[i], len))
        {
            bad->why = "the value was changed or cut, or was sealed for "
                       "another name or key; other entries open with this key";
            return;
        }
    }

    bad->why = "the value does not open, and no other entry does: this is not "
               "the key that it was sealed with";
}
