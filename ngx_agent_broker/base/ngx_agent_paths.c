/*
 * The paths in the configuration: could another user replace the file, and
 * does one path lead below another?
 */


#include "base/ngx_agent_base.h"


static void ngx_agent_paths_cut(char *path);
static ngx_int_t ngx_agent_paths_check_one(ngx_conf_t *cf, ngx_str_t *directive,
    ngx_str_t *path, const char *at, ngx_uint_t above);
static ngx_int_t ngx_agent_paths_check_owner(ngx_conf_t *cf,
    ngx_str_t *directive, ngx_str_t *path, const char *at, struct stat *st);


/*
 * Any user who can write a directory can replace everything below it: only
 * root and the user that starts nginx may.  The sticky bit keeps other users
 * from replacing files that are not theirs.  The group of the user that starts
 * nginx may write, since many systems give each user a group of its own.  A
 * directory higher up that another group may write is the system's choice
 * (syslog's /var/log): it is only warned of.
 *
 * The path is walked as the kernel walks it, link after link, and every
 * directory on the way is checked.
 */

ngx_int_t
ngx_agent_paths_check(ngx_conf_t *cf, ngx_str_t *directive, ngx_str_t *path)
{
    char          at[PATH_MAX], left[PATH_MAX], link[PATH_MAX], *name, *next;
    size_t        n;
    ssize_t       size;
    ngx_int_t     shared;
    ngx_uint_t    links;
    struct stat   st;

    if (ngx_process == NGX_PROCESS_SIGNALLER) {
        return NGX_OK;
    }

    (void) ngx_cpystrn((u_char *) left, path->data, sizeof(left));
    at[0] = '\0';
    links = 0;

    for (name = left; /* void */ ; name = next) {

        name += strspn(name, "/");
        n = strcspn(name, "/");
        next = name + n;

        if (n == 0) {
            return NGX_OK;
        }

        shared = ngx_agent_paths_check_one(cf, directive, path,
                                           at[0] ? at : "/",
                                           strspn(next, "/") != strlen(next));
        if (shared == NGX_ERROR) {
            return NGX_ERROR;
        }

        if (n == 1 && name[0] == '.') {
            continue;
        }

        if (n == 2 && name[0] == '.' && name[1] == '.') {
            ngx_agent_paths_cut(at);
            continue;
        }

        if (strlen(at) + n + 2 > sizeof(at)) {
            return NGX_OK;                  /* opening it will fail */
        }

        (void) sprintf(strchr(at, '\0'), "/%.*s", (int) n, name);

        if (lstat(at, &st) == -1) {
            return NGX_OK;                  /* opening it fails, or makes it */
        }

        if (S_ISREG(st.st_mode)) {
            return ngx_agent_paths_check_one(cf, directive, path, at, 0)
                   == NGX_ERROR ? NGX_ERROR : NGX_OK;
        }

        if (!S_ISLNK(st.st_mode)) {
            continue;
        }

        if (shared == NGX_BUSY
            && ngx_agent_paths_check_owner(cf, directive, path, at, &st)
               != NGX_OK)
        {
            return NGX_ERROR;
        }

        size = readlink(at, link, sizeof(link) - 1);

        if (size == -1 || (size_t) size + strlen(next) >= sizeof(link)
            || ++links > 40)
        {
            return NGX_OK;
        }

        (void) strcpy(link + size, next);
        (void) strcpy(left, link);
        next = left;

        if (left[0] == '/') {
            at[0] = '\0';

        } else {
            ngx_agent_paths_cut(at);
        }
    }
}


/* Removes the last name of a path. */

static void
ngx_agent_paths_cut(char *path)
{
    char  *slash;

    slash = strrchr(path, '/');

    if (slash) {
        *slash = '\0';
    }
}


/* NGX_BUSY: others may write the directory, but its sticky bit is set. */

static ngx_int_t
ngx_agent_paths_check_one(ngx_conf_t *cf, ngx_str_t *directive, ngx_str_t *path,
    const char *at, ngx_uint_t above)
{
    char          mode[8];
    mode_t        others;
    ngx_uint_t    level;
    struct stat   st;

    if (stat(at, &st) == -1) {
        return NGX_OK;                      /* opening it will fail */
    }

    if (ngx_agent_paths_check_owner(cf, directive, path, at, &st) != NGX_OK) {
        return NGX_ERROR;
    }

    others = st.st_gid == getegid() ? S_IWOTH : S_IWGRP|S_IWOTH;

    if ((st.st_mode & others) == 0) {
        return NGX_OK;
    }

    if (S_ISDIR(st.st_mode) && (st.st_mode & S_ISVTX)) {
        return NGX_BUSY;
    }

    level = above && !(st.st_mode & S_IWOTH) ? NGX_LOG_WARN : NGX_LOG_EMERG;

    (void) snprintf(mode, sizeof(mode), "%04o",
                    (unsigned) st.st_mode & 07777);

    ngx_conf_log_error(level, cf, 0,
                       "\"%V %V\" could be replaced, since others may write "
                       "\"%s\" (mode %s): chmod go-w %s, or use another path",
                       directive, path, at, mode, at);

    return level == NGX_LOG_EMERG ? NGX_ERROR : NGX_OK;
}


static ngx_int_t
ngx_agent_paths_check_owner(ngx_conf_t *cf, ngx_str_t *directive,
    ngx_str_t *path, const char *at, struct stat *st)
{
    if (st->st_uid == 0 || st->st_uid == geteuid()) {
        return NGX_OK;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "\"%V %V\" could be replaced, since \"%s\" belongs to "
                       "uid %ui: chown it to root, or use another path",
                       directive, path, at, (ngx_uint_t) st->st_uid);

    return NGX_ERROR;
}


ngx_int_t
ngx_agent_paths_real_path(const char *name, char real[PATH_MAX])
{
    char         dir[PATH_MAX];
    size_t       len;
    const char  *last;

    if (realpath(name, real)) {
        return NGX_OK;
    }

    last = strrchr(name, '/');

    if (last == NULL) {
        return NGX_DECLINED;
    }

    len = 0;

    if (last != name) {
        (void) ngx_cpystrn((u_char *) dir, (u_char *) name,
                           ngx_min((size_t) (last - name) + 1, sizeof(dir)));

        if (ngx_agent_paths_real_path(dir, real) != NGX_OK) {
            return NGX_DECLINED;
        }

        len = strlen(real);
    }

    (void) snprintf(real + len, PATH_MAX - len, "%s", last);

    return NGX_OK;
}


ngx_uint_t
ngx_agent_paths_is_beneath(const char *dir, const char *path)
{
    size_t  len;

    len = strlen(dir);

    return strncmp(dir, path, len) == 0
           && (path[len] == '/' || path[len] == '\0');
}
