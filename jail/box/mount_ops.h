/*
 * What the box's file system is put together from.  Paths in the box are
 * without their first "/", and its root is the working directory.  All return
 * -1 with errno, and may leave in `detail` what it was about.
 */

#pragma once

#include "box/setup.h"
#include "box/sys_mount.h"


#define NOEXEC              MOUNT_ATTR_NOEXEC
#define NOSUID              MOUNT_ATTR_NOSUID
#define NODEV               MOUNT_ATTR_NODEV
#define RDONLY              MOUNT_ATTR_RDONLY


/* The host's file or directory (type S_IFREG, S_IFDIR) at the same path. */
int mount_host(setup_t *s, const char *path, mode_t type);

/* The host's device node, if it is this one: major << 8 | minor. */
int mount_device(setup_t *s, const char *path, unsigned dev);

/* A read-only clone of something in the box, over something in the box. */
int mount_over(setup_t *s, const char *source, const char *path);

/*
 * The same of a file, over the file that the path leads to in the box; nothing
 * where that is not a file, or source itself.
 */
int mount_cover(setup_t *s, const char *source, const char *path);

/* What is mounted at source, once more, with the flags that it has there. */
int mount_bind(const char *source, const char *path);

/* A directory to mount on: a new one, or one that is there, and no link. */
int mount_point(setup_t *s, const char *path);

/* A new tmpfs with its limits; flags are MS_*. */
int mount_tmpfs(const char *path, uint64_t bytes, unsigned mode,
    unsigned long flags);

/*
 * A new file system that is mounted nowhere yet; options are names and
 * values, then NULL; attr are MOUNT_ATTR_*.
 */
int mount_fs(const char *type, const char *const *options, uint64_t attr);

/* Attaches a tree and closes it. */
int mount_attach(setup_t *s, int tree, const char *path);

/* flags: 0 or AT_RECURSIVE */
int mount_attr(int fd, uint64_t attr, unsigned flags);

/* The directories above path that are not there. */
int mount_parents(setup_t *s, const char *path);

/* The file of an M_FILE, below dir. */
int mount_copy(int dir, const mount_op_t *op);
