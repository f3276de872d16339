/*
 * Reads /etc/resolv.conf and /etc/hosts.  Both are the administrator's files,
 * so an address may have any spelling that inet_pton reads; a name must be one
 * that an authority could hold, for no other is ever asked for.  What comes
 * out of here goes through the address guard like any other answer.
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* qsort_r */
#endif

#include <arpa/inet.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "parse/authority.h"
#include "parse/system_names.h"


typedef struct {
    const char  *p;
    size_t       n;
} word_t;


typedef struct {
    size_t     name;            /* offset in names */
    size_t     order;           /* of the file */
    address_t  address;
} host_entry_t;


struct system_hosts_s {
    char          *names;       /* each ends in NUL */
    size_t         names_len;
    host_entry_t  *entries;     /* by name, then by order */
    size_t         count;
};


static int system_hosts_line(system_hosts_t *hosts, word_t line);
static int system_hosts_add(system_hosts_t *hosts, const authority_t *name,
    const address_t *address);
static size_t system_hosts_first(const system_hosts_t *hosts, const char *name);
static int system_hosts_compare(const void *a, const void *b, void *data);
static bool system_next_line(word_t *text, word_t *line);
static bool system_next_word(word_t *line, word_t *word);
static bool system_parse_address(word_t word, address_t *out);
static bool system_is_blank(char c);


size_t
system_nameservers_parse(const char *text, size_t n,
    address_t out[SYSTEM_NAMESERVERS_MAX])
{
    size_t  count;
    word_t  all, line, key, value;

    static const char  keyword[] = "nameserver";

    all.p = text;
    all.n = n;
    count = 0;

    while (count < SYSTEM_NAMESERVERS_MAX && system_next_line(&all, &line)) {

        /* the keyword is at the beginning of its line */

        if (line.n == 0 || line.p[0] == ' ' || line.p[0] == '\t'
            || !system_next_word(&line, &key)
            || key.n != sizeof(keyword) - 1
            || memcmp(key.p, keyword, key.n) != 0
            || !system_next_word(&line, &value)
            || !system_parse_address(value, &out[count]))
        {
            continue;
        }

        count++;
    }

    return count;
}


system_hosts_t *
system_hosts_parse(const char *text, size_t n)
{
    word_t           all, line;
    system_hosts_t  *hosts;

    hosts = calloc(1, sizeof(system_hosts_t));

    if (hosts == NULL) {
        return NULL;
    }

    /* a name of k bytes takes k + 1 in the text too, but for the last one */

    hosts->names = malloc(n + 1);

    if (hosts->names == NULL) {
        free(hosts);
        return NULL;
    }

    all.p = text;
    all.n = n;

    while (system_next_line(&all, &line)) {
        if (system_hosts_line(hosts, line) != 0) {
            system_hosts_free(hosts);
            return NULL;
        }
    }

    if (hosts->count) {
        qsort_r(hosts->entries, hosts->count, sizeof(host_entry_t),
                system_hosts_compare, hosts->names);
    }

    return hosts;
}


size_t
system_hosts_find(const system_hosts_t *hosts, const char *name,
    address_t *out, size_t max)
{
    size_t               i, k, first, count;
    const host_entry_t  *entry;

    first = system_hosts_first(hosts, name);
    count = 0;

    for (i = first; i < hosts->count; i++) {

        entry = &hosts->entries[i];

        if (strcmp(hosts->names + entry->name, name) != 0) {
            break;
        }

        for (k = first; k < i; k++) {
            if (hosts->entries[k].address.v6 == entry->address.v6
                && memcmp(hosts->entries[k].address.bytes,
                          entry->address.bytes, 16)
                   == 0)
            {
                break;
            }
        }

        if (k < i) {
            continue;                   /* the same line twice */
        }

        if (count < max) {
            out[count] = entry->address;
        }

        count++;
    }

    return count;
}


size_t
system_hosts_count(const system_hosts_t *hosts)
{
    return hosts->count;
}


