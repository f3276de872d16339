/*
 * What the kernel says about cgroups, as text, read into values.  Pure: no
 * file is opened here.
 */

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>


/*
 * The path of a process in the unified hierarchy, from the text of
 * /proc/PID/cgroup: what follows "0::".  0, or -1 with errno: ENOENT without
 * such a line, ENAMETOOLONG, and EXDEV for a process outside of the reader's
 * cgroup namespace, whose path then begins with "/..".
 */
int cgroup_text_own(const char *text, char *path, size_t cap);

/*
 * From one line of /proc/PID/mountinfo, if it is a mount of the unified
 * hierarchy: its root in that hierarchy and its mount point, both unescaped.
 * 0, or -1: another file system, cut off, or too long for the buffers.
 */
int cgroup_text_mount(const char *line, char *root, char *point, size_t cap);

/*
 * Where a mount (root, point) shows the group `own`, as a path of the file
 * system.  0, or -1 with errno: EXDEV when it does not show it.
 */
int cgroup_text_locate(const char *root, const char *point, const char *own,
    char *path, size_t cap);

/* Whether a list such as cgroup.controllers holds this name. */
bool cgroup_text_lists(const char *list, const char *name);

/*
 * The number at the start of the text, or with a key the one after "KEY " at
 * the start of a line.  -1: there is none ("max" is none).
 */
int cgroup_text_value(const char *text, const char *key, uint64_t *value);

/* Whether the last name of the path is that of a unit of systemd's. */
bool cgroup_text_is_unit(const char *path);
