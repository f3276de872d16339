/*
 * The vault's text.
 *
 * It is refused rather than repaired: a carriage return, a blank or an
 * invisible byte in a token would go out in a header, and a second entry of
 * one name would leave open which token is meant.
 *
 * A refusal says the line and, where it is surely a name, the entry.  Of a line
 * with its sides exchanged the token is on the left: what looks like one is
 * not taken for a name, and a name is not said that is long enough for a token
 * before a value that is too short for one.
 */

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "jail/shared/secret.h"
#include "policy/vault_internal.h"


#define EXAMPLE  "replace-this-with-the-token"


static bool vault_lines_duplicate(const vault_line_t *lines, size_t count,
    vault_bad_t *bad);
static int compare_lines(const void *a, const void *b);
static const char *parse_line(const unsigned char *p, size_t n,
    vault_line_t *line, vault_bad_t *bad);
static const char *judge_bytes(const unsigned char *p, size_t n);
static const char *judge_scheme(const unsigned char *p, size_t n);
static bool is_name_byte(unsigned char c);
static bool is_blank(unsigned char c);


/* The words that a header has before a token, or a file before its text. */

static const struct {
    const char  *word;
    const char  *why;
} schemes[] = {
    { "Bearer", "the value begins with \"Bearer\": leave this word out, the "
                "broker adds it" },
    { "Basic", "the value begins with \"Basic\": leave this word out, and "
               "write what is behind it as USER:PASSWORD" },
    { "Token", "the value begins with \"Token\": leave this word out" },
    { "Authorization:", "the value begins with \"Authorization:\": write only "
                        "the token" },
};


vault_line_t *
vault_lines(const unsigned char *p, size_t n, size_t *count, vault_bad_t *bad)
{
    size_t                 number;
    vault_line_t          *lines, line;
    const unsigned char   *end, *eol;

    memset(bad, 0, sizeof(vault_bad_t));

    /* an entry takes more than 16 bytes of text, so this is enough */

    lines = calloc(n / VAULT_VALUE_MIN + 1, sizeof(vault_line_t));

    if (lines == NULL) {
        bad->why = "no memory";
        return NULL;
    }

    *count = 0;
    end = p + n;

    for (number = 1; p < end; number++, p = eol + 1) {

        eol = memchr(p, '\n', (size_t) (end - p));

        if (eol == NULL) {
            eol = end;
        }

        memset(&line, 0, sizeof(vault_line_t));

        if (number == 1
            && ((eol - p >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0)
                || (eol - p >= 2 && (memcmp(p, "\xff\xfe", 2) == 0
                                     || memcmp(p, "\xfe\xff", 2) == 0))))
        {
            bad->why = "the file begins with a byte order mark: save it as "
                       "plain text without one";
        } else {
            bad->why = parse_line(p, (size_t) (eol - p), &line, bad);
        }

        if (bad->why) {
            bad->number = number;
            free(lines);
            return NULL;
        }

        if (line.name) {
            line.number = number;
            lines[(*count)++] = line;
        }
    }

    if (vault_lines_duplicate(lines, *count, bad)) {
        free(lines);
        return NULL;
    }

    return lines;
}


/* The first line whose name an earlier one has. */

static bool
vault_lines_duplicate(const vault_line_t *lines, size_t count,
    vault_bad_t *bad)
{
    size_t         i;
    vault_line_t  *sorted;

    if (count < 2) {
        return false;
    }

    sorted = malloc(count * sizeof(vault_line_t));

    if (sorted == NULL) {
        bad->why = "no memory";
        return true;
    }

    memcpy(sorted, lines, count * sizeof(vault_line_t));
    qsort(sorted, count, sizeof(vault_line_t), compare_lines);

    for (i = 1; i < count; i++) {

        if (sorted[i].name_len == sorted[i - 1].name_len
            && memcmp(sorted[i].name, sorted[i - 1].name, sorted[i].name_len)
               == 0)
        {
            bad->why = "the same name as in line";
            bad->number = sorted[i].number;
            bad->other = sorted[i - 1].number;
            bad->name = sorted[i].name;
            bad->name_len = sorted[i].name_len;
            break;
        }
    }

    free(sorted);

    return bad->why != NULL;
}


/* Equal names are together, in the order of their lines. */

static int
compare_lines(const void *a, const void *b)
{
    int                  rc;
    const vault_line_t  *x, *y;

    x = a;
    y = b;

    if (x->name_len != y->name_len) {
        return x->name_len < y->name_len ? -1 : 1;
    }

    rc = memcmp(x->name, y->name, x->name_len);

    return rc ? rc : (x->number > y->number) - (x->number < y->number);
}


