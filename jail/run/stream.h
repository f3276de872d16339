/*
 * One direction of a pipe between the caller and the box: a bounded buffer
 * with a reading and a writing end.  Neither the caller nor the box ever gets
 * the other's descriptor, and neither can make the launcher wait.
 */

#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "run/terminal.h"


#define STREAM_BUFFER  65536


typedef struct {
    int         from;                   /* -1: it has ended */
    int         to;                     /* -1: nobody takes it any more */
    bool        is_terminal;            /* `to` is one: text is filtered */
    terminal_t  terminal;
    size_t      start;
    size_t      end;
    char        buf[STREAM_BUFFER + TERMINAL_SLACK];
} stream_t;


void stream_init(stream_t *stream, int from, int to);

/* What it waits for: two entries, whose descriptors may be -1. */
void stream_poll(const stream_t *stream, struct pollfd fds[2]);

/*
 * Reads and writes what poll(2) found; the number of bytes read.  An end that
 * is gone becomes -1: the caller closes what it gave.
 */
uint64_t stream_step(stream_t *stream, const struct pollfd fds[2]);

/* Nothing is held and nothing will come. */
bool stream_is_done(const stream_t *stream);

/* The writing end is given up, with what was held for it. */
void stream_drop(stream_t *stream);
