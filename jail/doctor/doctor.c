/*
 * The layers of a box as a table, each with the probe that proves it and the
 * stage at which `jail run` would fail without it: what mends it is looked up
 * where `jail run` looks (advice.c), so both say the same.
 *
 * The order is that of the foundations: a layer whose foundation is missing
 * is not tried, since its failure would say nothing new.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/advice.h"
#include "doctor/doctor.h"
#include "base/host.h"
#include "run/options.h"
#include "run/run.h"


typedef struct {
    const char      *name;
    const char      *title;
    const char      *needs;     /* the name of its foundation */
    bool           (*known)(void);  /* missing even where it is not tried */
    bool             required;
    stage_t          stage;
    doctor_probe_t   probe;
} layer_t;


typedef struct {
    bool         json;
    bool         compare;
    const char  *control;
    const char  *policy;
} doctor_options_t;


static int doctor_parse(doctor_options_t *o, int argc, char **argv,
    fault_t *fault);
static void doctor_layer(doctor_t *d, size_t i, layer_result_t *results);
static void doctor_advise(layer_result_t *r);
static json_t *doctor_object(const doctor_t *d, const layer_result_t *results,
    json_t *compare, bool ok, const char *version);
static void doctor_print(const doctor_t *d, const layer_result_t *results,
    bool ok);
static void doctor_print_fix(const layer_result_t *results, size_t i);
static void doctor_print_text(const char *text, int indent, size_t column);
static void doctor_print_profile(void);


static const layer_t  layers[] = {

    { "kernel", "the kernel", NULL, NULL, true, STAGE_NONE, probe_kernel },

    { "user_namespace", "a user namespace", NULL, NULL, true,
      STAGE_NAMESPACES, probe_user },
    { "id_map", "its map of ids", "user_namespace", NULL, true, STAGE_IDMAP,
      probe_map },
    { "capabilities", "capabilities in it, by use", "id_map", NULL, true,
      STAGE_HOSTNAME, probe_capabilities },

    { "mount_namespace", "a mount namespace", "id_map", NULL, true,
      STAGE_NAMESPACES, probe_mount_ns },
    { "pid_namespace", "a pid namespace", "id_map", NULL, true,
      STAGE_NAMESPACES, probe_pid_ns },
    { "net_namespace", "a net namespace", "id_map", NULL, true,
      STAGE_NAMESPACES, probe_net_ns },
    { "ipc_namespace", "an ipc namespace", "id_map", NULL, true,
      STAGE_NAMESPACES, probe_ipc_ns },
    { "uts_namespace", "a uts namespace", "id_map", NULL, true,
      STAGE_NAMESPACES, probe_uts_ns },
    { "cgroup_namespace", "a cgroup namespace", "id_map", NULL, true,
      STAGE_CGROUP_NAMESPACE, probe_cgroup_ns },
    { "time_namespace", "a time namespace", "id_map", NULL, false,
      STAGE_NAMESPACES, probe_time_ns },

    { "loopback", "its loopback interface", "net_namespace", NULL, true,
      STAGE_NET_LO, probe_loopback },
    { "routes", "IPv4 addresses lead to it", "loopback", NULL, true,
      STAGE_NET_ROUTE, probe_routes },
    { "routes_ipv6", "IPv6 addresses lead to it", "routes", NULL, false,
      STAGE_NET_ROUTE, probe_routes_v6 },
    { "low_ports", "listening on ports 53, 80, 443", "net_namespace", NULL,
      true, STAGE_DOORS, probe_ports },

    { "mount_private", "mounts apart from the host's", "mount_namespace",
      NULL, true, STAGE_PROPAGATION, probe_private },
    { "tmpfs", "a tmpfs with bounds", "mount_namespace", NULL, true,
      STAGE_ROOT, probe_tmpfs },
    { "read_only", "the host's /usr, read-only", "mount_namespace", NULL,
      true, STAGE_MOUNT, probe_bind },
    { "proc", "its own /proc", "mount_namespace", host_proc_is_masked, true,
      STAGE_MOUNT, probe_proc },
    { "pts", "its own /dev/pts", "mount_namespace", NULL, true, STAGE_MOUNT,
      probe_pts },
    { "pivot_root", "leaving the host's root", "mount_namespace", NULL, true,
      STAGE_PIVOT, probe_pivot },

    { "clone3", "clone3", NULL, NULL, false, STAGE_NAMESPACES, probe_clone3 },
    { "pidfd", "descriptors of processes", NULL, NULL, true, STAGE_NAMESPACES,
      probe_pidfd },
    { "close_range", "close_range", NULL, NULL, true, STAGE_DESCRIPTORS,
      probe_close_range },
    { "openat2", "openat2", NULL, NULL, true, STAGE_EXEC, probe_openat2 },
    { "memfd", "sealed memory files", NULL, NULL, true, STAGE_CODE,
      probe_memfd },
    { "no_new_privs", "no_new_privs", NULL, NULL, true, STAGE_PRIVILEGES,
      probe_privileges },
    { "seccomp", "the filter of system calls", "no_new_privs", NULL, true,
      STAGE_SECCOMP, probe_seccomp },
    { "landlock", "Landlock", "no_new_privs", NULL, true, STAGE_LANDLOCK,
      probe_landlock },

    { "cgroup", "a cgroup with limits", NULL, NULL, true, STAGE_CGROUP,
      probe_cgroup },
    { "cgroup_cpu", "the controller cpu", NULL, NULL, true, STAGE_CGROUP,
      probe_cpu },
    { "cgroup_memory", "the controller memory", NULL, NULL, true,
      STAGE_CGROUP, probe_memory },
    { "cgroup_pids", "the controller pids", NULL, NULL, true, STAGE_CGROUP,
      probe_pids },

    { "broker", "the broker", NULL, NULL, true, STAGE_BROKER, probe_broker },
    { "core_pattern", "crashes start no program", NULL, NULL, false, STAGE_NONE,
      probe_core },

    /* and all of it together */

    { "box", "a box", NULL, NULL, true, STAGE_NONE, probe_box },
};

