/*
 * What is refused, and who reads it otherwise than a pattern would:
 *
 *   "/./", "/../"   resolved by clients, proxies and servers, at any point
 *   "//"            merged by some servers, an empty segment for others
 *   ";"             begins a parameter that Java's servers drop
 *   "\"             a slash for some
 *   %2F %5C %2E %3B the same, to a server that decodes before it splits
 *   %25             decoded twice by some, to any of these
 *   %00 to %1F %7F  end the text in C, or the line
 *   %C0 %AF         and other bytes that are not UTF-8: an overlong "/"
 */

#include <stdbool.h>
#include <string.h>

#include "jail/shared/utf8.h"
#include "parse/path.h"


static const char *path_segment(const char *p, size_t n, bool is_last);
static const char *path_decode(const unsigned char *p, size_t n,
    unsigned char *byte);
static int path_hex(unsigned char ch);
static bool path_is_unreserved(unsigned char ch);


const char *
path_canonical(const unsigned char *p, size_t n, char *out, size_t *len)
{
    bool            encoded;
    size_t          i, segment;
    utf8_t          utf8;
    const char     *why;
    unsigned char   byte;

    static const char  digits[] = "0123456789ABCDEF";

    *len = 0;

    if (n == 0 || p[0] != '/') {
        return "the path does not begin with a slash";
    }

    if (n > PATH_MAX_LEN) {
        return "the path is longer than 4096 bytes";
    }

    memset(&utf8, 0, sizeof(utf8_t));
    segment = 0;                            /* where the last one began */

    for (i = 0; i <= n; i++) {

        if (i == n || p[i] == '/') {

            why = (i == 0) ? NULL : path_segment(out + segment, *len - segment,
                                                 i == n);
            if (why) {
                return why;
            }

            if (utf8.need) {
                return "the path has bytes that are not UTF-8";
            }

            if (i < n) {
                out[(*len)++] = '/';
                segment = *len;
            }

            continue;
        }

        byte = p[i];
        encoded = (byte == '%');

        if (encoded) {

            why = path_decode(p + i, n - i, &byte);

            if (why) {
                return why;
            }

            i += 2;

        } else if (byte == '\\' || byte == ';') {
            return "the path has a backslash or a semicolon";

        } else if (byte <= 0x20 || byte >= 0x7f) {
            return "the path has a byte that must be percent-encoded";
        }

        if (utf8_step(&utf8, byte) > UTF8_DONE) {
            return "the path has bytes that are not UTF-8";
        }

        if (encoded && !path_is_unreserved(byte)) {
            out[(*len)++] = '%';
            out[(*len)++] = digits[byte >> 4];
            out[(*len)++] = digits[byte & 15];

        } else {
            out[(*len)++] = (char) byte;
        }
    }

    return NULL;
}


/* Why n bytes between two slashes, or behind the last, are refused. */

static const char *
path_segment(const char *p, size_t n, bool is_last)
{
    if (n == 0 && !is_last) {
        return "the path has two slashes in a row";
    }

    if ((n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.')) {
        return "the path has a \".\" or \"..\" segment";
    }

    return NULL;
}


static const char *
path_decode(const unsigned char *p, size_t n, unsigned char *byte)
{
    int  high, low;

    high = (n > 2) ? path_hex(p[1]) : -1;
    low = (n > 2) ? path_hex(p[2]) : -1;

    if (high < 0 || low < 0) {
        return "the path has a \"%\" without two digits";
    }

    *byte = (unsigned char) (high << 4 | low);

    if (*byte < 0x20 || *byte == 0x7f) {
        return "the path has an encoded control byte";
    }

    return strchr("/.%\\;", *byte)
           ? "the path has an encoded slash, dot, percent sign, backslash or "
             "semicolon"
           : NULL;
}


static int
path_hex(unsigned char ch)
{
    return ch >= '0' && ch <= '9' ? ch - '0'
           : ch >= 'A' && ch <= 'F' ? ch - 'A' + 10
           : ch >= 'a' && ch <= 'f' ? ch - 'a' + 10 : -1;
}


static bool
path_is_unreserved(unsigned char ch)
{
    return (ch >= 'A' && ch <= 'Z') || (ch >= 'a' && ch <= 'z')
           || (ch >= '0' && ch <= '9') || ch == '-' || ch == '_' || ch == '~';
}
