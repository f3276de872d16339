/*
 * The type follows from the content of the file, not from its name: the task
 * chose the name.  A small table; content that is neither in it nor text is
 * application/octet-stream.
 */

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "files/media_type.h"
#include "shared/utf8.h"


#define MEDIA_TYPE_UNKNOWN  "application/octet-stream"


typedef struct {
    const char  *type;
    const char  *magic;
    size_t       n;
} media_type_magic_t;


static const media_type_magic_t  media_type_magics[] = {
    { "image/png", "\x89PNG\r\n\x1a\n", 8 },
    { "image/jpeg", "\xff\xd8\xff", 3 },
    { "image/gif", "GIF87a", 6 },
    { "image/gif", "GIF89a", 6 },
    { "application/pdf", "%PDF-", 5 },
    { "application/zip", "PK\3\4", 4 },
    { "application/zip", "PK\5\6", 4 },         /* an empty one */
    { "application/gzip", "\x1f\x8b\x08", 3 },
};


static bool media_type_is_text(uint32_t code);
static bool media_type_is_json(const char *text, size_t n);
static bool media_type_begins(const char *text, size_t n, const char *word);
static const char *media_type_space(const char *text, const char *end);


const char *
media_type_of(const char *name, const unsigned char *head, size_t n)
{
    size_t               i, len;
    const char          *text, *end;
    const media_type_magic_t  *m;

    for (i = 0; i < sizeof(media_type_magics) / sizeof(media_type_magic_t);
         i++)
    {
        m = &media_type_magics[i];

        if (n >= m->n && memcmp(head, m->magic, m->n) == 0) {
            return m->type;
        }
    }

    if (!utf8_is_valid((const char *) head, n, media_type_is_text, true)) {
        return MEDIA_TYPE_UNKNOWN;
    }

    end = (const char *) head + n;
    text = media_type_space((const char *) head, end);
    len = (size_t) (end - text);

    if (media_type_begins(text, len, "<!doctype html")
        || media_type_begins(text, len, "<html"))
    {
        return "text/html";
    }

    if (media_type_begins(text, len, "<svg")
        || (media_type_begins(text, len, "<?xml")
            && memmem(text, len, "<svg", 4)))
    {
        return "image/svg+xml";
    }

    if (media_type_is_json(text, len)) {
        return "application/json";
    }

    len = strlen(name);

    if (len > 4 && strcasecmp(name + len - 4, ".csv") == 0) {
        return "text/csv";
    }

    return "text/plain";
}


/* The only control characters of text are those of lines and columns. */

static bool
media_type_is_text(uint32_t code)
{
    return code >= 0x20 || code == '\t' || code == '\n' || code == '\f'
           || code == '\r';
}


/* An object or an array, by its first two tokens: "[section]" is neither. */

static bool
media_type_is_json(const char *text, size_t n)
{
    char         first;
    const char  *end;

    if (n == 0 || (text[0] != '{' && text[0] != '[')) {
        return false;
    }

    first = text[0];
    end = text + n;
    text = media_type_space(text + 1, end);

    if (text == end) {
        return false;
    }

    if (first == '{') {
        return *text == '"' || *text == '}';
    }

    return strchr("\"{[]-0123456789", *text)
           || media_type_begins(text, (size_t) (end - text), "null")
           || media_type_begins(text, (size_t) (end - text), "true")
           || media_type_begins(text, (size_t) (end - text), "false");
}


static bool
media_type_begins(const char *text, size_t n, const char *word)
{
    size_t  len;

    len = strlen(word);

    return n >= len && strncasecmp(text, word, len) == 0;
}


static const char *
media_type_space(const char *text, const char *end)
{
    while (text < end && strchr(" \t\r\n", *text) && *text) {
        text++;
    }

    return text;
}