#define LAYERS  (sizeof(layers) / sizeof(layers[0]))


static const char *const  state_names[] = {
    [LAYER_OK] = "ok",
    [LAYER_MISSING] = "missing",
    [LAYER_WARNING] = "warning",
    [LAYER_SKIPPED] = "skipped"
};


int
doctor(int argc, char **argv, const char *version)
{
    int                rc;
    bool               ok;
    char               error[512];
    size_t             i;
    json_t            *object, *compare;
    doctor_t           d;
    fault_t            fault;
    layer_result_t     results[LAYERS];
    doctor_options_t   options;

    if (argc > 0 && strcmp(argv[0], "--attempt") == 0) {
        return doctor_attempt(argc - 1, argv + 1);
    }

    fault = (fault_t) { 0 };

    if (doctor_parse(&options, argc, argv, &fault) != 0) {
        (void) fprintf(stderr, "jail: %s (see jail --help)\n", fault.message);
        return STATUS_USAGE;
    }

    if (host_is_box()) {
        (void) fault_set(&fault, STAGE_NESTED, 0,
                         "this is already inside a box");
        (void) fprintf(stderr, "jail: %s; %s\n", fault.message, fault.fix);
        return 1;
    }

    d = (doctor_t) { .control = options.control, .policy = options.policy };
    ok = true;

    for (i = 0; i < LAYERS; i++) {
        doctor_layer(&d, i, results);
        ok &= (results[i].state != LAYER_MISSING);
    }

    compare = options.compare ? doctor_compare(error, sizeof(error)) : NULL;

    if (options.json) {
        object = doctor_object(&d, results, compare, ok, version);
        rc = object ? json_dumpf(object, stdout, JSON_COMPACT) : -1;
        (void) putchar('\n');
        json_decref(object);

    } else {
        doctor_print(&d, results, ok);
        rc = 0;

        if (compare) {
            doctor_compare_print(compare, stdout);

        } else if (options.compare) {
            (void) printf("\nNothing to compare with: %s\n", error);
        }
    }

    json_decref(compare);
    json_decref(d.attempts);

    return fflush(stdout) == 0 && rc == 0 && ok ? 0 : 1;
}


