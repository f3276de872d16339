/*
 * The files given to a task.  The launcher reads them, with the caller's
 * rights and before the box exists, into sealed memory files; the box gets
 * copies, so nothing in it leads to a path of the caller's.
 */

#pragma once

#include <stdint.h>

#include "base/fault.h"
#include "files/copy.h"


#define FILES_SUFFIX_MAX  16
#define FILES_CODE_MAX    (64u << 20)           /* bytes */


typedef struct {
    int       fd;                       /* a sealed memfd */
    uint64_t  size;
    char      path[320];                /* in the box, without the first "/" */
    char      link[264];                /* in the working directory, or "" */
} task_file_t;


/*
 * Reads --code.  path "-" is the standard input.  hash gets the hex SHA-256
 * of the content and its NUL.
 */
int files_read_code(task_file_t *file, const char *path,
    char hash[COPY_HASH_LEN + 1], fault_t *fault);

/* Reads one --in; max is the most bytes it may have. */
int files_read_in(task_file_t *file, const char *path, const char *name,
    uint64_t max, fault_t *fault);
