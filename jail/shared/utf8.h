/*
 * UTF-8, decoded byte by byte, so that a character cut by the edge of a read
 * is put together again.  Overlong forms, surrogates and numbers beyond
 * U+10FFFF are invalid (RFC 3629, section 3).
 */

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>


typedef struct {
    unsigned char  bytes[4];    /* of the character being read */
    unsigned       have;
    unsigned       need;        /* 0: between characters */
} utf8_t;


typedef enum {
    UTF8_MORE = 0,              /* the character is not complete yet */
    UTF8_DONE,                  /* bytes[0..have) are one character */
    UTF8_BAD,                   /* one bad sequence ended with this byte */
    UTF8_BAD_AGAIN              /* it ended before this byte: feed it again */
} utf8_step_t;


/* After anything but UTF8_MORE the state is ready for the next character. */
utf8_step_t utf8_step(utf8_t *state, unsigned char byte);

/* Is the character of this number accepted? */
typedef bool (utf8_judge_pt)(uint32_t code);

/*
 * The len bytes are UTF-8, and is_fine, unless it is NULL, accepts each
 * character.  may_be_cut: the last character need not be complete.
 */
bool utf8_is_valid(const char *text, size_t len, utf8_judge_pt *is_fine,
    bool may_be_cut);

/* Valid UTF-8 without control characters (C0, DEL, C1). */
bool utf8_is_printable(const char *text);

/*
 * Copies text so that a terminal may show it: a backslash is doubled, and a
 * byte that is not part of a printable character, or changes the direction of
 * text, becomes \xNN.  Text that does not fit is cut between characters.
 */
void utf8_escape(const char *text, char *dst, size_t cap);
