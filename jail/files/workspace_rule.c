/*
 * Which changes a box may not make to a workspace.
 *
 * A project contains files that programs on the host obey when somebody next
 * works there: git's hooks, an editor's tasks, a shell's start-up.  Code that
 * may write them leaves the box as soon as its user types `git status`.  Names
 * are compared without case, because some file systems ignore it.
 */

#include <string.h>
#include <strings.h>

#include "files/workspace.h"


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


/* below the directory of a version control, as any component */

static const char *const  workspace_git[] = {
    "hooks", "config", "config.worktree", "commondir", "gitdir",
    "rebase-merge", "rebase-apply", NULL
};

static const char *const  workspace_hg[] = {
    "hgrc", "hgrc-not-shared", "sharedpath", NULL
};

static const char *const  workspace_jj[] = {
    "config.toml", "workspace-config.toml", NULL
};


typedef struct {
    const char         *name;
    const char *const  *refused;
} workspace_control_t;


static const workspace_control_t  workspace_controls[] = {
    { ".git", workspace_git },
    { ".hg", workspace_hg },
    { ".jj", workspace_jj },
};


static bool workspace_is_in(const char *const *list, const char *name,
    size_t n);


bool
workspace_runs_code(const char *path, mode_t type)
{
    size_t                      n, i;
    const char *const          *refused;
    const workspace_control_t  *control;

    for (refused = NULL; /* void */; path += n + 1) {
        n = strcspn(path, "/");

        if ((refused && workspace_is_in(refused, path, n))
            || workspace_is_in(workspace_directories, path, n))
        {
            return true;
        }

        for (i = 0; i < sizeof(workspace_controls)
                        / sizeof(workspace_controls[0]); i++)
        {
            control = &workspace_controls[i];

            if (strlen(control->name) != n
                || strncasecmp(path, control->name, n) != 0)
            {
                continue;
            }

            refused = control->refused;

            /* a file or link of that name leads to another directory */

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
 * ".." is allowed at the beginning only, where it climbs from the directory
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
