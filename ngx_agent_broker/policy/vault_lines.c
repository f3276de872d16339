/*
 * The vault's text and its packed form.
 *
 * The text is refused rather than repaired: a carriage return, a tab or an
 * invisible byte in a token would go out in a header, and a second entry of
 * one name would leave open which token is meant.
 *
 * Packed, the vault has no pointers, so that it can be kept in shared memory:
 *
 *     u32 magic, u32 count
 *     count times: u32 offset of the entry
 *     each entry: u16 name_len, u16 value_len, name, value
 *
 * in the machine's byte order, sorted by name, searched by halves.  It is
 * read with every offset and length checked: a segment that was damaged
 * yields no value, never bytes from somewhere else.
 */

#include <stdlib.h>
#include <string.h>

#include "policy/vault_internal.h"


#define PACKED_MAGIC  0x56415531U
#define HEADER_SIZE   8
#define OFFSET_SIZE   4
#define ENTRY_SIZE    4

#define EXAMPLE       "replace-this-with-the-token"


static const char *parse_line(const unsigned char *p, size_t n,
    vault_line_t *line);
static int compare_lines(const void *a, const void *b);
static int compare_names(const unsigned char *a, size_t a_len,
    const unsigned char *b, size_t b_len);
static bool packed_entry(const unsigned char *packed, size_t n, size_t i,
    vault_line_t *entry);
static bool is_name_byte(unsigned char c, bool first);
static bool is_blank(unsigned char c);


vault_line_t *
vault_lines(const unsigned char *p, size_t n, size_t *count,
    vault_line_t *bad, const char **why)
{
    size_t                 i, number;
    vault_line_t          *lines, line;
    const unsigned char   *end, *eol;

    memset(bad, 0, sizeof(vault_line_t));

    /* an entry takes more than 16 bytes of text, so this is enough */

    lines = calloc(n / VAULT_VALUE_MIN + 1, sizeof(vault_line_t));

    if (lines == NULL) {
        *why = "no memory";
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

        *why = parse_line(p, (size_t) (eol - p), &line);

        if (*why) {
            bad->number = number;
            goto failed;
        }

        if (line.name) {
            line.number = number;
            lines[(*count)++] = line;
        }
    }

    if (*count) {
        qsort(lines, *count, sizeof(vault_line_t), compare_lines);
    }

    for (i = 1; i < *count; i++) {
        if (compare_names(lines[i - 1].name, lines[i - 1].name_len,
                          lines[i].name, lines[i].name_len)
            == 0)
        {
            *why = "the same name as in line";
            bad->number = lines[i].number;
            bad->other = lines[i - 1].number;
            goto failed;
        }
    }

    return lines;

failed:

    free(lines);

    return NULL;
}


size_t
vault_packed_size(const vault_line_t *lines, size_t count)
{
    size_t  i, size;

    size = HEADER_SIZE + count * (OFFSET_SIZE + ENTRY_SIZE);

    for (i = 0; i < count; i++) {
        size += lines[i].name_len + lines[i].value_len;
    }

    return size;
}


void
vault_pack_lines(const vault_line_t *lines, size_t count, unsigned char *dst)
{
    size_t    i;
    uint16_t  len;
    uint32_t  word, offset;

    word = PACKED_MAGIC;
    memcpy(dst, &word, 4);
    word = (uint32_t) count;
    memcpy(dst + 4, &word, 4);

    offset = (uint32_t) (HEADER_SIZE + count * OFFSET_SIZE);

    for (i = 0; i < count; i++) {

        memcpy(dst + HEADER_SIZE + i * OFFSET_SIZE, &offset, 4);

        len = (uint16_t) lines[i].name_len;
        memcpy(dst + offset, &len, 2);
        len = (uint16_t) lines[i].value_len;
        memcpy(dst + offset + 2, &len, 2);

        offset += ENTRY_SIZE;
        memcpy(dst + offset, lines[i].name, lines[i].name_len);
        offset += (uint32_t) lines[i].name_len;
        memcpy(dst + offset, lines[i].value, lines[i].value_len);
        offset += (uint32_t) lines[i].value_len;
    }
}


size_t
vault_packed_count(const unsigned char *packed, size_t n)
{
    uint32_t  magic, count;

    if (n < HEADER_SIZE) {
        return 0;
    }

    memcpy(&magic, packed, 4);
    memcpy(&count, packed + 4, 4);

    if (magic != PACKED_MAGIC || count > (n - HEADER_SIZE) / OFFSET_SIZE) {
        return 0;
    }

    return count;
}


