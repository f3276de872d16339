/*
 * Text for a terminal, without what a terminal obeys: a task must not set
 * the title, fill the clipboard, answer in its user's name, or hide what it
 * has written.
 */

#pragma once

#include <stddef.h>

#include "shared/utf8.h"


typedef enum {
    TERMINAL_TEXT = 0,
    TERMINAL_ESCAPE,            /* after ESC */
    TERMINAL_CSI,               /* after ESC [ : until a final byte */
    TERMINAL_STRING             /* after ESC ] and its like: until its end */
} terminal_state_t;


typedef struct {
    utf8_t            utf8;
    terminal_state_t  state;
} terminal_t;


#define TERMINAL_SLACK  4       /* bytes that may come out beyond those in */


/*
 * Filters n bytes into dst, which has room for n and TERMINAL_SLACK; the
 * number of bytes that came out.  Line feed, tab and carriage return stay;
 * what is not UTF-8 becomes "?".
 */
size_t terminal_filter(terminal_t *terminal, const char *data, size_t n,
    char *dst);
