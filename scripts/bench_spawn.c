/*
 * Measures the time and CPU from the start of a command to its end.
 *
 *     bench_spawn ROUNDS[xWAYS] row:NAME COMMAND ARG... [row:NAME ...]...
 *
 * In each round every command runs once; the command that is first moves on
 * by one each round.  When the machine is busy for a while, it is busy for all
 * of them, so the ratios hold even where the times drift.  A time is from
 * posix_spawn to the end that wait4 reports, in microseconds.  CPU is what
 * wait4 reports of the command and of all that it started.  What it leaves
 * behind (bubblewrap does not wait until its box is removed) becomes a child
 * of this process, the subreaper, which waits for it and counts it before the
 * next run.  Output goes to /dev/null.
 *
 * With WAYS, a command runs WAYS * BATCH times in a round, WAYS at a time, and
 * the time of one run is that of all divided by their number.
 *
 * Prints one line for each command: name, runs, minimum, median, 99th
 * percentile, median CPU, separated by tabs.  If a run fails, the program
 * ends with an error.
 */

#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>


#define ROWS_MAX    16
#define ROUNDS_MAX  100000
#define WARM_UP     5
#define WAYS_MAX    64
#define BATCH       5


typedef struct {
    char      *name;
    char     **argv;
    uint64_t  *wall;            /* microseconds, one a round */
    uint64_t  *cpu;
} row_t;


extern char  **environ;


static size_t parse_rows(int argc, char **argv, row_t *rows);
static int run_once(char **argv, uint64_t *wall, uint64_t *cpu);
static int run_batch(char **argv, unsigned ways, uint64_t *wall,
    uint64_t *cpu);
static int start(char **argv, pid_t *pid);
static uint64_t cpu_time(const struct rusage *usage);
static uint64_t now(void);
static int compare(const void *one, const void *two);
static uint64_t percentile(const uint64_t *sorted, size_t n, unsigned share);


int
main(int argc, char **argv)
{
    int       rc;
    char     *end;
    long      rounds, round, ways;
    row_t     rows[ROWS_MAX], *row;
    size_t    i, n;
    uint64_t  wall, cpu;

    ways = 1;
    rounds = argc > 3 ? strtol(argv[1], &end, 10) : 0;
    n = argc > 3 ? parse_rows(argc - 2, argv + 2, rows) : 0;

    if (rounds && *end == 'x') {
        ways = strtol(end + 1, NULL, 10);
    }

    if (rounds < 1 || rounds > ROUNDS_MAX || ways < 1 || ways > WAYS_MAX
        || n == 0)
    {
        (void) fprintf(stderr, "usage: bench_spawn ROUNDS[xWAYS] "
                       "row:NAME COMMAND ARG...\n");
        return 2;
    }

    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
        perror("prctl");
        return 1;
    }

    for (i = 0; i < n; i++) {
        rows[i].wall = calloc((size_t) rounds, sizeof(uint64_t));
        rows[i].cpu = calloc((size_t) rounds, sizeof(uint64_t));

        if (rows[i].wall == NULL || rows[i].cpu == NULL) {
            perror("calloc");
            return 1;
        }
    }

    for (round = ways == 1 ? -WARM_UP : -1; round < rounds; round++) {

        for (i = 0; i < n; i++) {
            row = &rows[(i + (size_t) (round + WARM_UP)) % n];

            rc = ways == 1 ? run_once(row->argv, &wall, &cpu)
                           : run_batch(row->argv, (unsigned) ways, &wall,
                                       &cpu);

            if (rc != 0) {
                (void) fprintf(stderr, "bench_spawn: \"%s\" failed\n",
                               row->name);
                return 1;
            }

            if (round >= 0) {
                row->wall[round] = wall;
                row->cpu[round] = cpu;
            }
        }
    }

    for (row = rows; row < rows + n; row++) {
        qsort(row->wall, (size_t) rounds, sizeof(uint64_t), compare);
        qsort(row->cpu, (size_t) rounds, sizeof(uint64_t), compare);

        (void) printf("%s\t%ld\t%llu\t%llu\t%llu\t%llu\n", row->name, rounds,
            (unsigned long long) row->wall[0],
            (unsigned long long) percentile(row->wall, (size_t) rounds, 50),
            (unsigned long long) percentile(row->wall, (size_t) rounds, 99),
            (unsigned long long) percentile(row->cpu, (size_t) rounds, 50));
    }

    return 0;
}


