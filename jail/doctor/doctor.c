/*
 * `jail doctor`, the command: its options, the layers one after the other,
 * and the report.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/host.h"
#include "doctor/attempt.h"
#include "doctor/doctor.h"
#include "doctor/doctor_compare.h"
#include "doctor/doctor_report.h"
#include "doctor/layer.h"
#include "run/options.h"
#include "run/run.h"


typedef struct {
    bool         json;
    bool         compare;
    const char  *control;
    const char  *policy;
} doctor_options_t;


static int doctor_parse(doctor_options_t *o, int argc, char **argv,
    fault_t *fault);


int
doctor(int argc, char **argv, const char *version)
{
    int                rc;
    bool               ok;
    char               error[512];
    size_t             i;
    json_t            *compare;
    doctor_t           d;
    fault_t            fault;
    layer_result_t     results[LAYER_MAX];
    doctor_options_t   options;

    if (argc > 0 && strcmp(argv[0], "--attempt") == 0) {
        return attempt_main(argc - 1, argv + 1);
    }

    fault = (fault_t) { 0 };

    if (doctor_parse(&options, argc, argv, &fault) != 0) {
        (void) fprintf(stderr, "jail: %s (see jail --help)\n", fault.message);
        return STATUS_USAGE;
    }

    if (host_is_box()) {
        (void) fault_set(&fault, STAGE_NESTED, 0,
                         "this process is already inside a box");
        (void) fprintf(stderr, "jail: %s; %s\n", fault.message, fault.fix);
        return 1;
    }

    d = (doctor_t) { .control = options.control, .policy = options.policy };
    ok = true;

    for (i = 0; layer_table[i].name; i++) {
        layer_try(&d, i, results);
        ok &= (results[i].state != LAYER_MISSING);
    }

    compare = options.compare ? doctor_compare(error, sizeof(error)) : NULL;

    if (options.json) {
        rc = doctor_report_json(&d, results, compare, ok, version);

    } else {
        rc = 0;
        doctor_report_text(&d, results, ok);

        if (compare) {
            doctor_compare_print(compare);

        } else if (options.compare) {
            (void) printf("\nThe comparison failed: %s\n", error);
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

    if (o->control == NULL && access(PROTOCOL_CONTROL, F_OK) == 0) {
        o->control = PROTOCOL_CONTROL;
    }

    return 0;
}