const char *
vault_lines_judge_name(const unsigned char *p, size_t n)
{
    size_t  i;

    if (n == 0) {
        return "there is no name before the \"=\"";
    }

    for (i = 0; i < n; i++) {
        if (!is_name_byte(p[i])) {
            return "the name has something else than letters, digits, \"_\", "
                   "\".\" and \"-\": write NAME = VALUE";
        }
    }

    if ((p[0] >= '0' && p[0] <= '9') || p[0] == '.' || p[0] == '-') {
        return "the name does not begin with a letter or \"_\"";
    }

    if (n > VAULT_NAME_MAX) {
        return "the name is longer than 64 characters";
    }

    if (secret_is_in((const char *) p, n)) {
        return "what is before the \"=\" looks like a token: write NAME = "
               "VALUE, and a name of readable words";
    }

    return NULL;
}


const char *
vault_lines_judge_value(const unsigned char *p, size_t n)
{
    size_t       i;
    const char  *why;

    if (n == 0) {
        return "there is no value behind the \"=\"";
    }

    why = judge_bytes(p, n);

    if (why) {
        return why;
    }

    if (n >= 2 && (p[0] == '"' || p[0] == '\'') && p[n - 1] == p[0]) {
        return "the value is in quotes, which would be sent as a part of it: "
               "write it without";
    }

    if (n == sizeof(EXAMPLE) - 1 && memcmp(p, EXAMPLE, n) == 0) {
        return "the value is still that of vault.example: put the token in "
               "its place, or take this line out of the vault";
    }

    why = judge_scheme(p, n);

    if (why) {
        return why;
    }

    for (i = 0; i < n; i++) {
        if (is_blank(p[i])) {
            return "the value has a blank in it: write only the token, and a "
                   "comment in a line of its own";
        }
    }

    if (n < VAULT_VALUE_MIN) {
        return "the value is shorter than 16 characters";
    }

    if (n > VAULT_VALUE_MAX) {
        return "the value is longer than 4096 characters";
    }

    return NULL;
}


bool
vault_lines_is_sealed(const vault_line_t *line)
{
    return line->value_len >= sizeof(VAULT_SEAL) - 1
           && memcmp(line->value, VAULT_SEAL, sizeof(VAULT_SEAL) - 1) == 0;
}


/* NULL, with line->name NULL for a line without an entry, or a phrase. */

static const char *
parse_line(const unsigned char *p, size_t n, vault_line_t *line,
    vault_bad_t *bad)
{
    size_t                i, end;
    const char           *why;
    const unsigned char  *equals;

    for (i = 0; i < n && is_blank(p[i]); i++) { /* void */ }

    if (memchr(p, '\0', n)) {
        return "there is a NUL byte: the vault is a text file";
    }

    if (i == n || p[i] == '#') {
        return NULL;
    }

    if (memchr(p, '\r', n)) {
        return "there is a carriage return: lines must end in a newline only";
    }

    equals = memchr(p, '=', n);

    if (equals == NULL) {
        return "there is no \"=\": write NAME = VALUE";
    }

    for (end = (size_t) (equals - p); end > i && is_blank(p[end - 1]); end--) {
        /* void */
    }

    why = vault_lines_judge_name(p + i, end - i);

    if (why) {
        return why;
    }

    line->name = p + i;
    line->name_len = end - i;

    i = (size_t) (equals - p) + 1;

    while (i < n && is_blank(p[i])) {
        i++;
    }

    while (n > i && is_blank(p[n - 1])) {
        n--;
    }

    line->value = p + i;
    line->value_len = n - i;

    why = vault_lines_is_sealed(line) ? judge_bytes(line->value, n - i)
                                      : vault_lines_judge_value(p + i, n - i);

    if (why
        && (line->name_len < SECRET_MIN || line->value_len >= SECRET_MIN))
    {
        bad->name = line->name;
        bad->name_len = line->name_len;
    }

    return why;
}


static const char *
judge_bytes(const unsigned char *p, size_t n)
{
    size_t  i;

    for (i = 0; i < n; i++) {

        if (p[i] > 0x7e) {
            return "the value has a character that is not ASCII";
        }

        if (p[i] == '\0' || p[i] == '\r' || p[i] == '\n') {
            return "the value is not one line of text";
        }

        if (p[i] < 0x20 && p[i] != '\t') {
            return "the value has a control character";
        }
    }

    return NULL;
}


static const char *
judge_scheme(const unsigned char *p, size_t n)
{
    size_t  i, len;

    for (i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {

        len = strlen(schemes[i].word);

        if (n > len && (is_blank(p[len]) || p[len - 1] == ':')
            && strncasecmp((const char *) p, schemes[i].word, len) == 0)
        {
            return schemes[i].why;
        }
    }

    return NULL;
}


static bool
is_name_byte(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'
           || (c >= '0' && c <= '9') || c == '.' || c == '-';
}


static bool
is_blank(unsigned char c)
{
    return c == ' ' || c == '\t';
}
