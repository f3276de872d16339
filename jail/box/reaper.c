/*
 * pid 1 of the box.  It reaps, so that orphans do not fill the box's limit
 * of processes as zombies; it ends when the launcher ends, so that no box
 * outlives its launcher; and it ends when the main process ends, and the
 * kernel then kills everything else in the pid namespace, however it was
 * daemonised.
 *
 * When it comes here it has no capabilities, cannot be traced or dumped,
 * runs under the task's own seccomp filter, and holds two descriptors.
 * Signals from the box do not reach it: pid 1 has no handlers.
 */

#include <errno.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "box/setup.h"


static void reaper_collect(int lifeline, pid_t main_pid);


noreturn void
reaper_run(int lifeline, int children, pid_t main_pid)
{
    struct pollfd            fds[2];
    struct signalfd_siginfo  si;

    fds[0] = (struct pollfd) { .fd = lifeline, .events = POLLRDHUP };
    fds[1] = (struct pollfd) { .fd = children, .events = POLLIN };

    for ( ;; ) {

        if (poll(fds, 2, -1) == -1 && errno != EINTR) {
            _exit(1);
        }

        if (fds[0].revents) {
            _exit(1);
        }

        if (fds[1].revents) {

            if (read(children, &si, sizeof(si)) == -1 && errno != EINTR
                && errno != EAGAIN)
            {
                _exit(1);
            }

            reaper_collect(lifeline, main_pid);
        }
    }
}


/* One SIGCHLD may stand for many children. */

static void
reaper_collect(int lifeline, pid_t main_pid)
{
    int        status;
    pid_t      pid;
    box_end_t  end;

    for ( ;; ) {
        pid = waitpid(-1, &status, WNOHANG|__WALL);

        if (pid == -1 && errno == EINTR) {
            continue;
        }

        /* without a child the main process is no longer one to wait for */

        if (pid == -1) {
            _exit(1);
        }

        if (pid == 0) {
            return;
        }

        if (pid == main_pid) {
            end.status = status;
            (void) !write(lifeline, &end, sizeof(end));
            _exit(0);
        }
    }
}
