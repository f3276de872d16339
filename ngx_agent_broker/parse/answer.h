/*
 * Reads the head of an upstream's answer (HTTP/1.x) as its bytes come, and
 * refuses what is not one: two readers of what is accepted find the same end
 * of head and body.  RFC 9112 sections 2 to 6.
 */

#pragma once

#include <stdbool.h>
#include <stddef.h>


typedef enum {
    ANSWER_MORE = 0,            /* the head is not complete */
    ANSWER_DONE,
    ANSWER_BAD                  /* why says what it is not */
} answer_rc_t;


typedef struct {
    size_t                at;           /* read so far: whole lines; of the
                                           head when it is done */
    const char           *why;          /* a constant */

    unsigned              status;       /* 100 to 599 */
    bool                  is_1_0;       /* HTTP/1.0 */
    bool                  has_length;   /* Content-Length */
    bool                  chunked;
    bool                  upgrade;      /* Connection names it */
    unsigned              hops;         /* words of Connection */
    bool                  websocket;    /* Upgrade is just that */
    unsigned              upgrades;     /* Upgrade fields */
    unsigned              keep;         /* Keep-Alive's timeout in seconds, at
                                           most 3600; 0: it says none */
    const unsigned char  *accept;       /* Sec-WebSocket-Accept, the last; in
                                           the bytes that were read */
    size_t                accept_len;
    unsigned              accepts;      /* how many there are */
} answer_t;


/*
 * Reads on in the n bytes at p, which begin with the head's first byte: the
 * same as before, and more.  *a is all zero at first.
 */
answer_rc_t answer_read(const unsigned char *p, size_t n, answer_t *a);
