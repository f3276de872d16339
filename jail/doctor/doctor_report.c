/*
 * The report of `jail doctor`.
 */

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/advice.h"
#include "base/host.h"
#include "doctor/attempt.h"
#include "doctor/doctor_report.h"


static void doctor_report_fix(const layer_result_t *results, size_t i);
static void doctor_report_words(const char *text, int indent, size_t column);
static void doctor_report_profile(void);


static const char *const  state_names[] = {
    [LAYER_OK] = "ok",
    [LAYER_MISSING] = "missing",
    [LAYER_WARNING] = "warning",
    [LAYER_SKIPPED] = "skipped"
};


int
doctor_report_json(const doctor_t *d, const layer_result_t *results,
    json_t *compare, bool ok, const char *version)
{
    int                    rc;
    size_t                 i;
    json_t                *object, *list;
    struct utsname         u;
    const layer_result_t  *r;

    list = json_array();

    for (i = 0; layer_table[i].name; i++) {
        r = &results[i];
        (void) json_array_append_new(list,
            json_pack("{s:s, s:s, s:b, s:s?, s:s?, s:s, s:s?}",
                      "name", layer_table[i].name,
                      "state", state_names[r->state],
                      "required", layer_table[i].required,
                      "stage", r->stage == STAGE_NONE
                               ? NULL : fault_stage_name(r->stage),
                      "errno", r->state == LAYER_OK
                               ? NULL : fault_errno_name(r->err),
                      "detail", r->detail,
                      "fix", r->fix[0] ? r->fix : NULL));
    }

    (void) uname(&u);

    object = json_pack("{s:i, s:b, s:s, s:s, s:I, s:b, s:o, s:o, s:O?}",
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

    rc = object ? json_dumpf(object, stdout, JSON_COMPACT) : -1;
    (void) putchar('\n');
    json_decref(object);

    return rc;
}


void
doctor_report_text(const doctor_t *d, const layer_result_t *results, bool ok)
{
    char                   text[600];
    size_t                 i, n, missing, skipped;
    json_t                *a;
    const char            *name, *err;
    layer_state_t          broker;
    const layer_result_t  *r;

    missing = 0;
    skipped = 0;
    broker = LAYER_OK;

    for (i = 0; layer_table[i].name; i++) {
        r = &results[i];

        /* it would repeat what its foundation says */

        if (r->state == LAYER_SKIPPED && r->needs) {
            skipped++;
            continue;
        }

        missing += (r->state == LAYER_MISSING);

        if (layer_table[i].stage == STAGE_BROKER) {
            broker = r->state;
        }

        name = r->state == LAYER_OK ? NULL : fault_errno_name(r->err);

        (void) snprintf(text, sizeof(text), "%s%s%s", name ? name : "",
                        name && r->detail[0] ? ": " : "", r->detail);
        (void) printf("%-8s %-31s", r->state == LAYER_MISSING
                                    ? "MISSING" : state_names[r->state],
                      layer_table[i].title);
        doctor_report_words(text, 40, 40);

        if (r->fix[0]) {
            doctor_report_fix(results, i);
        }
    }

    n = i;

    if (skipped) {
        (void) printf("skipped  %zu that need a missing layer\n", skipped);
    }

    if (d->attempts) {
        (void) printf("\nTried in a box, with the error of each (as a control, "
                      "a harmless action\nof the same kind worked):\n\n");
    }

    json_array_foreach(d->attempts, i, a) {
        name = json_string_value(json_object_get(a, "name"));
        err = json_string_value(json_object_get(a, "errno"));
        (void) printf("%-8s %-31s%s%s\n", err ? "refused" : "DONE",
                      name && attempt_title(name) ? attempt_title(name) : "",
                      err ? err : "",
                      json_is_true(json_object_get(a, "control"))
                      ? "" : " (but its control did not work)");
    }

    if (ok) {
        (void) printf("\nThis host can run boxes%s.\n",
                      broker == LAYER_SKIPPED
                      ? ", but only with --offline: there is no broker"
                      : broker == LAYER_WARNING
                      ? "; name one of the broker's policies with --policy"
                      : "");

    } else {
        (void) printf("\nThis host cannot run boxes: %zu of %zu layers are "
                      "missing.\n", missing, n);
    }

    for (i = 0; layer_table[i].name; i++) {
        if (advice_is_profile(results[i].fix)) {
            doctor_report_profile();
            break;
        }
    }
}


static void
doctor_report_fix(const layer_result_t *results, size_t i)
{
    size_t  n;

    for (n = 0; n < i; n++) {
        if (strcmp(results[n].fix, results[i].fix) == 0) {
            (void) printf("         fix: as for %s\n",
                          layer_table[n].title);
            return;
        }
    }

    (void) printf("         fix: ");
    doctor_report_words(results[i].fix, 14, 14);
}


/* Words are never split, so that commands can be pasted. */

static void
doctor_report_words(const char *text, int indent, size_t column)
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


/* With the path of this program. */

static void
doctor_report_profile(void)
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