/* A row ends where the next one's name is; commands may hold "--". */

static size_t
parse_rows(int argc, char **argv, row_t *rows)
{
    int     i;
    size_t  n;

    n = 0;

    for (i = 0; i < argc; i++) {

        if (strncmp(argv[i], "row:", 4) != 0) {
            continue;
        }

        if (n == ROWS_MAX || i + 1 >= argc) {
            return 0;
        }

        rows[n].name = argv[i] + 4;
        rows[n].argv = &argv[i + 1];
        argv[i] = NULL;                     /* ends the row before */
        n++;
    }

    return n;
}


static int
run_once(char **argv, uint64_t *wall, uint64_t *cpu)
{
    int            status, ignored;
    pid_t          pid;
    uint64_t       begin;
    struct rusage  usage;

    begin = now();

    if (start(argv, &pid) != 0 || wait4(pid, &status, 0, &usage) != pid) {
        return -1;
    }

    *wall = now() - begin;
    *cpu = cpu_time(&usage);

    while (wait4(-1, &ignored, 0, &usage) > 0) {
        *cpu += cpu_time(&usage);
    }

    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}


static int
run_batch(char **argv, unsigned ways, uint64_t *wall, uint64_t *cpu)
{
    int            status;
    pid_t          pid, pids[WAYS_MAX];
    unsigned       i, ended, started, total;
    uint64_t       begin;
    struct rusage  usage;

    total = ways * BATCH;
    begin = now();
    *cpu = 0;

    for (started = 0; started < ways; started++) {
        if (start(argv, &pids[started]) != 0) {
            return -1;
        }
    }

    for (ended = 0; ended < total; /* void */) {
        pid = wait4(-1, &status, 0, &usage);

        if (pid == -1) {
            return -1;
        }

        *cpu += cpu_time(&usage);

        for (i = 0; i < ways && pids[i] != pid; i++) { /* void */ }

        if (i == ways) {
            continue;                   /* left behind by one of them */
        }

        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            return -1;
        }

        ended++;
        pids[i] = -1;

        if (started < total) {
            if (start(argv, &pids[i]) != 0) {
                return -1;
            }

            started++;
        }
    }

    *wall = (now() - begin) / total;

    while (wait4(-1, &status, 0, &usage) > 0) {
        *cpu += cpu_time(&usage);
    }

    *cpu /= total;

    return 0;
}


static int
start(char **argv, pid_t *pid)
{
    int                         rc;
    posix_spawn_file_actions_t  actions;

    if (posix_spawn_file_actions_init(&actions) != 0
        || posix_spawn_file_actions_addopen(&actions, 0, "/dev/null",
                                            O_RDONLY, 0) != 0
        || posix_spawn_file_actions_addopen(&actions, 1, "/dev/null",
                                            O_WRONLY, 0) != 0)
    {
        return -1;
    }

    rc = posix_spawn(pid, argv[0], &actions, NULL, argv, environ);

    (void) posix_spawn_file_actions_destroy(&actions);

    return rc == 0 ? 0 : -1;
}


static uint64_t
cpu_time(const struct rusage *usage)
{
    return (uint64_t) (usage->ru_utime.tv_sec + usage->ru_stime.tv_sec)
           * 1000000
           + (uint64_t) (usage->ru_utime.tv_usec + usage->ru_stime.tv_usec);
}


static uint64_t
now(void)
{
    struct timespec  ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts);

    return (uint64_t) ts.tv_sec * 1000000 + (uint64_t) ts.tv_nsec / 1000;
}


static int
compare(const void *one, const void *two)
{
    uint64_t  a, b;

    a = *(const uint64_t *) one;
    b = *(const uint64_t *) two;

    return (a > b) - (a < b);
}


static uint64_t
percentile(const uint64_t *sorted, size_t n, unsigned share)
{
    size_t  i;

    i = (n * share + 99) / 100;

    return sorted[i > 0 ? i - 1 : 0];
}
