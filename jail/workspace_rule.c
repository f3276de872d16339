/*
 * Which changes a box may not make to a workspace.
 *
 * A project holds files that programs on the host obey when somebody next
 * works there: git's hooks, an editor's tasks, a shell's start-up.  Code that
 * may write them leaves the box as soon as its user types `git status`.  The
 * comparison ignores case, because some file systems do.
 */

#include <string.h>
#include <strings.h>

#include "workspace.h"


/* as the last component */

static const char *const  workspace_files[] = {

    /* shells, and what they read on entering a directory */
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout",
    ".bash_aliases", ".profile", ".zshrc", ".zshenv", ".zprofile",
    ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login",
    ".logout", ".inputrc", ".envrc", ".direnvrc", ".mise.toml",

    /* version control and what hooks into it */
    ".gitconfig", ".gitmodules", ".hgrc", ".pre-commit-config.yaml",
    "lefthook.yml", ".lefthook.yml",

    /* editors, debuggers, interpreters */
    ".vimrc", ".gvimrc", ".exrc", ".nvimrc", ".nvim.lua", ".emacs",
    ".dir-locals.el", ".gdbinit", ".lldbinit", ".pdbrc", ".pythonrc",
    ".irbrc", ".pryrc", ".Rprofile", ".sqliterc", ".psqlrc",
    ".tmux.conf", ".screenrc", ".xinitrc", ".xprofile", ".xsession",

    /* agents and package managers */
    ".mcp.json", "mcp.json", ".npmrc", ".yarnrc", ".yarnrc.yml",
    ".pnpmfile.cjs", ".curlrc", ".wgetrc", ".netrc",

    WORKSPACE_STAGING, NULL
};


/* as any component */

static const char *const  workspace_directories[] = {
    ".vscode", ".idea", ".fleet", ".zed", ".vs", ".devcontainer",
    ".claude", ".codex", ".cursor", ".gemini", ".continue", ".aider",
    ".husky", ".githooks", ".ssh", ".gnupg", WORKSPACE_STAGING, NULL
};


/* below .git, as any component */

static const char *const  workspace_git[] = {
    "hooks", "config", "config.worktree", "commondir", "gitdir",
    "rebase-merge", "rebase-apply", NULL
};


static bool workspace_is_in(const char *const *list, const char *name,
    size_t n);


bool
workspace_runs_code(const char *path, mode_t type)
{
    bool    git;
    size_t  n;

    for (git = false; /* void */; path += n + 1) {
        n = strcspn(path, "/");

        if ((git && workspace_is_in(workspace_git, path, n))
            || workspace_is_in(workspace_directories, path, n))
        {
            return true;
        }

        if (n == 4 && strncasecmp(path, ".git", 4) == 0) {
            git = true;

            /* a file or link of that name leads git to another directory */

            if (path[n] == '\0' && type != S_IFDIR) {
                return true;
            }
        }

        if (path[n] == '\0') {
            return workspace_is_in(workspace_files, path, n);
        }
    }
}


/*
 * ".." is taken at the beginning only, where it climbs from the directory
 * that the link really is in: after a name it would climb from wherever that
 * name leads, which may be a link as well.
 */

bool
workspace_link_is_inside(const char *path, const char *target)
{
    bool      named;
    size_t    n;
    unsigned  depth;

    if (target[0] == '/' || target[0] == '\0') {
        return false;
    }

    for (depth = 0; (path = strchr(path, '/')) != NULL; path++) {
        depth++;
    }

    for (named = false; /* void */; target += n + 1) {
        n = strcspn(target, "/");

        if (n == 2 && target[0] == '.' && target[1] == '.') {

            if (named || depth == 0) {
                return false;
            }

            depth--;

        } else if (n > 1 || (n == 1 && target[0] != '.')) {
            named = true;
        }

        if (target[n] == '\0') {
            return true;
        }
    }
}


static bool
workspace_is_in(const char *const *list, const char *name, size_t n)
{
    for ( /* void */ ; *list; list++) {
        if (strlen(*list) == n && strncasecmp(*list, name, n) == 0) {
            return true;
        }
    }

    return false;
}
