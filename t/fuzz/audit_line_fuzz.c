/*
 * The input is a list of steps with their bytes.  Whatever they are, the line
 * is one line of JSON of at most 4096 bytes.
 */

#include <jansson.h>

#include "fuzz.h"

#include "audit/audit_line.h"


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char           keys[64][8];
    size_t         i, n, len, key;
    json_t        *object;
    json_error_t   e;

    static audit_line_t  line;

    audit_line_begin(&line);
    key = 0;

    for (i = 0; i + 3 <= size && key < 64; i += 3 + len) {

        len = data[i + 1];
        len = len * 16;                 /* a few long values fill a line */

        if (len > size - i - 3) {
            len = size - i - 3;
        }

        (void) snprintf(keys[key], sizeof(keys[key]), "k%zu", key);

        switch (data[i] % 7) {

        case 0:
        case 1:
            audit_line_text(&line, keys[key], data + i + 3, len,
                            (size_t) data[i + 2] * 16);
            break;

        case 2:
            audit_line_number(&line, keys[key], (int64_t) len - 1000);
            break;

        case 3:
            audit_line_bool(&line, keys[key], data[i + 2] & 1);
            break;

        case 4:
            audit_line_text(&line, keys[key], NULL, 0, 0);
            break;

        case 5:
            audit_line_open(&line, keys[key]);
            break;

        default:
            audit_line_close(&line);
            break;
        }

        key++;
    }

    n = audit_line_end(&line);

    must(n >= 3 && n <= AUDIT_LINE_MAX);
    must(line.text[n - 1] == '\n');

    for (i = 0; i < n - 1; i++) {
        must(line.text[i] >= 0x20 && line.text[i] < 0x7f);
    }

    object = json_loadb(line.text, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL,
                        &e);
    must(json_is_object(object));
    json_decref(object);

    return 0;
}
