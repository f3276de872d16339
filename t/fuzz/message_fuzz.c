/*
 * A line of the control protocol: whatever comes, it is refused with a
 * sentence or read as an object whose keys are what the table says.
 */

#include "fuzz.h"

#include "parse/message.h"


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char           err[MESSAGE_ERROR_MAX];
    json_t        *object;
    const char    *op;
    message_op_t   kind;

    memset(err, 0xff, sizeof(err));

    object = message_parse(data, n, &kind, err);

    if (object == NULL) {

        if (memchr(err, '\0', sizeof(err)) == NULL || err[0] == '\0') {
            abort();
        }

        return 0;
    }

    op = json_string_value(json_object_get(object, "op"));

    if (op == NULL || kind >= MESSAGE_OPS
        || strcmp(op, message_op_name(kind)) != 0)
    {
        abort();
    }

    json_decref(object);

    return 0;
}
