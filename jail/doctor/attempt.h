/*
 * What is tried inside, by doctor_attempt.c: one function a thing.
 */

#ifndef JAIL_ATTEMPT_H
#define JAIL_ATTEMPT_H


/* What the attempts aim at; strings of the command line. */
typedef struct {
    const char  *port;
    const char  *file;
    const char  *name;
    const char  *left;
} aim_t;


/* 0: it went through; else errno */
typedef int (*attempt_try_t)(const aim_t *aim);


int try_environment(const aim_t *aim);
int try_home(const aim_t *aim);
int try_file(const aim_t *aim);
int try_passwd(const aim_t *aim);
int try_host(const aim_t *aim);
int try_own_loopback(const aim_t *aim);
int try_leave(const aim_t *aim);
int try_fork(const aim_t *aim);
int try_other(const aim_t *aim);
int try_raw(const aim_t *aim);
int try_socket(const aim_t *aim);
int try_root(const aim_t *aim);
int try_usr(const aim_t *aim);
int try_here(const aim_t *aim);
int try_shadow(const aim_t *aim);
int try_processes(const aim_t *aim);
int try_self(const aim_t *aim);
int try_ptrace(const aim_t *aim);
int try_signal(const aim_t *aim);
int try_mount(const aim_t *aim);
int try_mkdir(const aim_t *aim);
int try_unshare(const aim_t *aim);
int try_keyctl(const aim_t *aim);
int try_getpid(const aim_t *aim);
int try_tiocsti(const aim_t *aim);
int try_tty(const aim_t *aim);
int try_device(const aim_t *aim);
int try_fifo(const aim_t *aim);
int try_bpf(const aim_t *aim);
int try_io_uring(const aim_t *aim);
int try_epoll(const aim_t *aim);
int try_setuid(const aim_t *aim);
int try_setuid_own(const aim_t *aim);

int attempt_connect(const char *address, unsigned port);
int attempt_open(const char *path, int flags);
int attempt_child(int (*body)(void));



#endif /* JAIL_ATTEMPT_H */
