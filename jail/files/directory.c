/*
 * Listing a directory.  It is read to its end before anything in it is
 * touched: a directory that is changed while it is read shows some of its
 * names twice or not at all.
 *
 * scandirat() distinguishes the end of a directory from an error, which
 * readdir() does by errno only; a file taken for missing after an error would
 * be removed from a workspace.
 */

#include <stdlib.h>
#include <string.h>

#include "files/directory.h"


static int directory_is_entry(const struct dirent *de);
static int directory_compare(const struct dirent **one,
    const struct dirent **two);


int
directory_read(int dir, struct dirent ***entries)
{
    return scandirat(dir, ".", entries, directory_is_entry,
                     directory_compare);
}


void
directory_free(struct dirent **entries, int n)
{
    while (n > 0) {
        free(entries[--n]);
    }

    free(entries);
}


static int
directory_is_entry(const struct dirent *de)
{
    return strcmp(de->d_name, ".") != 0 && strcmp(de->d_name, "..") != 0;
}


static int
directory_compare(const struct dirent **one, const struct dirent **two)
{
    return strcmp((*one)->d_name, (*two)->d_name);
}
