/*
 * A value as agent-vault gets it: from standard input, never from an argument,
 * which every user of the host can read.  It goes from the kernel into locked
 * memory, through no buffer of a library.
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* ppoll */
#endif

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "tools/agent_vault.h"


#define ROOM  (VAULT_VALUE_MAX + 16)    /* a longer one is seen as such */


static int agent_vault_value_read(const char *name, unsigned char *p,
    size_t *n, char err[VAULT_ERROR_MAX]);
static ssize_t agent_vault_value_line(unsigned char *p,
    const sigset_t *waiting);
static void agent_vault_value_stop(int signo);


static volatile sig_atomic_t  agent_vault_stopped;


int
agent_vault_value(const char *name, vault_memory_t *memory, size_t *n,
    char err[VAULT_ERROR_MAX])
{
    if (vault_memory_alloc(memory, ROOM) != 0) {
        return vault_file_refuse(err, "no memory");
    }

    if (agent_vault_value_read(name, memory->data, n, err) != 0) {
        vault_memory_free(memory);
        return -1;
    }

    return 0;
}


static int
agent_vault_value_read(const char *name, unsigned char *p, size_t *n,
    char err[VAULT_ERROR_MAX])
{
    bool                  is_terminal;
    size_t                i;
    ssize_t               got;
    sigset_t              blocked, unblocked;
    const char           *why;
    unsigned char        *end;
    struct termios        before, quiet;
    struct sigaction      stop, old[4];
    static const int      signals[4] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

    is_terminal = (isatty(STDIN_FILENO) == 1);

    if (is_terminal) {

        /* the echo comes back whatever ends this; ^Z would leave it off */

        memset(&stop, 0, sizeof(stop));
        stop.sa_handler = agent_vault_value_stop;
        (void) sigemptyset(&blocked);

        for (i = 0; i < 4; i++) {
            (void) sigaddset(&blocked, signals[i]);
            (void) sigaction(signals[i], &stop, &old[i]);
        }

        (void) sigprocmask(SIG_BLOCK, &blocked, &unblocked);

        if (tcgetattr(STDIN_FILENO, &before) != 0) {
            return vault_file_refuse(err, "the terminal cannot be read: %s",
                                     strerror(errno));
        }

        quiet = before;
        quiet.c_lflag &= ~(tcflag_t) (ECHO | ECHONL);
        quiet.c_cc[VSUSP] = _POSIX_VDISABLE;

        if (tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet) != 0) {
            return vault_file_refuse(err, "the terminal's echo cannot be "
                                     "turned off: %s", strerror(errno));
        }

        (void) !write(STDERR_FILENO, "value of ", 9);
        (void) !write(STDERR_FILENO, name, strlen(name));
        (void) !write(STDERR_FILENO, " (not shown): ", 14);
    }

    got = agent_vault_value_line(p, is_terminal ? &unblocked : NULL);

    if (is_terminal) {
        (void) tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
        (void) !write(STDERR_FILENO, "\n", 1);

        for (i = 0; i < 4; i++) {
            (void) sigaction(signals[i], &old[i], NULL);
        }

        (void) sigprocmask(SIG_SETMASK, &unblocked, NULL);
    }

    if (agent_vault_stopped) {
        OPENSSL_cleanse(p, ROOM);
        (void) raise(agent_vault_stopped);
        return vault_file_refuse(err, "it was interrupted");
    }

    if (got == -1) {
        return vault_file_refuse(err, "standard input cannot be read: %s",
                                 strerror(errno));
    }

    end = memchr(p, '\n', (size_t) got);

    if (end && end + 1 != p + got) {
        return vault_file_refuse(err, "standard input has more than one line: "
                                 "it must be the value and nothing else");
    }

    *n = end ? (size_t) (end - p) : (size_t) got;

    why = *n ? vault_lines_judge_value(p, *n)
             : "there is no value on standard input";

    return why ? vault_file_refuse(err, "entry \"%s\": %s", name, why) : 0;
}


/*
 * Up to the end of the input, or of a line that was typed, for which it waits
 * with this mask of signals: one that comes just before is not missed.
 */

static ssize_t
agent_vault_value_line(unsigned char *p, const sigset_t *waiting)
{
    size_t         len;
    ssize_t        n;
    struct pollfd  input = { .fd = STDIN_FILENO, .events = POLLIN };

    for (len = 0; len < ROOM; len += (size_t) n) {

        if (waiting && ppoll(&input, 1, NULL, waiting) == -1
            && agent_vault_stopped)
        {
            return -1;
        }

        n = read(STDIN_FILENO, p + len, ROOM - len);

        if (n == -1 && errno == EINTR) {
            n = 0;
            continue;
        }

        if (n == -1) {
            return -1;
        }

        if (n == 0) {
            break;
        }

        if (waiting && memchr(p + len, '\n', (size_t) n)) {
            return (ssize_t) (len + (size_t) n);
        }
    }

    return (ssize_t) len;
}


static void
agent_vault_value_stop(int signo)
{
    agent_vault_stopped = signo;
}
