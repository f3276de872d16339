/*
 * Makes the connections that scripts/bench_doors measures: each of PROCESSES
 * processes makes one after another, for MILLISECONDS.
 *
 *   bench_tls MODE PORT NAME PROCESSES MILLISECONDS
 *
 *   handshake   a full TLS handshake with NAME in its SNI
 *   names       the same, with a new name under NAME each time
 *   connect     a connection that is closed without sending anything
 *
 * Prints the number of connections, the number that failed, and the median and
 * 99th percentile of their times in microseconds, separated by tabs.
 */

#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <openssl/ssl.h>


#define SAMPLES_MAX  200000


typedef enum {
    MODE_HANDSHAKE = 0,
    MODE_NAMES,
    MODE_CONNECT
} bench_mode_t;


static int64_t
now(void)
{
    struct timespec  ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts);

    return (int64_t) ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}


static int
dial(int port)
{
    int                 fd;
    struct sockaddr_in  sin;

    memset(&sin, 0, sizeof(sin));
    sin.sin_family = AF_INET;
    sin.sin_port = htons((uint16_t) port);
    sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

    fd = socket(AF_INET, SOCK_STREAM, 0);

    if (fd != -1
        && connect(fd, (struct sockaddr *) &sin, sizeof(sin)) == -1)
    {
        (void) close(fd);
        return -1;
    }

    return fd;
}


static int
handshake(SSL_CTX *ctx, int fd, const char *name)
{
    int   rc;
    SSL  *ssl;

    ssl = SSL_new(ctx);

    rc = ssl && SSL_set_fd(ssl, fd) == 1
         && SSL_set_tlsext_host_name(ssl, name) == 1
         && SSL_connect(ssl) == 1;

    if (rc) {
        SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN|SSL_RECEIVED_SHUTDOWN);
    }

    SSL_free(ssl);

    return rc;
}


static int
closed(int fd)
{
    char  byte;

    return shutdown(fd, SHUT_WR) == 0 && read(fd, &byte, 1) == 0;
}


static void
run(bench_mode_t mode, int port, const char *name, int ms, int out)
{
    int       fd, ok;
    char      text[300];
    int64_t   begin, end, start;
    SSL_CTX  *ctx;

    static int32_t  times[SAMPLES_MAX];
    int32_t         n, counts[2] = { 0, 0 };

    ctx = SSL_CTX_new(TLS_client_method());

    (void) SSL_CTX_set1_groups_list(ctx, "X25519:P-256");

    begin = now();
    end = begin + (int64_t) ms * 1000;

    for (n = 0, start = begin; start < end; n++) {

        (void) snprintf(text, sizeof(text), "%.250s", name);

        if (mode == MODE_NAMES) {
            (void) snprintf(text, sizeof(text), "h%x-%llx.%.200s",
                            (unsigned) getpid(), (unsigned long long) start,
                            name);
        }

        fd = dial(port);

        ok = fd != -1 && (mode == MODE_CONNECT ? closed(fd)
                                               : handshake(ctx, fd, text));

        if (fd != -1) {
            (void) close(fd);
        }

        counts[ok ? 0 : 1]++;

        if (n < SAMPLES_MAX) {
            times[n] = (int32_t) (now() - start);
        }

        start = now();
    }

    n = n < SAMPLES_MAX ? n : SAMPLES_MAX;

    if (write(out, counts, sizeof(counts)) != sizeof(counts)
        || write(out, &n, sizeof(n)) != sizeof(n))
    {
        _exit(1);
    }

    for (ok = 0; ok < n; ok += 1024) {

        size_t  left = (size_t) (n - ok < 1024 ? n - ok : 1024);

        if (write(out, times + ok, left * sizeof(times[0])) == -1) {
            _exit(1);
        }
    }

    _exit(0);
}


static int
by_size(const void *a, const void *b)
{
    int32_t  x = *(const int32_t *) a, y = *(const int32_t *) b;

    return (x > y) - (x < y);
}


int
main(int argc, char **argv)
{
    int       i, processes, pipes[64][2];
    FILE     *f;
    size_t    total;
    int32_t   n, counts[2], sum[2] = { 0, 0 }, *all;

    static const char *const  modes[] = { "handshake", "names", "connect" };

    for (i = 0; i < 3 && argc == 6 && strcmp(argv[1], modes[i]) != 0; i++) {
        /* void */
    }

    processes = argc == 6 ? atoi(argv[4]) : 0;

    if (i == 3 || processes < 1 || processes > 64) {
        (void) fprintf(stderr, "usage: bench_tls handshake|names|connect "
                       "PORT NAME PROCESSES MILLISECONDS\n");
        return 2;
    }

    bench_mode_t  mode = (bench_mode_t) i;

    for (i = 0; i < processes; i++) {

        if (pipe(pipes[i]) == -1) {
            return 1;
        }

        switch (fork()) {

        case -1:
            return 1;

        case 0:
            run(mode, atoi(argv[2]), argv[3], atoi(argv[5]), pipes[i][1]);
        }

        (void) close(pipes[i][1]);
    }

    all = NULL;
    total = 0;

    for (i = 0; i < processes; i++) {

        f = fdopen(pipes[i][0], "r");

        if (f == NULL || fread(counts, sizeof(counts), 1, f) != 1
            || fread(&n, sizeof(n), 1, f) != 1 || n < 0)
        {
            return 1;
        }

        sum[0] += counts[0];
        sum[1] += counts[1];

        all = realloc(all, (total + (size_t) n + 1) * sizeof(int32_t));

        if (all == NULL
            || fread(all + total, sizeof(int32_t), (size_t) n, f)
               != (size_t) n)
        {
            return 1;
        }

        total += (size_t) n;
        (void) fclose(f);
    }

    while (wait(NULL) > 0) {
        /* void */
    }

    qsort(all, total, sizeof(int32_t), by_size);

    (void) printf("%d\t%d\t%d\t%d\n", sum[0], sum[1],
                  total ? all[total / 2] : 0,
                  total ? all[total * 99 / 100] : 0);

    return 0;
}
