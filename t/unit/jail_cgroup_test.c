/*
 * What the kernel says about cgroups is read as it is meant: paths, mounts,
 * lists, counters.
 */

#include <errno.h>

#include "cgroup/cgroup_text.h"
#include "unit.h"


#define PATH_MAX_HERE  64


static void
own_is_the_unified_path(void **state)
{
    size_t  i;
    char    path[PATH_MAX_HERE];

    static const struct {
        const char  *text;
        const char  *path;              /* NULL: refused */
        int          err;
    } rows[] = {
        { "0::/\n", "/", 0 },
        { "0::/user.slice/a b.scope\n", "/user.slice/a b.scope", 0 },
        { "8:pids:/x\n1:cpu:/\n0::/y\n", "/y", 0 },
        { "0::/no newline", "/no newline", 0 },
        { "0::/..hidden\n", "/..hidden", 0 },
        { "0::/a (deleted)\n", "/a (deleted)", 0 },
        { "0::/..\n", NULL, EXDEV },
        { "0::/../sibling\n", NULL, EXDEV },
        { "8:pids:/x\n", NULL, ENOENT },
        { "10::/x\n", NULL, ENOENT },
        { "1:name=0::/x\n", NULL, ENOENT },
        { "", NULL, ENOENT },
        { "0::/0123456789012345678901234567890123456789012345678901234567890"
          "123\n", NULL, ENAMETOOLONG },
    };

    (void) state;

    for (i = 0; i < COUNT(rows); i++) {
        int  rc = cgroup_text_own(rows[i].text, path, sizeof(path));

        if (rows[i].path) {
            expect(rc == 0 && strcmp(path, rows[i].path) == 0,
                   "\"%s\": expected \"%s\", saw %d \"%s\"", rows[i].text,
                   rows[i].path, rc, rc == 0 ? path : "");
        } else {
            expect(rc == -1 && errno == rows[i].err,
                   "\"%s\": expected errno %d, saw %d %d", rows[i].text,
                   rows[i].err, rc, errno);
        }
    }
}


static void
mounts_of_other_types_are_not_taken(void **state)
{
    size_t  i;
    char    root[PATH_MAX_HERE], point[PATH_MAX_HERE];

    static const struct {
        const char  *line;
        const char  *root;              /* NULL: not one of ours */
        const char  *point;
    } rows[] = {
        { "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
          "/", "/sys/fs/cgroup/unified" },
        { "41 31 0:38 / /sys/fs/cgroup rw,nosuid shared:9 master:2 - cgroup2 "
          "none rw,nsdelegate\n", "/", "/sys/fs/cgroup" },
        { "41 31 0:38 /../.. /c rw - cgroup2 cgroup2 rw\n", "/../..", "/c" },
        { "1 1 0:38 /a\\040b /c\\011d\\134e rw - cgroup2 x rw\n", "/a b",
          "/c\td\\e" },
        { "1 1 0:38 / /c\\04 rw - cgroup2 x rw\n", "/", "/c\\04" },
        { "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n",
          NULL, NULL },
        { "32 31 0:29 / /sys/fs/cgroup rw - cgroup2x cgroup2 rw\n",
          NULL, NULL },
        { "31 23 0:28 / /cgroup2 rw - tmpfs cgroup2 rw\n", NULL, NULL },
        { "31 23 0:28 / /x rw - tmpfs - cgroup2 cgroup2\n", NULL, NULL },
        { "31 23 0:28 / /sys/fs/cgroup\n", NULL, NULL },
        { "31 23 0:28\n", NULL, NULL },
        { "", NULL, NULL },
        { "1 1 0:38 / /012345678901234567890123456789012345678901234567890"
          "1234567890123 rw - cgroup2 x rw\n", NULL, NULL },
    };

    (void) state;

    for (i = 0; i < COUNT(rows); i++) {
        int  rc = cgroup_text_mount(rows[i].line, root, point, sizeof(root));

        if (rows[i].root == NULL) {
            expect(rc == -1, "\"%s\" was taken", rows[i].line);
            continue;
        }

        expect(rc == 0 && strcmp(root, rows[i].root) == 0
               && strcmp(point, rows[i].point) == 0,
               "\"%s\": expected \"%s\" \"%s\", saw %d", rows[i].line,
               rows[i].root, rows[i].point, rc);
    }
}