static int
doctor_parse(doctor_options_t *o, int argc, char **argv, fault_t *fault)
{
    int           i;
    const char  **value;

    *o = (doctor_options_t) { 0 };

    for (i = 0; i < argc; i++) {
        value = strcmp(argv[i], "--control") == 0 ? &o->control
                : strcmp(argv[i], "--policy") == 0 ? &o->policy : NULL;

        if (strcmp(argv[i], "--json") == 0) {
            o->json = true;

        } else if (strcmp(argv[i], "--compare") == 0) {
            o->compare = true;

        } else if (value && i + 1 < argc && argv[i + 1][0]) {
            *value = argv[++i];

        } else if (value) {
            return fault_set(fault, STAGE_USAGE, 0, "%s needs an argument",
                             argv[i]);

        } else {
            return fault_set(fault, STAGE_USAGE, 0,
                             "doctor takes no argument \"%.80s\"", argv[i]);
        }
    }

    if (o->control == NULL) {
        o->control = getenv("AGENT_BROKER_CONTROL");
    }

    if (o->control && o->control[0] == '\0') {
        o->control = NULL;
    }

    if (o->control == NULL && access(OPTIONS_CONTROL, F_OK) == 0) {
        o->control = OPTIONS_CONTROL;
    }

    return 0;
}


static void
doctor_layer(doctor_t *d, size_t i, layer_result_t *results)
{
    size_t           j;
    const layer_t   *l;
    layer_result_t  *r;

    l = &layers[i];
    r = &results[i];
    *r = (layer_result_t) { .state = LAYER_OK, .stage = l->stage };

    for (j = 0; l->needs && j < i; j++) {
        if (strcmp(layers[j].name, l->needs) == 0
            && results[j].state != LAYER_OK)
        {
            r->state = LAYER_SKIPPED;
            r->needs = l->needs;
            (void) snprintf(r->detail, sizeof(r->detail), "needs %s",
                            l->needs);

            if (l->known && l->known()) {
                r->state = LAYER_MISSING;
                r->err = EPERM;
                r->cause = CAUSE_PROC_MOUNT;
                (void) snprintf(r->detail, sizeof(r->detail), "it was not "
                                "tried, and would fail: /proc is masked");
                doctor_advise(r);
            }

            return;
        }
    }

    if (l->probe(d, r) == 0) {
        return;
    }

    if (r->state == LAYER_OK) {
        r->state = l->required ? LAYER_MISSING : LAYER_WARNING;
    }

    /* for the box, whose launcher is this process and not the caller's */

    for (j = 0; l->stage == STAGE_NONE && r->stage != STAGE_NONE && j < i;
         j++)
    {
        if (results[j].state == LAYER_MISSING && results[j].stage == r->stage)
        {
            (void) strcpy(r->fix, results[j].fix);
            break;
        }
    }

    doctor_advise(r);
}


static void
doctor_advise(layer_result_t *r)
{
    const char  *fix;

    if (r->fix[0] == '\0') {
        fix = advice(r->stage, r->err, r->cause);
        (void) snprintf(r->fix, sizeof(r->fix), "%s", fix ? fix : "");
    }
}


static json_t *
doctor_object(const doctor_t *d, const layer_result_t *results,
    json_t *compare, bool ok, const char *version)
{
    size_t                 i;
    json_t                *list;
    struct utsname         u;
    const layer_result_t  *r;

    list = json_array();

    for (i = 0; i < LAYERS; i++) {
        r = &results[i];
        (void) json_array_append_new(list,
            json_pack("{s:s, s:s, s:b, s:s?, s:s?, s:s, s:s?}",
                      "name", layers[i].name,
                      "state", state_names[r->state],
                      "required", layers[i].required,
                      "stage", r->stage == STAGE_NONE ? NULL
                                                      : stage_name(r->stage),
                      "errno", r->state == LAYER_OK ? NULL
                                                    : errno_name(r->err),
                      "detail", r->detail,
                      "fix", r->fix[0] ? r->fix : NULL));
    }

    (void) uname(&u);

    return json_pack("{s:i, s:b, s:s, s:s, s:I, s:b, s:o, s:o, s:O?}",
                     "schema", 1,
                     "ok", ok,
                     "version", version,
                     "kernel", u.release,
                     "uid", (json_int_t) geteuid(),
                     "container", host_is_container(),
                     "layers", list,
                     "attempts", d->attempts ? json_incref(d->attempts)
                                             : json_array(),
                     "compare", compare);
}


