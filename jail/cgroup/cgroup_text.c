/*
 * The formats are those of cgroups(7), proc(5) and the kernel's
 * Documentation/admin-guide/cgroup-v2.rst.  Whoever may make directories in a
 * cgroup file system chooses a part of these texts: a path is taken whole or
 * not at all.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cgroup/cgroup_text.h"


static int cgroup_text_field(const char *p, size_t n, char *out, size_t cap);


int
cgroup_text_own(const char *text, char *path, size_t cap)
{
    size_t       n;
    const char  *p;

    for (p = text; strncmp(p, "0::/", 4) != 0; p++) {
        p = strchr(p, '\n');

        if (p == NULL) {
            errno = ENOENT;
            return -1;
        }
    }

    p += 3;
    n = strcspn(p, "\n");

    if (n >= cap) {
        errno = ENAMETOOLONG;
        return -1;
    }

    if (strncmp(p, "/..", 3) == 0 && (p[3] == '/' || n == 3)) {
        errno = EXDEV;
        return -1;
    }

    (void) memcpy(path, p, n);
    path[n] = '\0';

    return 0;
}


/*
 * 31 23 0:28 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw
 *            ^ ^ the fourth and fifth field; the type is the first one after
 * the lone hyphen, before which any number of optional fields is possible.
 */

int
cgroup_text_mount(const char *line, char *root, char *point, size_t cap)
{
    size_t       n;
    unsigned     i;
    const char  *p, *field[5];

    p = line;

    for (i = 0; i < 5; i++) {
        field[i] = p;
        p += strcspn(p, " \n");

        if (*p++ != ' ') {
            return -1;
        }
    }

    p = strstr(p - 1, " - ");

    if (p == NULL) {
        return -1;
    }

    p += 3;
    n = strcspn(p, " \n");

    if (n != sizeof("cgroup2") - 1 || strncmp(p, "cgroup2", n) != 0) {
        return -1;
    }

    if (cgroup_text_field(field[3], strcspn(field[3], " "), root, cap) != 0) {
        return -1;
    }

    return cgroup_text_field(field[4], strcspn(field[4], " "), point, cap);
}


/* Blank, tab, newline and backslash are written as \ooo. */

static int
cgroup_text_field(const char *p, size_t n, char *out, size_t cap)
{
    size_t  i;

    for (i = 0; i < n; i++) {

        if (cap < 2) {
            errno = ENAMETOOLONG;
            return -1;
        }

        if (n - i >= 4 && p[i] == '\\' && p[i + 1] >= '0' && p[i + 1] <= '3'
            && p[i + 2] >= '0' && p[i + 2] <= '7'
            && p[i + 3] >= '0' && p[i + 3] <= '7')
        {
            *out++ = (char) ((p[i + 1] - '0') << 6 | (p[i + 2] - '0') << 3
                             | (p[i + 3] - '0'));
            i += 3;

        } else {
            *out++ = p[i];
        }

        cap--;
    }

    *out = '\0';

    return 0;
}


int
cgroup_text_locate(const char *root, const char *point, const char *own,
    char *path, size_t cap)
{
    size_t       n, point_len, rest_len;
    const char  *rest;

    n = strcmp(root, "/") == 0 ? 0 : strlen(root);

    /* a prefix of whole names: "/a" does not show "/ab" */

    if (strncmp(own, root, n) != 0 || (own[n] != '/' && own[n] != '\0')) {
        errno = EXDEV;
        return -1;
    }

    rest = strcmp(own + n, "/") == 0 ? "" : own + n;
    point_len = strcmp(point, "/") == 0 ? 0 : strlen(point);
    rest_len = strlen(rest);

    if (point_len + rest_len >= cap) {
        errno = ENAMETOOLONG;
        return -1;
    }

    (void) memcpy(path, point, point_len);
    (void) memcpy(path + point_len, rest, rest_len + 1);

    return 0;
}


bool
cgroup_text_lists(const char *list, const char *name)
{
    size_t  n;

    for ( ;; ) {
        list += strspn(list, " \n");
        n = strcspn(list, " \n");

        if (n == 0) {
            return false;
        }

        if (n == strlen(name) && strncmp(list, name, n) == 0) {
            return true;
        }

        list += n;
    }
}


int
cgroup_text_value(const char *text, const char *key, uint64_t *value)
{
    char      *end;
    size_t     n;
    uint64_t   number;

    if (key) {
        n = strlen(key);

        while (strncmp(text, key, n) != 0 || text[n] != ' ') {
            text = strchr(text, '\n');

            if (text == NULL) {
                return -1;
            }

            text++;
        }

        text += n + 1;
    }

    if (*text < '0' || *text > '9') {
        return -1;
    }

    errno = 0;
    number = strtoull(text, &end, 10);

    if (errno != 0) {
        return -1;
    }

    *value = number;

    return 0;
}


bool
cgroup_text_is_unit(const char *path)
{
    size_t       i;
    const char  *suffix;

    static const char *const  suffixes[] = {
        ".service", ".scope", ".slice", ".socket", ".mount", ".swap"
    };

    suffix = strrchr(strrchr(path, '/'), '.');

    for (i = 0; suffix && i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        if (strcmp(suffix, suffixes[i]) == 0) {
            return true;
        }
    }

    return false;
}
