/*
 * One copy loop for the caller's files, a workspace's and a task's.
 */

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "files/copy.h"


static int copy_write(int out, const char *buf, size_t n);


copy_result_t
copy_file(int in, int out, uint64_t max, uint64_t *size,
    unsigned char hash[SHA256_DIGEST_LENGTH])
{
    bool        ends_in_hole;
    ssize_t     n;
    SHA256_CTX  sha;

    static char        buf[65536];
    static const char  zeros[sizeof(buf)];

    *size = 0;
    ends_in_hole = false;
    (void) SHA256_Init(&sha);

    while ((n = read(in, buf, sizeof(buf))) != 0) {

        if (n == -1 && errno == EINTR) {
            continue;
        }

        if (n == -1) {
            return COPY_UNREAD;
        }

        /* it may have grown */

        if ((uint64_t) n > max - *size) {
            errno = EFBIG;
            return COPY_TOO_LARGE;
        }

        if (hash) {
            (void) SHA256_Update(&sha, buf, (size_t) n);
        }

        ends_in_hole = (memcmp(buf, zeros, (size_t) n) == 0);

        if (out != -1 && (ends_in_hole ? lseek(out, n, SEEK_CUR) == -1
                                       : copy_write(out, buf, (size_t) n) != 0))
        {
            return COPY_UNWRITTEN;
        }

        *size += (uint64_t) n;
    }

    if (out != -1 && ends_in_hole
        && ftruncate(out, lseek(out, 0, SEEK_CUR)) != 0)
    {
        return COPY_UNWRITTEN;
    }

    if (hash) {
        (void) SHA256_Final(hash, &sha);
    }

    return COPY_OK;
}


static int
copy_write(int out, const char *buf, size_t n)
{
    ssize_t  rc;

    for ( /* void */ ; n > 0; buf += rc, n -= (size_t) rc) {
        rc = write(out, buf, n);

        if (rc == -1) {

            if (errno != EINTR) {
                return -1;
            }

            rc = 0;
        }
    }

    return 0;
}


void
copy_hash_text(const unsigned char hash[SHA256_DIGEST_LENGTH],
    char text[COPY_HASH_LEN + 1])
{
    unsigned  i;

    for (i = 0; i < SHA256_DIGEST_LENGTH; i++) {
        (void) sprintf(text + 2 * i, "%02x", hash[i]);
    }
}