void
system_hosts_free(system_hosts_t *hosts)
{
    if (hosts) {
        free(hosts->names);
        free(hosts->entries);
        free(hosts);
    }
}


static int
system_hosts_line(system_hosts_t *hosts, word_t line)
{
    word_t        word;
    address_t     address;
    const char   *comment;
    authority_t   name;

    comment = memchr(line.p, '#', line.n);

    if (comment) {
        line.n = (size_t) (comment - line.p);
    }

    if (!system_next_word(&line, &word)
        || !system_parse_address(word, &address))
    {
        return 0;
    }

    while (system_next_word(&line, &word)) {

        if (authority_parse_host((const unsigned char *) word.p, word.n, &name)
            != AUTHORITY_OK
            || name.kind != AUTHORITY_NAME)
        {
            continue;
        }

        if (system_hosts_add(hosts, &name, &address) != 0) {
            return -1;
        }
    }

    return 0;
}


static int
system_hosts_add(system_hosts_t *hosts, const authority_t *name,
    const address_t *address)
{
    void          *grown;
    size_t         count;
    host_entry_t  *entry;

    count = hosts->count;

    if ((count & (count - 1)) == 0) {

        grown = reallocarray(hosts->entries, count ? count * 2 : 1,
                             sizeof(host_entry_t));

        if (grown == NULL) {
            return -1;
        }

        hosts->entries = grown;
    }

    entry = &hosts->entries[count];
    entry->name = hosts->names_len;
    entry->order = count;
    entry->address = *address;

    memcpy(hosts->names + hosts->names_len, name->host,
           (size_t) name->host_len + 1);

    hosts->names_len += (size_t) name->host_len + 1;
    hosts->count++;

    return 0;
}


/* The first entry whose name is not before this one. */

static size_t
system_hosts_first(const system_hosts_t *hosts, const char *name)
{
    size_t  low, high, middle;

    low = 0;
    high = hosts->count;

    while (low < high) {

        middle = low + (high - low) / 2;

        if (strcmp(hosts->names + hosts->entries[middle].name, name) < 0) {
            low = middle + 1;

        } else {
            high = middle;
        }
    }

    return low;
}


static int
system_hosts_compare(const void *a, const void *b, void *data)
{
    int                  rc;
    const char          *names;
    const host_entry_t  *x, *y;

    x = a;
    y = b;
    names = data;

    rc = strcmp(names + x->name, names + y->name);

    return rc ? rc : (x->order > y->order) - (x->order < y->order);
}


static bool
system_next_line(word_t *text, word_t *line)
{
    const char  *eol;

    if (text->n == 0) {
        return false;
    }

    eol = memchr(text->p, '\n', text->n);

    line->p = text->p;
    line->n = eol ? (size_t) (eol - text->p) : text->n;

    text->p += line->n + (eol != NULL);
    text->n -= line->n + (eol != NULL);

    return true;
}


static bool
system_next_word(word_t *line, word_t *word)
{
    size_t  i, start;

    for (i = 0; i < line->n && system_is_blank(line->p[i]); i++) {
        /* void */
    }

    for (start = i; i < line->n && !system_is_blank(line->p[i]); i++) {
        /* void */
    }

    word->p = line->p + start;
    word->n = i - start;

    line->p += i;
    line->n -= i;

    return word->n != 0;
}


static bool
system_parse_address(word_t word, address_t *out)
{
    char  text[ADDRESS_TEXT_MAX];

    if (word.n >= sizeof(text) || memchr(word.p, '\0', word.n)) {
        return false;
    }

    memcpy(text, word.p, word.n);
    text[word.n] = '\0';

    memset(out, 0, sizeof(address_t));

    out->v6 = (memchr(word.p, ':', word.n) != NULL);

    return inet_pton(out->v6 ? AF_INET6 : AF_INET, text, out->bytes) == 1;
}


static bool
system_is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}