const unsigned char *
vault_packed_find(const unsigned char *packed, size_t n, const char *name,
    size_t *len)
{
    int           rc;
    size_t        low, high, middle;
    vault_line_t  entry;

    low = 0;
    high = vault_packed_count(packed, n);

    while (low < high) {

        middle = low + (high - low) / 2;

        if (!packed_entry(packed, n, middle, &entry)) {
            return NULL;
        }

        rc = compare_names((const unsigned char *) name, strlen(name),
                           entry.name, entry.name_len);

        if (rc == 0) {
            *len = entry.value_len;
            return entry.value;
        }

        if (rc < 0) {
            high = middle;

        } else {
            low = middle + 1;
        }
    }

    return NULL;
}


/* NULL, with line->name NULL for a line without an entry, or a phrase. */

static const char *
parse_line(const unsigned char *p, size_t n, vault_line_t *line)
{
    size_t  i, name, value;

    for (i = 0; i < n && is_blank(p[i]); i++) { /* void */ }

    if (i == n || p[i] == '#') {

        /* a comment may say what it likes, but in one line */

        if (memchr(p, '\0', n)) {
            return "a NUL byte: the vault is a text file";
        }

        return NULL;
    }

    name = i;

    while (i < n && is_name_byte(p[i], i == name)) {
        i++;
    }

    line->name_len = i - name;

    while (i < n && is_blank(p[i])) {
        i++;
    }

    if (line->name_len == 0 || i == n || p[i] != '=') {
        return "not NAME = VALUE, with a name of letters, digits, \"_\", "
               "\".\" and \"-\" that starts with a letter or \"_\"";
    }

    if (line->name_len > VAULT_NAME_MAX) {
        return "the name is longer than 64 bytes";
    }

    i++;

    while (i < n && is_blank(p[i])) {
        i++;
    }

    while (n > i && is_blank(p[n - 1])) {
        n--;
    }

    value = i;

    for ( /* void */ ; i < n; i++) {

        if (p[i] == '\r') {
            return "a carriage return: lines must end in a newline only";
        }

        if (p[i] < 0x20 || p[i] > 0x7e) {
            return "the value has a byte that is not printable ASCII";
        }
    }

    line->value_len = n - value;

    if (line->value_len >= 2 && (p[value] == '"' || p[value] == '\'')
        && p[n - 1] == p[value])
    {
        return "the value is in quotes, which would be sent as a part of it: "
               "write it without";
    }

    if (line->value_len == sizeof(EXAMPLE) - 1
        && memcmp(p + value, EXAMPLE, sizeof(EXAMPLE) - 1) == 0)
    {
        return "the value is still that of vault.example: put the token in "
               "its place, or take this line out of the vault";
    }

    if (line->value_len < VAULT_VALUE_MIN) {
        return "the value is shorter than 16 characters";
    }

    if (line->value_len > VAULT_VALUE_MAX) {
        return "the value is longer than 4096 characters";
    }

    line->name = p + name;
    line->value = p + value;

    return NULL;
}


/* Equal names in the order of their lines. */

static int
compare_lines(const void *a, const void *b)
{
    int                  rc;
    const vault_line_t  *x, *y;

    x = a;
    y = b;

    rc = compare_names(x->name, x->name_len, y->name, y->name_len);

    return rc ? rc : (x->number > y->number) - (x->number < y->number);
}


static int
compare_names(const unsigned char *a, size_t a_len, const unsigned char *b,
    size_t b_len)
{
    int  rc;

    rc = memcmp(a, b, a_len < b_len ? a_len : b_len);

    return rc ? rc : (a_len > b_len) - (a_len < b_len);
}


static bool
packed_entry(const unsigned char *packed, size_t n, size_t i,
    vault_line_t *entry)
{
    uint16_t  name_len, value_len;
    uint32_t  offset;

    memcpy(&offset, packed + HEADER_SIZE + i * OFFSET_SIZE, 4);

    if (offset > n || n - offset < ENTRY_SIZE) {
        return false;
    }

    memcpy(&name_len, packed + offset, 2);
    memcpy(&value_len, packed + offset + 2, 2);

    if (n - offset - ENTRY_SIZE < (size_t) name_len + value_len) {
        return false;
    }

    entry->name = packed + offset + ENTRY_SIZE;
    entry->name_len = name_len;
    entry->value = entry->name + name_len;
    entry->value_len = value_len;

    return true;
}


static bool
is_name_byte(unsigned char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'
           || (!first && ((c >= '0' && c <= '9') || c == '.' || c == '-'));
}


static bool
is_blank(unsigned char c)
{
    return c == ' ' || c == '\t';
}