static void
doctor_print(const doctor_t *d, const layer_result_t *results, bool ok)
{
    char                   text[600];
    size_t                 i, missing, skipped;
    json_t                *a;
    const char            *name, *err;
    layer_state_t          broker;
    const layer_result_t  *r;

    missing = 0;
    skipped = 0;
    broker = LAYER_OK;

    for (i = 0; i < LAYERS; i++) {
        r = &results[i];

        /* they would say nothing that their foundation does not */

        if (r->state == LAYER_SKIPPED && r->needs) {
            skipped++;
            continue;
        }

        missing += (r->state == LAYER_MISSING);

        if (layers[i].stage == STAGE_BROKER) {
            broker = r->state;
        }

        name = r->state == LAYER_OK ? NULL : errno_name(r->err);

        (void) snprintf(text, sizeof(text), "%s%s%s", name ? name : "",
                        name && r->detail[0] ? ": " : "", r->detail);
        (void) printf("%-8s %-31s", r->state == LAYER_MISSING
                                    ? "MISSING" : state_names[r->state],
                      layers[i].title);
        doctor_print_text(text, 40, 40);

        if (r->fix[0]) {
            doctor_print_fix(results, i);
        }
    }

    if (skipped) {
        (void) printf("skipped  %zu that stand on what is missing\n", skipped);
    }

    if (d->attempts) {
        (void) printf("\nTried in a box, and the error it gave (each with a "
                      "harmless neighbour\nthat worked):\n\n");
    }

    json_array_foreach(d->attempts, i, a) {
        name = json_string_value(json_object_get(a, "name"));
        err = json_string_value(json_object_get(a, "errno"));
        (void) printf("%-8s %-31s%s%s\n", err ? "refused" : "DONE",
                      name && attempt_title(name) ? attempt_title(name) : "",
                      err ? err : "",
                      json_is_true(json_object_get(a, "control"))
                      ? "" : " (and its neighbour did not work)");
    }

    if (ok) {
        (void) printf("\nThis host can give a box%s.\n",
                      broker == LAYER_SKIPPED
                      ? ", but only with --offline: there is no broker"
                      : broker == LAYER_WARNING
                      ? " to who names a policy that the broker has" : "");

    } else {
        (void) printf("\nThis host cannot give a box: %zu of %zu layers are "
                      "missing.\n", missing, LAYERS);
    }

    for (i = 0; i < LAYERS; i++) {
        if (advice_is_profile(results[i].fix)) {
            doctor_print_profile();
            break;
        }
    }
}


static void
doctor_print_fix(const layer_result_t *results, size_t i)
{
    size_t  n;

    for (n = 0; n < i; n++) {
        if (strcmp(results[n].fix, results[i].fix) == 0) {
            (void) printf("         fix: the same as of %s\n",
                          layers[n].title);
            return;
        }
    }

    (void) printf("         fix: ");
    doctor_print_text(results[i].fix, 14, 14);
}


/* A word is never cut: it may have to be pasted. */

static void
doctor_print_text(const char *text, int indent, size_t column)
{
    size_t       n;
    const char  *p;

    for (p = text; *p; p += n + (p[n] == ' ')) {
        n = strcspn(p, " ");

        if (column + n > 79 && column > (size_t) indent) {
            (void) printf("\n%*s", indent, "");
            column = (size_t) indent;
        }

        (void) printf("%s%.*s", column > (size_t) indent ? " " : "", (int) n,
                      p);
        column += n + (column > (size_t) indent);
    }

    (void) putchar('\n');
}


/* For this program where it is now. */

static void
doctor_print_profile(void)
{
    char     path[4096];
    ssize_t  n;

    n = readlink("/proc/self/exe", path, sizeof(path) - 1);

    if (n <= 0) {
        return;
    }

    path[n] = '\0';

    (void) printf("\n" ADVICE_PROFILE ":\n\n"
                  "abi <abi/4.0>,\n"
                  "include <tunables/global>\n\n"
                  "profile agent-jail %s flags=(unconfined) {\n"
                  "  userns,\n\n"
                  "  include if exists <local/agent-jail>\n"
                  "}\n", path);
}
