/*
 * The entries of a directory, sorted by the bytes of their names, without "."
 * and "..".
 */

#pragma once

#include <dirent.h>


/* Their number, and *entries for directory_free(); or -1 with errno. */
int directory_read(int dir, struct dirent ***entries);

void directory_free(struct dirent **entries, int n);
