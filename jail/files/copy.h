/*
 * Copying a file's content, and hashing it on the way.
 */

#pragma once

#include <stdint.h>

#define OPENSSL_SUPPRESS_DEPRECATED     /* EVP costs 1 ms of set-up */
#include <openssl/sha.h>


#define COPY_HASH_LEN  (2 * SHA256_DIGEST_LENGTH)       /* hex digits */


typedef enum {
    COPY_OK = 0,
    COPY_UNREAD,                        /* errno says why */
    COPY_UNWRITTEN,                     /* errno says why */
    COPY_TOO_LARGE                      /* errno is EFBIG */
} copy_result_t;


/*
 * Copies from the position of `in` to its end, to the position of `out`, as
 * data and holes: blocks of zeros take no room.  `out` -1: nothing is written.
 * *size becomes the number of bytes, at most max; hash gets their SHA-256,
 * unless it is NULL.
 */
copy_result_t copy_file(int in, int out, uint64_t max, uint64_t *size,
    unsigned char hash[SHA256_DIGEST_LENGTH]);

/* The digits of a hash, and a NUL. */
void copy_hash_text(const unsigned char hash[SHA256_DIGEST_LENGTH],
    char text[COPY_HASH_LEN + 1]);
