/*
 * git obeys the config of any directory that looks like a repository, whatever
 * its name.  A box cannot change the config of an existing repository, and
 * cannot make a new one except as .git, whose config no box can write; not in
 * several tasks either, where one writes the config and another the rest.
 */

#include <stdio.h>
#include <string.h>

#include "files/workspace.h"


static bool workspace_is_repository(const tree_t *tree, const char *path,
    size_t n);
static bool workspace_has(const tree_t *tree, const char *path, size_t n,
    const char *name);


bool
workspace_makes_repository(const tree_t *before, const tree_t *after,
    const char *path)
{
    size_t       n, i;
    const char  *p;

    static const char *const  parts[] = {
        "HEAD", "objects", "refs", "commondir"
    };

    for (p = path; p; p = strchr(p, '/'), p = p ? p + 1 : NULL) {

        if (strncmp(p, ".git/", 5) == 0) {
            return false;               /* workspace_runs_code() judges it */
        }

        n = (size_t) (p - path);

        if ((strncmp(p, "config", 6) == 0 || strncmp(p, "hooks", 5) == 0)
            && workspace_is_repository(after, path, n))
        {
            return true;
        }

        for (i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {

            if (strcspn(p, "/") == strlen(parts[i])
                && strncmp(p, parts[i], strlen(parts[i])) == 0
                && workspace_is_repository(after, path, n)
                && !workspace_is_repository(before, path, n))
            {
                return true;
            }
        }
    }

    return false;
}


/* Is it the directory whose name, with its "/", is the first n of path? */

static bool
workspace_is_repository(const tree_t *tree, const char *path, size_t n)
{
    return workspace_has(tree, path, n, "HEAD")
           && (workspace_has(tree, path, n, "commondir")
               || (workspace_has(tree, path, n, "objects")
                   && workspace_has(tree, path, n, "refs")));
}


static bool
workspace_has(const tree_t *tree, const char *path, size_t n, const char *name)
{
    char  sibling[TREE_PATH_MAX + 16];

    (void) snprintf(sibling, sizeof(sibling), "%.*s%s", (int) n, path, name);

    return tree_find(tree, sibling) != NULL;
}
