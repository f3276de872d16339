/*
 * The mount system calls.  <sys/mount.h> of glibc 2.36 declares them but
 * cannot be included together with <linux/mount.h>, which has the structures.
 */

#pragma once

#include <linux/mount.h>
#include <sys/syscall.h>
#include <unistd.h>


#ifndef MNT_DETACH
#define MNT_DETACH  2
#endif


static inline int
sys_mount(const char *source, const char *path, const char *type,
    unsigned long flags, const char *options)
{
    return (int) syscall(SYS_mount, source, path, type, flags, options);
}


static inline int
sys_open_tree(int dir, const char *path, unsigned flags)
{
    return (int) syscall(SYS_open_tree, dir, path, flags);
}


static inline int
sys_move_mount(int from, const char *from_path, int to, const char *to_path,
    unsigned flags)
{
    return (int) syscall(SYS_move_mount, from, from_path, to, to_path, flags);
}


static inline int
sys_fsopen(const char *type, unsigned flags)
{
    return (int) syscall(SYS_fsopen, type, flags);
}


static inline int
sys_fsconfig(int fd, unsigned command, const char *key, const void *value,
    int aux)
{
    return (int) syscall(SYS_fsconfig, fd, command, key, value, aux);
}


static inline int
sys_fsmount(int fd, unsigned flags, unsigned attr)
{
    return (int) syscall(SYS_fsmount, fd, flags, attr);
}


static inline int
sys_mount_setattr(int dir, const char *path, unsigned flags,
    struct mount_attr *attr)
{
    return (int) syscall(SYS_mount_setattr, dir, path, flags, attr,
                         sizeof(*attr));
}


static inline int
sys_pivot_root(const char *new_root, const char *put_old)
{
    return (int) syscall(SYS_pivot_root, new_root, put_old);
}


static inline int
sys_umount2(const char *path, int flags)
{
    return (int) syscall(SYS_umount2, path, flags);
}
