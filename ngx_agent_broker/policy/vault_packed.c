/*
 * The packed form of the vault.  It has no pointers, so that it can be kept in
 * shared memory:
 *
 *     u32 magic, u32 count
 *     count times: u32 offset of the entry
 *     each entry: u16 name_len, u16 value_len, name, value
 *
 * in the machine's byte order, sorted by name, searched by halves.  It is
 * read with every offset and length checked: a segment that was damaged
 * yields no value, never bytes from somewhere else.
 */

#define _GNU_SOURCE                     /* memmem() */

#include <stdlib.h>
#include <string.h>

#include "policy/vault_internal.h"


#define PACKED_MAGIC  0x56415531U
#define HEADER_SIZE   8
#define OFFSET_SIZE   4
#define ENTRY_SIZE    4


static int compare_lines(const void *a, const void *b);
static int compare_names(const unsigned char *a, size_t a_len,
    const unsigned char *b, size_t b_len);
static bool packed_entry(const unsigned char *packed, size_t n, size_t i,
    vault_line_t *entry);


void
vault_packed_sort(vault_line_t *lines, size_t count)
{
    if (count) {
        qsort(lines, count, sizeof(vault_line_t), compare_lines);
    }
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
vault_packed_make(const vault_line_t *lines, size_t count, unsigned char *dst)
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


bool
vault_packed_is_in(const unsigned char *packed, size_t n, const char *text,
    size_t len)
{
    size_t        i, count;
    vault_line_t  entry;

    count = vault_packed_count(packed, n);

    for (i = 0; i < count; i++) {
        if (packed_entry(packed, n, i, &entry) && entry.value_len
            && memmem(text, len, entry.value, entry.value_len))
        {
            return true;
        }
    }

    return false;
}


static int
compare_lines(const void *a, const void *b)
{
    const vault_line_t  *x, *y;

    x = a;
    y = b;

    return compare_names(x->name, x->name_len, y->name, y->name_len);
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
