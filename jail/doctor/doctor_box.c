/*
 * A box like any other, made by this very program the way a caller makes it,
 * in which the forbidden things are tried; and the things they aim at.
 */

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor/doctor.h"


#define TARGET_OUTPUT_MAX  65536


/*
 * In a box this program comes as --code, which is not executable and whose
 * path is the last word; the working directory takes a copy that is.
 */

#define TARGET_SCRIPT                                                        \
    "cp \"$6\" doctor && chmod 0700 doctor && exec ./doctor doctor "        \
    "--attempt \"$1\" \"$2\" \"$3\" \"$4\" \"$5\""


static json_t *target_lines(const char *text, char *error, size_t cap);
static json_t *target_result(const char *text, layer_result_t *r,
    char *error, size_t cap);


int
target_make(target_t *t)
{
    int                 fd;
    size_t              i;
    uint32_t            n;
    socklen_t           len;
    struct sockaddr_in  sin;

    /* a container may have little that is writable */

    static const char *const  dirs[] = {
        "/tmp", "/dev/shm", "/var/tmp", "/run", "."
    };

    *t = (target_t) { .listener = -1 };

    if (getrandom(&n, sizeof(n), 0) != (ssize_t) sizeof(n)) {
        return -1;
    }

    (void) snprintf(t->name, sizeof(t->name), "host-%08" PRIx32, n);
    (void) snprintf(t->left, sizeof(t->left), "left-%08" PRIx32, n);

    fd = -1;

    for (i = 0; fd == -1 && i < sizeof(dirs) / sizeof(dirs[0]); i++) {
        (void) snprintf(t->file, sizeof(t->file), "%s/jail-doctor-XXXXXX",
                        dirs[i]);
        fd = mkostemp(t->file, O_CLOEXEC);
    }

    if (fd == -1) {
        t->file[0] = '\0';
        return -1;
    }

    (void) close(fd);

    sin = (struct sockaddr_in) {
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)
    };
    len = sizeof(sin);
    t->listener = socket(AF_INET, SOCK_STREAM|SOCK_CLOEXEC, 0);

    if (t->listener == -1
        || bind(t->listener, (struct sockaddr *) &sin, sizeof(sin)) != 0
        || listen(t->listener, 8) != 0
        || getsockname(t->listener, (struct sockaddr *) &sin, &len) != 0)
    {
        return -1;
    }

    (void) snprintf(t->port, sizeof(t->port), "%u",
                    (unsigned) ntohs(sin.sin_port));
    (void) setenv(TARGET_SECRET, "a secret of the caller's", 1);
    (void) prctl(PR_SET_NAME, t->name, 0, 0, 0);

    return 0;
}


void
target_free(target_t *t)
{
    if (t->listener != -1) {
        (void) close(t->listener);
        t->listener = -1;
    }

    if (t->file[0]) {
        (void) unlink(t->file);
        t->file[0] = '\0';
    }

    (void) unsetenv(TARGET_SECRET);
}


json_t *
target_try(const target_t *t, const char *set, bool in_box,
    layer_result_t *r, char *error, size_t cap)
{
    int          out[2], status;
    char         text[TARGET_OUTPUT_MAX];
    pid_t        pid;
    size_t       len;
    ssize_t      n;
    const char  *argv[24];
    unsigned     i;

    i = 0;
    argv[i++] = "jail";

    if (in_box) {
        argv[i++] = "run";
        argv[i++] = "--offline";
        argv[i++] = "--code";
        argv[i++] = "/proc/self/exe";
        argv[i++] = "--";
        argv[i++] = "/bin/sh";
        argv[i++] = "-c";
        argv[i++] = TARGET_SCRIPT;
        argv[i++] = "sh";

    } else {
        argv[i++] = "doctor";
        argv[i++] = "--attempt";
    }

    argv[i++] = set;
    argv[i++] = t->port;
    argv[i++] = t->file;
    argv[i++] = t->name;
    argv[i++] = t->left;
    argv[i] = NULL;

    if (pipe2(out, O_CLOEXEC) != 0) {
        (void) snprintf(error, cap, "pipe: %s", strerror(errno));
        return NULL;
    }

    pid = fork();

    if (pid == 0) {
        (void) dup2(out[1], STDOUT_FILENO);
        (void) execv("/proc/self/exe", (char **) argv);
        _exit(127);
    }

    (void) close(out[1]);
    len = 0;

    while (pid != -1 && len < sizeof(text) - 1) {
        n = read(out[0], text + len, sizeof(text) - 1 - len);

        if (n == 0 || (n == -1 && errno != EINTR)) {
            break;
        }

        len += n > 0 ? (size_t) n : 0;
    }

    (void) close(out[0]);
    text[len] = '\0';

    if (pid == -1) {
        (void) snprintf(error, cap, "fork: %s", strerror(errno));
        return NULL;
    }

    while (waitpid(pid, &status, 0) == -1 && errno == EINTR) { /* void */ }

    return in_box ? target_result(text, r, error, cap)
                  : target_lines(text, error, cap);
}


