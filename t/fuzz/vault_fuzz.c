/*
 * A vault's text, and as well a packed vault.  A value that is found is
 * printable and long enough; a message shows no line of the text; a damaged
 * packed form gives nothing from outside.
 */

#include "fuzz.h"

#include "jail/shared/secret.h"
#include "policy/vault.h"


/* Takes the name between these words and a quote out of the message. */

static void
without_name(char *err, const char *before)
{
    char  *p, *end;

    p = strstr(err, before);

    if (p) {
        p += strlen(before);
        end = strchr(p, '"');
        must(end != NULL && end > p && end - p <= VAULT_NAME_MAX);
        must(!secret_is_in(p, (size_t) (end - p)));
        memmove(p, end, strlen(end) + 1);
    }
}


static void
check_error(const uint8_t *data, size_t size, char *err)
{
    size_t  i, n;

    n = strlen(err);
    must(n > 0 && n < VAULT_ERROR_MAX);

    /* of the text it may have the names of two entries */

    without_name(err, ", entry \"");
    without_name(err, "it is that of \"");
    n = strlen(err);

    /* twelve bytes of the text that are no words of ours */

    for (i = 0; i + 12 <= size; i++) {
        if (memchr(data + i, 'Z', 12) && memchr(data + i, 'Q', 12)) {
            must(memmem(err, n, data + i, 12) == NULL);
        }
    }
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char                   err[VAULT_ERROR_MAX], name[VAULT_NAME_MAX + 1];
    size_t                 i, k, n, len, packed_size;
    vault_t               *vault;
    unsigned char         *packed;
    const unsigned char   *value;

    err[0] = '\0';
    vault = vault_parse("v", data, size, NULL, err);

    if (vault == NULL) {
        check_error(data, size, err);

    } else {

        packed_size = vault_pack(vault, NULL, 0);
        packed = malloc(packed_size);
        must(vault_pack(vault, packed, packed_size) == packed_size);

        n = 0;

        /* every line that has an "=" names an entry, if it is no comment */

        for (i = 0; i < size; i++) {

            if (i > 0 && data[i - 1] != '\n') {
                continue;
            }

            while (i < size && (data[i] == ' ' || data[i] == '\t')) {
                i++;
            }

            for (k = 0; k < VAULT_NAME_MAX && i + k < size; k++) {
                if (data[i + k] == ' ' || data[i + k] == '\t'
                    || data[i + k] == '=' || data[i + k] == '\n')
                {
                    break;
                }

                name[k] = (char) data[i + k];
            }

            name[k] = '\0';

            if (k == 0 || name[0] == '#') {
                continue;
            }

            value = vault_packed_find(packed, packed_size, name, &len);
            must(value != NULL && vault_has(vault, name));
            must(len >= VAULT_VALUE_MIN && len <= VAULT_VALUE_MAX);
            must(value[0] != ' ' && value[len - 1] != ' ');

            for (k = 0; k < len; k++) {
                must(value[k] >= 0x20 && value[k] < 0x7f);
            }

            n++;
        }

        must(n == vault_count(vault));

        free(packed);
        vault_free(vault);
    }

    vault = vault_parse("v", data, size,
                        (const unsigned char *) "a key of 32 bytes, for "
                                                "sealed values", err);
    if (vault == NULL) {
        check_error(data, size, err);
    }

    vault_free(vault);

    value = vault_packed_find(data, size, "api_internal", &len);
    must(value == NULL || (value >= data && len <= size
                           && value + len <= data + size));

    return 0;
}
