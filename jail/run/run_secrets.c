/*
 * A box holds no secrets: what the caller gives it is looked through for those
 * that are certain, by the names of files and by what begins them.  It is said
 * which file or variable it was and what was seen, never the text.
 */

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "run/run_task.h"
#include "shared/secret.h"


#define SECRETS_FILE_MAX  (1u << 20)    /* bytes looked at in each file */


static int run_secret_file(run_t *r, const char *what, const char *path,
    int fd, uint64_t offset, uint64_t size);
static int run_secret_found(run_t *r, const char *what, const char *path,
    const char *found);


int
run_secrets(run_t *r)
{
    unsigned            i, n;
    const char         *found, *value;
    const options_t    *o;
    const variables_t  *v;

    v = &r->variables;

    for (i = 0; i < v->n; i++) {

        value = v->pairs[i] + v->names[i] + 1;
        found = secret_scan(value, strlen(value));

        if (found) {
            return fault_set(&r->result.fault, STAGE_USAGE, 0,
                             "--env %.*s holds %s, and a box holds none: put "
                             "it into the broker's vault", (int) v->names[i],
                             v->pairs[i], found);
        }
    }

    o = r->options;
    n = 0;

    if (o->code
        && run_secret_file(r, "--code", o->code, r->files[n++].fd, 0,
                           r->files[0].size)
           != 0)
    {
        return -1;
    }

    for (i = 0; i < o->nin; i++, n++) {
        if (run_secret_file(r, "--in", o->in[i].path, r->files[n].fd, 0,
                            r->files[n].size)
            != 0)
        {
            return -1;
        }
    }

    return 0;
}


int
run_workspace_secrets(run_t *r)
{
    size_t               i;
    const tree_t        *tree;
    const tree_entry_t  *e;

    tree = r->spec.workspace;

    for (i = 0; tree && i < tree->n; i++) {
        e = &tree->entries[i];

        if (e->refused == NULL && S_ISREG(e->type)
            && run_secret_file(r, "--workspace", e->path, tree->content,
                               (uint64_t) e->offset, e->size)
               != 0)
        {
            return -1;
        }
    }

    return 0;
}


static int
run_secret_file(run_t *r, const char *what, const char *path, int fd,
    uint64_t offset, uint64_t size)
{
    char        *map;
    size_t       before, len;
    const char  *found;

    if (secret_is_file(path)) {
        return run_secret_found(r, what, path, "secrets by its name");
    }

    if (size == 0) {
        return 0;
    }

    before = (size_t) (offset % 4096);
    len = before + (size_t) (size < SECRETS_FILE_MAX ? size
                                                     : SECRETS_FILE_MAX);
    map = mmap(NULL, len, PROT_READ, MAP_SHARED|MAP_POPULATE, fd,
               (off_t) (offset - before));

    if (map == MAP_FAILED) {
        return fault_set(&r->result.fault, STAGE_IN, errno,
                         "the copy of \"%.200s\" cannot be read", path);
    }

    found = secret_scan(map + before, len - before);
    (void) munmap(map, len);

    return found ? run_secret_found(r, what, path, found) : 0;
}


static int
run_secret_found(run_t *r, const char *what, const char *path,
    const char *found)
{
    return fault_set(&r->result.fault, STAGE_USAGE, 0,
                     "%s \"%.200s\" holds %s, and a box holds none: leave it "
                     "out, or put it into the broker's vault", what, path,
                     found);
}
