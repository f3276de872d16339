/*
 * The naive way to run a stranger's code, a plain child process, compared with
 * a box: the same probe in each, at the same four doors.
 */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor/attempt.h"
#include "doctor/doctor_compare.h"


typedef struct {
    const char  *name;
    const char  *open;          /* what it means if it succeeded */
    const char  *shut;
} door_t;


static const door_t  doors[] = {
    { "environment", "reads the caller's variables", "the variable is absent" },
    { "files", "reads the caller's files", "the file is absent" },
    { "sockets", "connects to the host", "no host to connect to" },
    { "subprocesses", "leaves a process behind", "nothing is left" },
};

#define DOORS  (sizeof(doors) / sizeof(doors[0]))


static json_t *compare_side(const target_t *t, bool in_box, char *error,
    size_t cap);
static void compare_end(pid_t pid);


json_t *
doctor_compare(char *error, size_t cap)
{
    json_t    *plain, *box;
    target_t   target;

    plain = NULL;
    box = NULL;

    /* a process that the plain child leaves behind becomes our child */

    (void) prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);

    if (target_make(&target) != 0) {
        (void) snprintf(error, cap, "the targets of the attempts cannot be "
                        "made: %s", strerror(errno));

    } else {
        plain = compare_side(&target, false, error, cap);
        box = plain ? compare_side(&target, true, error, cap) : NULL;
    }

    target_free(&target);

    if (box == NULL) {
        json_decref(plain);
        return NULL;
    }

    return json_pack("{s:o, s:o}", "plain", plain, "box", box);
}


static json_t *
compare_side(const target_t *t, bool in_box, char *error, size_t cap)
{
    bool         open;
    pid_t        left;
    size_t       i, j;
    json_t      *lines, *line, *side;
    const char  *name;

    lines = attempt_run(t, "doors", in_box, NULL, error, cap);
    left = target_find(t->left);

    if (left) {
        compare_end(left);
    }

    if (lines == NULL) {
        return NULL;
    }

    side = json_object();

    for (i = 0; i < DOORS; i++) {
        open = true;

        json_array_foreach(lines, j, line) {
            name = json_string_value(json_object_get(line, "name"));

            if (name && strcmp(name, doors[i].name) == 0) {
                open = !json_is_true(json_object_get(line, "refused"));
            }
        }

        if (strcmp(doors[i].name, "subprocesses") == 0) {
            open = (left != 0);
        }

        (void) json_object_set_new(side, doors[i].name,
                                   json_pack("{s:b, s:s}", "open", open,
                                             "detail", open ? doors[i].open
                                                       : doors[i].shut));
    }

    json_decref(lines);

    return side;
}


/* Its parent is gone, so it is our child now, and its pid cannot be reused. */

static void
compare_end(pid_t pid)
{
    if (waitpid(pid, NULL, WNOHANG) == 0) {
        (void) kill(pid, SIGKILL);
        (void) waitpid(pid, NULL, 0);
    }
}


void
doctor_compare_print(const json_t *compare)
{
    size_t       i, j;
    json_t      *door;
    const char  *text[2];

    static const char *const  sides[] = { "plain", "box" };

    (void) printf("\n%-14s %-32s %s\n", "", "a plain child process",
                   "a box");

    for (i = 0; i < DOORS; i++) {

        for (j = 0; j < 2; j++) {
            door = json_object_get(json_object_get(compare, sides[j]),
                                   doors[i].name);
            text[j] = json_string_value(json_object_get(door, "detail"));
        }

        (void) printf("%-14s %-32s %s\n", doors[i].name, text[0],
                       text[1]);
    }
}
