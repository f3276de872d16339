/*
 * Listing a directory.  It is read to its end before anything in it is
 * touched: a directory that is changed while it is read shows some of its
 * names twice or not at all.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files/directory.h"


static int directory_compare(const void *one, const void *two);


char **
directory_names(int dir, size_t *n)
{
    int              fd, err;
    DIR             *d;
    char           **names, **more;
    size_t           cap;
    struct dirent   *de;

    *n = 0;
    cap = 16;
    fd = openat(dir, ".", O_RDONLY|O_DIRECTORY|O_CLOEXEC);
    d = fd == -1 ? NULL : fdopendir(fd);
    names = d ? malloc(cap * sizeof(char *)) : NULL;

    if (names == NULL) {

        if (d) {
            (void) closedir(d);

        } else if (fd != -1) {
            (void) close(fd);
        }

        return NULL;
    }

    /*
     * The end of a directory and an error look the same but for errno; what
     * is taken for missing after an error would be removed from a workspace.
     */

    while (errno = 0, (de = readdir(d)) != NULL) {

        if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0) {
            continue;
        }

        if (*n == cap) {
            cap *= 2;
            more = realloc(names, cap * sizeof(char *));

            if (more == NULL) {
                break;
            }

            names = more;
        }

        names[*n] = strdup(de->d_name);

        if (names[*n] == NULL) {
            break;
        }

        (*n)++;
    }

    err = de ? ENOMEM : errno;
    (void) closedir(d);

    if (err) {
        directory_free(names, *n);
        errno = err;
        return NULL;
    }

    qsort(names, *n, sizeof(char *), directory_compare);

    return names;
}


void
directory_free(char **names, size_t n)
{
    while (n > 0) {
        free(names[--n]);
    }

    free(names);
}


static int
directory_compare(const void *one, const void *two)
{
    return strcmp(*(char *const *) one, *(char *const *) two);
}
