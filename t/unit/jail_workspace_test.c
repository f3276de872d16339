/* What a box may not put into a workspace, and how trees are compared. */

#include "unit.h"

#include "files/workspace.h"


static const struct {
    const char  *path;
    mode_t       type;
    bool         runs;
} paths[] = {
    { "main.py", S_IFREG, false },
    { "src/config", S_IFREG, false },
    { "hooks/use-state.ts", S_IFREG, false },
    { ".github/workflows/ci.yml", S_IFREG, false },
    { ".gitignore", S_IFREG, false },
    { "bashrc", S_IFREG, false },

    { ".git", S_IFDIR, false },
    { ".git/index", S_IFREG, false },
    { ".git/objects/ab/cdef", S_IFREG, false },
    { ".git/refs/heads/main", S_IFREG, false },
    { ".git", S_IFREG, true },
    { ".git", S_IFLNK, true },
    { "sub/.git", S_IFREG, true },
    { ".git/config", S_IFREG, true },
    { ".git/config.worktree", S_IFREG, true },
    { ".git/hooks", S_IFLNK, true },
    { ".git/hooks/pre-commit", S_IFREG, true },
    { ".git/modules/x/hooks/pre-commit", S_IFREG, true },
    { "sub/.git/config", S_IFREG, true },
    { ".GIT/Config", S_IFREG, true },

    { ".hg/hgrc", S_IFREG, true },
    { "sub/.hg/hgrc", S_IFLNK, true },
    { ".hg/sharedpath", S_IFREG, true },
    { ".hg/store/00changelog.i", S_IFREG, false },
    { "hgrc", S_IFREG, false },
    { ".jj/repo/config.toml", S_IFREG, true },
    { ".jj", S_IFREG, true },
    { "config.toml", S_IFREG, false },

    { ".bashrc", S_IFREG, true },
    { ".bashrc", S_IFLNK, true },
    { "deep/down/.envrc", S_IFREG, true },
    { ".mcp.json", S_IFREG, true },
    { ".vscode", S_IFDIR, true },
    { ".vscode/tasks.json", S_IFREG, true },
    { "sub/.idea/x", S_IFREG, true },
    { ".claude/settings.json", S_IFREG, true },
    { WORKSPACE_STAGING, S_IFDIR, true },
};


static void
test_code(void **state)
{
    size_t  i;

    (void) state;

    for (i = 0; i < COUNT(paths); i++) {
        expect(workspace_runs_code(paths[i].path, paths[i].type)
               == paths[i].runs, "%s", paths[i].path);
    }
}


static const struct {
    const char  *path;
    const char  *target;
    bool         inside;
} links[] = {
    { "l", "file", true },
    { "l", "./file", true },
    { "l", "a//b/", true },
    { "l", "..file", true },
    { "a/l", "../file", true },
    { "a/b/l", "../../x/y", true },
    { "a/b/l", "./../x", true },
    { "a/l", "..", true },

    { "l", "", false },
    { "l", "/", false },
    { "l", "/tmp/work/file", false },
    { "l", "..", false },
    { "l", "../file", false },
    { "a/l", "../../file", false },
    { "a/l", "../b/../../file", false },
    { "a/l", "b/../c", false },             /* b may lead up */
    { "a/l", "b/../../c", false },
    { "a/l", ".././../x", false },
};


static void
test_links(void **state)
{
    size_t  i;

    (void) state;

    for (i = 0; i < COUNT(links); i++) {
        expect(workspace_link_is_inside(links[i].path, links[i].target)
               == links[i].inside, "%s -> %s", links[i].path,
               links[i].target);
    }
}


static void
test_order(void **state)
{
    size_t  i, k;

    static const char *const  sorted[] = {
        "a", "a/b", "a/b/c", "a/b.c", "a\x01", "a b", "a.b", "ab", "b"
    };

    (void) state;

    for (i = 0; i < COUNT(sorted); i++) {
        for (k = 0; k < COUNT(sorted); k++) {
            expect((tree_compare(sorted[i], sorted[k]) < 0) == (i < k),
                   "%s and %s", sorted[i], sorted[k]);
        }
    }
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        PROMISE("A-041 files that make the host run code are known",
                test_code),
        PROMISE("a link is taken back only if it leads inside", test_links),
        PROMISE("a directory comes right before what is in it", test_order),
    };

    return unit_run(tests);
}
