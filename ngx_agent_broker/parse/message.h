/*
 * Reads one line of the control protocol: one JSON object with a known "op"
 * and no key that the op does not have, each of its type and within its
 * size.  What is read can be used without looking at it again.
 */

#pragma once

#include <stddef.h>

#include <jansson.h>


typedef enum {
    MESSAGE_OPEN = 0,
    MESSAGE_SERVE,
    MESSAGE_RESUME,
    MESSAGE_NEAR_LIMIT,
    MESSAGE_CLOSE,
    MESSAGE_POLICY,
    MESSAGE_ASK,
    MESSAGE_HEALTH,
    MESSAGE_OPS
} message_op_t;


#define MESSAGE_ERROR_MAX  128


/*
 * n bytes of a line without its newline.  The object, which the caller
 * releases with json_decref(), or NULL with one sentence in err.
 */
json_t *message_parse(const unsigned char *p, size_t n, message_op_t *op,
    char err[MESSAGE_ERROR_MAX]);

/* "open", ... */
const char *message_op_name(message_op_t op);
