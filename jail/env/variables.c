/*
 * A strict reader: a line that is not plainly NAME=VALUE is refused with its
 * number, because a lost or cut variable goes unnoticed.  Other readers of
 * such files disagree about quotes and "export"; a file that needs them is
 * refused here instead of being understood differently.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "env/variables.h"
#include "shared/utf8.h"


static const char *variables_put(variables_t *v, const char *pair,
    size_t len);


int
variables_add(variables_t *v, const char *pair, fault_t *fault)
{
    const char  *why;

    why = variables_put(v, pair, strlen(pair));

    return why ? fault_set(fault, STAGE_USAGE, 0, "--env %s", why) : 0;
}


int
variables_parse(variables_t *v, char *text, size_t len, const char *path,
    fault_t *fault)
{
    char        *end;
    size_t       n;
    unsigned     line;
    const char  *why;

    for (line = 1; len > 0; line++) {
        end = memchr(text, '\n', len);
        n = end ? (size_t) (end - text) : len;
        why = NULL;

        if (memchr(text, '\0', n)) {
            why = "has a NUL byte";

        } else if (n > 0 && text[n - 1] == '\r') {
            why = "ends with a carriage return";

        } else if (n > 0 && text[0] != '#') {
            why = variables_put(v, text, n);
        }

        if (why) {
            return fault_set(fault, STAGE_USAGE, 0, "--env-file %.200s:%u %s",
                             path, line, why);
        }

        n += (end != NULL);
        text += n;
        len -= n;
    }

    return 0;
}


int
variables_read(variables_t *v, const char *path, fault_t *fault)
{
    int          fd, rc, err;
    ssize_t      n;
    size_t       len;
    struct stat  st;
    static char  text[VARIABLES_FILE_MAX + 1];

    fd = open(path, O_RDONLY|O_CLOEXEC|O_NOCTTY|O_NONBLOCK);

    if (fd == -1) {
        return fault_set(fault, STAGE_USAGE, errno,
                         "--env-file %.200s cannot be opened", path);
    }

    len = 0;
    n = 0;
    err = 0;

    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        (void) close(fd);
        return fault_set(fault, STAGE_USAGE, 0,
                         "--env-file %.200s is not a regular file", path);
    }

    while (len < sizeof(text)) {
        n = read(fd, text + len, sizeof(text) - len);

        if (n == -1 && errno == EINTR) {
            continue;
        }

        if (n <= 0) {
            err = n == 0 ? 0 : errno;
            break;
        }

        len += (size_t) n;
    }

    (void) close(fd);

    if (n == -1) {
        rc = fault_set(fault, STAGE_USAGE, err,
                       "--env-file %.200s cannot be read", path);

    } else if (len > VARIABLES_FILE_MAX) {
        rc = fault_set(fault, STAGE_USAGE, 0,
                       "--env-file %.200s has more than %d bytes", path,
                       VARIABLES_FILE_MAX);

    } else {
        rc = variables_parse(v, text, len, path, fault);
    }

    explicit_bzero(text, sizeof(text));

    return rc;
}


const char *
variables_unlisted(const variables_t *v, const char *const *list, unsigned n,
    size_t *len)
{
    unsigned  i, k;

    for (i = 0; i < v->n; i++) {

        for (k = 0; k < n; k++) {
            if (strlen(list[k]) == v->names[i]
                && memcmp(list[k], v->pairs[i], v->names[i]) == 0)
            {
                break;
            }
        }

        if (k == n) {
            *len = v->names[i];
            return v->pairs[i];
        }
    }

    return NULL;
}


void
variables_free(variables_t *v)
{
    while (v->n > 0) {
        v->n--;
        explicit_bzero(v->pairs[v->n], strlen(v->pairs[v->n]));
        free(v->pairs[v->n]);
    }
}


/* What is wrong, or NULL when the pair was added. */

static const char *
variables_put(variables_t *v, const char *pair, size_t len)
{
    char      *copy;
    size_t     n;
    unsigned   i;

    for (n = 0; n < len; n++) {
        if (!(pair[n] == '_' || (pair[n] >= 'A' && pair[n] <= 'Z')
              || (pair[n] >= 'a' && pair[n] <= 'z')
              || (n > 0 && pair[n] >= '0' && pair[n] <= '9')))
        {
            break;
        }
    }

    if (n == len || pair[n] != '=') {
        return memchr(pair, '=', len)
               ? "has a name that is not made of letters, digits and \"_\""
               : "must be NAME=VALUE";
    }

    if (n == 0 || n > VARIABLES_NAME_MAX) {
        return "must have a name of 1 to 128 bytes";
    }

    if (len - n - 1 > VARIABLES_VALUE_MAX) {
        return "has a value of more than 8192 bytes";
    }

    if (!utf8_is_valid(pair + n + 1, len - n - 1, NULL, false)) {
        return "has a value that is not UTF-8";
    }

    for (i = 0; i < v->n; i++) {
        if (v->names[i] == n && memcmp(v->pairs[i], pair, n) == 0) {
            return "sets a variable for the second time";
        }
    }

    if (v->n == VARIABLES_MAX) {
        return "exceeds the limit of 64 variables";
    }

    copy = strndup(pair, len);

    if (copy == NULL) {
        return "cannot be stored: out of memory";
    }

    v->names[v->n] = n;
    v->pairs[v->n++] = copy;

    return NULL;
}