static void
a_mount_shows_what_is_below_its_root(void **state)
{
    size_t  i;
    char    path[PATH_MAX_HERE];

    static const struct {
        const char  *root;
        const char  *point;
        const char  *own;
        const char  *path;              /* NULL: not shown */
    } rows[] = {
        { "/", "/sys/fs/cgroup", "/", "/sys/fs/cgroup" },
        { "/", "/sys/fs/cgroup", "/a/b", "/sys/fs/cgroup/a/b" },
        { "/a", "/c", "/a", "/c" },
        { "/a", "/c", "/a/b", "/c/b" },
        { "/", "/", "/a", "/a" },
        { "/a", "/c", "/ab", NULL },
        { "/a", "/c", "/", NULL },
        { "/a/b", "/c", "/a", NULL },
        { "/..", "/c", "/", NULL },
        { "/../b", "/c", "/a", NULL },
        { "/", "/01234567890123456789012345678901",
          "/01234567890123456789012345678901", NULL },
    };

    (void) state;

    for (i = 0; i < COUNT(rows); i++) {
        int  rc = cgroup_text_locate(rows[i].root, rows[i].point,
                                     rows[i].own, path, sizeof(path));

        expect(rows[i].path ? rc == 0 && strcmp(path, rows[i].path) == 0
                            : rc == -1,
               "%s at %s, %s: expected %s, saw %d %s", rows[i].root,
               rows[i].point, rows[i].own,
               rows[i].path ? rows[i].path : "a refusal", rc,
               rc == 0 ? path : "");
    }
}


static void
a_list_holds_whole_names(void **state)
{
    size_t  i;

    static const struct {
        const char  *list;
        bool         lists;
    } rows[] = {
        { "cpu\n", true },
        { "cpuset cpu io\n", true },
        { "memory cpu", true },
        { "cpuset io\n", false },
        { "xcpu cpu. cp u\n", false },
        { "\n", false },
        { "", false },
    };

    (void) state;

    for (i = 0; i < COUNT(rows); i++) {
        expect(cgroup_text_lists(rows[i].list, "cpu") == rows[i].lists,
               "\"%s\": expected %d", rows[i].list, rows[i].lists);
    }
}


static void
a_counter_is_that_of_its_key(void **state)
{
    size_t    i;
    uint64_t  value;

    static const char  events[] =
        "low 0\nhigh 0\nmax 12\noom 2\noom_kill 1\noom_group_kill 3\n";

    static const struct {
        const char  *text;
        const char  *key;
        int          rc;
        uint64_t     value;
    } rows[] = {
        { events, "oom_kill", 0, 1 },
        { events, "oom", 0, 2 },
        { events, "oom_group_kill", 0, 3 },
        { events, "max", 0, 12 },
        { events, "kill", -1, 0 },
        { events, "oom_", -1, 0 },
        { "usage_usec 5\nuser_usec 3\n", "usage_usec", 0, 5 },
        { "populated 0\nfrozen 0\n", "populated", 0, 0 },
        { "4096\n", NULL, 0, 4096 },
        { "18446744073709551615\n", NULL, 0, UINT64_MAX },
        { "18446744073709551616\n", NULL, -1, 0 },
        { "max\n", NULL, -1, 0 },
        { "-1\n", NULL, -1, 0 },
        { "", NULL, -1, 0 },
        { "max max\n", "max", -1, 0 },
    };

    (void) state;

    for (i = 0; i < COUNT(rows); i++) {
        int  rc;

        value = 0;
        rc = cgroup_text_value(rows[i].text, rows[i].key, &value);

        expect(rc == rows[i].rc && value == rows[i].value,
               "row %zu: expected %d %ju, saw %d %ju", i, rows[i].rc,
               (uintmax_t) rows[i].value, rc, (uintmax_t) value);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        PROMISE("this process's group is that of the unified hierarchy",
                own_is_the_unified_path),
        PROMISE("a mount of another type is not taken for the hierarchy",
                mounts_of_other_types_are_not_taken),
        PROMISE("a mount shows the groups below its root and no other",
                a_mount_shows_what_is_below_its_root),
        PROMISE("a list of controllers holds whole names",
                a_list_holds_whole_names),
        PROMISE("a counter is that of its key", a_counter_is_that_of_its_key),
    };

    return unit_run(tests);
}
