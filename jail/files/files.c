/*
 * Reading the caller's files.  A file is opened once and all calls use that
 * descriptor, so the file that is checked is the one that is read.  O_NONBLOCK
 * keeps a FIFO from blocking the launcher before it is recognized.
 */

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/files.h"


static int files_copy(task_file_t *file, int in, uint64_t max,
    unsigned char *hash, stage_t stage, const char *path, fault_t *fault);
static int files_open(const char *path, stage_t stage, fault_t *fault);
static void files_suffix(const char *path, char *suffix);


int
files_read_code(task_file_t *file, const char *path,
    char hash[COPY_HASH_LEN + 1], fault_t *fault)
{
    int            fd, rc;
    char           suffix[FILES_SUFFIX_MAX + 2];
    unsigned char  digest[SHA256_DIGEST_LENGTH];

    *file = (task_file_t) { .fd = -1 };

    if (strcmp(path, "-") == 0) {
        fd = STDIN_FILENO;
        suffix[0] = '\0';

    } else {
        fd = files_open(path, STAGE_CODE, fault);
        files_suffix(path, suffix);
    }

    if (fd == -1) {
        return -1;
    }

    rc = files_copy(file, fd, FILES_CODE_MAX, digest, STAGE_CODE, path, fault);

    if (fd != STDIN_FILENO) {
        (void) close(fd);
    }

    if (rc != 0) {
        return -1;
    }

    copy_hash_text(digest, hash);

    (void) snprintf(file->path, sizeof(file->path), "run/task/code%s",
                    suffix);

    return 0;
}


int
files_read_in(task_file_t *file, const char *path, const char *name,
    uint64_t max, fault_t *fault)
{
    int  fd, rc;

    *file = (task_file_t) { .fd = -1 };
    fd = files_open(path, STAGE_IN, fault);

    if (fd == -1) {
        return -1;
    }

    rc = files_copy(file, fd, max, NULL, STAGE_IN, path, fault);
    (void) close(fd);

    (void) snprintf(file->path, sizeof(file->path), "run/task/in/%s", name);
    (void) snprintf(file->link, sizeof(file->link), "%s", name);

    return rc;
}


static int
files_open(const char *path, stage_t stage, fault_t *fault)
{
    int          fd;
    struct stat  st;

    fd = open(path, O_RDONLY|O_CLOEXEC|O_NOCTTY|O_NONBLOCK);

    if (fd == -1) {
        return fault_set(fault, stage, errno, "\"%.200s\" cannot be opened",
                         path);
    }

    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        return fd;
    }

    (void) close(fd);

    return fault_set_cause(fault, stage, 0, CAUSE_NOT_A_FILE,
                           "\"%.200s\" is not a regular file", path);
}


static int
files_copy(task_file_t *file, int in, uint64_t max, unsigned char *hash,
    stage_t stage, const char *path, fault_t *fault)
{
    file->fd = memfd_create("task", MFD_CLOEXEC|MFD_ALLOW_SEALING);

    if (file->fd == -1) {
        return fault_set(fault, stage, errno,
                         "a memory file cannot be created (memfd_create)");
    }

    switch (copy_file(in, file->fd, max, &file->size, hash)) {

    case COPY_OK:
        break;

    case COPY_UNREAD:
        return fault_set(fault, stage, errno, "\"%.200s\" cannot be read",
                         path);

    case COPY_UNWRITTEN:
        return fault_set(fault, stage, errno,
                         "the copy of \"%.200s\" cannot be written", path);

    case COPY_TOO_LARGE:
        return fault_set(fault, stage, 0,
                         "\"%.200s\" has more than %" PRIu64 " bytes", path,
                         max);
    }

    if (fcntl(file->fd, F_ADD_SEALS,
              F_SEAL_WRITE|F_SEAL_GROW|F_SEAL_SHRINK|F_SEAL_SEAL) == -1)
    {
        return fault_set(fault, stage, errno, "the copy of \"%.200s\" cannot "
                         "be sealed", path);
    }

    return 0;
}


/* ".py" of "a/b.py"; "" if there is none, or not a plain one. */

static void
files_suffix(const char *path, char *suffix)
{
    size_t       i;
    const char  *base, *dot;

    suffix[0] = '\0';
    base = strrchr(path, '/');
    base = base ? base + 1 : path;
    dot = strrchr(base, '.');

    if (dot == NULL || dot == base || dot[1] == '\0'
        || strlen(dot) > FILES_SUFFIX_MAX + 1)
    {
        return;
    }

    for (i = 1; dot[i]; i++) {
        if (!isalnum((unsigned char) dot[i]) && dot[i] != '_') {
            return;
        }
    }

    (void) strcpy(suffix, dot);
}