static json_t *
target_result(const char *text, layer_result_t *r, char *error, size_t cap)
{
    int          i;
    json_t      *result, *fault, *lines;
    const char  *stage, *name, *message, *fix, *reason, *out;

    result = json_loads(text, 0, NULL);

    if (result == NULL) {
        (void) snprintf(error, cap, "the launcher gave no result");
        return NULL;
    }

    lines = NULL;
    fault = json_object_get(result, "error");
    reason = json_string_value(json_object_get(result, "reason"));
    out = json_string_value(json_object_get(result, "stdout"));

    if (json_is_object(fault)) {
        message = json_string_value(json_object_get(fault, "message"));
        (void) snprintf(error, cap, "%s", message ? message : "it failed");

        stage = json_string_value(json_object_get(fault, "stage"));
        name = json_string_value(json_object_get(fault, "errno"));
        fix = json_string_value(json_object_get(fault, "fix"));

        for (i = 0; r && stage && i < STAGE_COUNT; i++) {
            if (strcmp(stage_name((stage_t) i), stage) == 0) {
                r->stage = (stage_t) i;
            }
        }

        for (i = 1; r && name && i < 256; i++) {
            if (errno_name(i) && strcmp(errno_name(i), name) == 0) {
                r->err = i;
                break;
            }
        }

        if (r && fix) {
            (void) snprintf(r->fix, sizeof(r->fix), "%s", fix);
        }

    } else if (reason == NULL || strcmp(reason, "ok") != 0 || out == NULL) {
        (void) snprintf(error, cap, "its end was \"%s\", and it said: %.200s",
                        reason ? reason : "unknown",
                        json_string_value(json_object_get(result, "stderr"))
                        ? json_string_value(json_object_get(result,
                                                            "stderr"))
                        : "");

    } else {
        lines = target_lines(out, error, cap);
    }

    json_decref(result);

    return lines;
}


static json_t *
target_lines(const char *text, char *error, size_t cap)
{
    size_t       n;
    json_t      *array, *line;
    const char  *p;

    array = json_array();

    for (p = text; *p; p += n + (p[n] == '\n')) {
        n = strcspn(p, "\n");
        line = json_loadb(p, n, 0, NULL);

        if (line == NULL || json_array_append_new(array, line) != 0) {
            break;
        }
    }

    if (*p || json_array_size(array) == 0) {
        (void) snprintf(error, cap, "the attempts did not report");
        json_decref(array);
        return NULL;
    }

    return array;
}


pid_t
target_find(const char *name)
{
    FILE           *f;
    DIR            *dir;
    char            path[288], comm[32];
    pid_t           found;
    struct dirent  *de;

    found = 0;
    dir = opendir("/proc");

    while (dir && found == 0 && (de = readdir(dir)) != NULL) {

        if (de->d_name[0] < '1' || de->d_name[0] > '9') {
            continue;
        }

        (void) snprintf(path, sizeof(path), "/proc/%s/comm", de->d_name);
        f = fopen(path, "re");

        if (f == NULL) {
            continue;
        }

        if (fgets(comm, sizeof(comm), f)) {
            comm[strcspn(comm, "\n")] = '\0';

            if (strcmp(comm, name) == 0) {
                found = (pid_t) atoi(de->d_name);
            }
        }

        (void) fclose(f);
    }

    if (dir) {
        (void) closedir(dir);
    }

    return found;
}


/*
 * Everything must have been refused, and every control must have worked.
 * What was left behind always starts, and must be gone.
 */

int
probe_box(doctor_t *d, layer_result_t *r)
{
    bool         refused;
    size_t       i;
    json_t      *a;
    target_t     target;
    const char  *name;

    if (target_make(&target) != 0) {
        target_free(&target);
        return doctor_missing(r, errno, "nothing to aim at can be made");
    }

    d->attempts = target_try(&target, "all", true, r, r->detail,
                             sizeof(r->detail));

    json_array_foreach(d->attempts, i, a) {
        name = json_string_value(json_object_get(a, "name"));

        if (name && strcmp(name, "subprocesses") == 0) {
            refused = (target_find(target.left) == 0);
            (void) json_object_set_new(a, "refused", json_boolean(refused));
            (void) json_object_set_new(a, "errno",
                                       refused ? json_string("ESRCH")
                                               : json_null());
        }
    }

    target_free(&target);

    if (d->attempts == NULL) {
        return -1;
    }

    json_array_foreach(d->attempts, i, a) {
        name = json_string_value(json_object_get(a, "name"));

        if (json_is_true(json_object_get(a, "refused"))
            && json_is_true(json_object_get(a, "control")))
        {
            continue;
        }

        (void) snprintf(r->fix, sizeof(r->fix), "do not run tasks on this "
                        "host, and report what jail doctor --json prints");

        return doctor_missing(r, 0, "\"%s\" was %s in the box",
                              name ? name : "?",
                              json_is_true(json_object_get(a, "refused"))
                              ? "refused with all that is like it"
                              : "not refused");
    }

    (void) snprintf(r->detail, sizeof(r->detail), "%zu things were tried in "
                    "it and refused", json_array_size(d->attempts));

    return 0;
}
