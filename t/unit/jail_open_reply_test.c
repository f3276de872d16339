/*
 * The broker's description of a task: what is not exactly right is refused,
 * with the name of what is wrong.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "broker/open_reply.h"
#include "shared/protocol.h"


#define UNIT_TASK                                                           \
    "{\"ok\":true,\"v\":1,"                                                 \
    "\"task_id\":\"0123456789abcdef0123456789abcdef\","                     \
    "\"limits\":{\"cpu\":0.25,\"cpu_time_ms\":60000,"                      \
    "\"memory\":536870912,\"pids\":256,\"open_files\":1024,"               \
    "\"wall_clock_ms\":20000,\"output\":10000,"                            \
    "\"output_bytes\":1073741824,\"near_limit\":80},"                      \
    "\"box\":{\"isolation\":\"namespaces\",\"writable\":"                  \
    "[{\"path\":\"/tmp/work\",\"bytes\":268435456}],"                      \
    "\"readable\":[],\"env\":[]},\"new_key\":[1],\"ca\":\"PEM\","           \
    "\"ca_hash\":\"0123abcd\","                                             \
    "\"policy_hash\":\"sha256:00\",\"doors\":"                             \
    "[{\"name\":\"proxy\",\"port\":8899},"                                \
    "{\"name\":\"dns-udp\",\"port\":53}]}"


static json_t *
good(void)
{
    json_t  *task;

    task = json_loads(UNIT_TASK, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(task);

    return task;
}


static int
read_task(json_t *task, box_spec_t *spec, uint64_t *limits, fault_t *fault)
{
    char  id[PROTOCOL_ID_LEN + 1], hash[PROTOCOL_POLICY_HASH_LEN + 1];

    *spec = (box_spec_t) { 0 };
    *fault = (fault_t) { 0 };

    return open_reply_read(task, id, hash, limits, spec, fault);
}


static void
a_right_description_is_read(void **state)
{
    json_t      *task;
    fault_t      fault;
    uint64_t     limits[LIMIT_COUNT];
    box_spec_t   spec;

    (void) state;

    task = good();
    assert_int_equal(read_task(task, &spec, limits, &fault), 0);
    assert_int_equal(limits[LIMIT_CPU], 250);
    assert_int_equal(limits[LIMIT_MEMORY], 536870912);
    assert_int_equal(limits[LIMIT_WALL_CLOCK], 20000);
    assert_int_equal(spec.nwritable, 1);
    assert_string_equal(spec.writable[0].path, "/tmp/work");
    assert_int_equal(spec.ndoors, 2);
    assert_int_equal(spec.doors[0].port, 8899);
    assert_false(spec.doors[0].udp);
    assert_true(spec.doors[1].udp);
    assert_string_equal(spec.trust.hash, "0123abcd");
    json_decref(task);
}


static void
the_hash_of_the_certificate_may_be_absent(void **state)
{
    json_t      *task;
    fault_t      fault;
    uint64_t     limits[LIMIT_COUNT];
    box_spec_t   spec;

    (void) state;

    task = good();
    assert_int_equal(json_object_del(task, "ca_hash"), 0);
    assert_int_equal(read_task(task, &spec, limits, &fault), 0);
    assert_string_equal(spec.trust.hash, "");
    json_decref(task);
}


/* each replaces one value of a right description */

static void
anything_else_is_refused(void **state)
{
    json_t      *task, *at, *value;
    size_t       i;
    fault_t      fault;
    uint64_t     limits[LIMIT_COUNT];
    box_spec_t   spec;

    static const struct {
        const char  *object;            /* NULL: the description itself */
        const char  *key;
        const char  *value;             /* NULL: the key is removed */
    } cases[] = {
        { NULL, "task_id", NULL },
        { NULL, "task_id", "\"0123\"" },
        { NULL, "task_id", "\"0123456789ABCDEF0123456789abcdef\"" },
        { NULL, "task_id", "\"0123456789abcdef0123456789abcde/\"" },
        { NULL, "task_id", "7" },
        { NULL, "v", NULL },
        { NULL, "v", "2" },
        { NULL, "v", "\"1\"" },
        { NULL, "policy_hash", NULL },
        { NULL, "limits", NULL },
        { NULL, "limits", "[]" },
        { NULL, "box", NULL },
        { NULL, "ca", NULL },
        { NULL, "ca", "null" },
        { NULL, "ca", "[]" },
        { NULL, "ca_hash", "null" },
        { NULL, "ca_hash", "7" },
        { NULL, "ca_hash", "\"\"" },
        { NULL, "ca_hash", "\"0123abc\"" },
        { NULL, "ca_hash", "\"0123abcdef\"" },
        { NULL, "ca_hash", "\"0123ABCD\"" },
        { NULL, "ca_hash", "\"../../ab\"" },
        { NULL, "doors", NULL },
        { NULL, "doors", "[]" },
        { NULL, "doors", "{}" },
        { NULL, "doors", "[{\"name\":\"proxy\",\"port\":0}]" },
        { NULL, "doors", "[{\"name\":\"proxy\",\"port\":65536}]" },
        { NULL, "doors", "[{\"name\":\"proxy\",\"port\":-1}]" },
        { NULL, "doors", "[{\"port\":80}]" },
        { NULL, "doors", "[80]" },
        { "limits", "memory", NULL },
        { "limits", "memory", "\"512m\"" },
        { "limits", "memory", "1" },
        { "limits", "memory", "-1" },
        { "limits", "memory", "1e30" },
        { "limits", "memory", "536870912.5" },
        { "limits", "pids", "true" },
        { "limits", "pids", "0" },
        { "limits", "cpu", "0" },
        { "limits", "cpu", "-1.0" },
        { "limits", "wall_clock_ms", "1e9" },
        { "box", "isolation", NULL },
        { "box", "isolation", "\"none\"" },
        { "box", "writable", "[{\"path\":\"tmp\",\"bytes\":4096}]" },
        { "box", "writable", "[{\"path\":\"/\",\"bytes\":4096}]" },
        { "box", "writable", "[{\"path\":\"/a/../b\",\"bytes\":4096}]" },
        { "box", "writable", "[{\"path\":\"/a//b\",\"bytes\":4096}]" },
        { "box", "writable", "[{\"path\":\"/a/\",\"bytes\":4096}]" },
        { "box", "writable", "[{\"path\":\"/a/.\",\"bytes\":4096}]" },
        { "box", "writable", "[{\"path\":\"/a\",\"bytes\":0}]" },
        { "box", "writable", "[{\"path\":\"/a\",\"bytes\":-4096}]" },
        { "box", "writable", "[{\"path\":\"/a\"}]" },
        { "box", "readable", "[\"opt\"]" },
        { "box", "readable", "[\"/\"]" },
        { "box", "readable", "[7]" },
    };

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        task = good();
        at = cases[i].object ? json_object_get(task, cases[i].object) : task;

        if (cases[i].value == NULL) {
            assert_int_equal(json_object_del(at, cases[i].key), 0);

        } else {
            value = json_loads(cases[i].value, JSON_DECODE_ANY, NULL);
            assert_non_null(value);
            assert_int_equal(json_object_set_new(at, cases[i].key, value), 0);
        }

        if (read_task(task, &spec, limits, &fault) == 0) {
            fail_msg("%s = %s was taken", cases[i].key,
                     cases[i].value ? cases[i].value : "nothing");
        }

        assert_int_not_equal(fault.stage, STAGE_NONE);
        json_decref(task);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(a_right_description_is_read),
        cmocka_unit_test(the_hash_of_the_certificate_may_be_absent),
        cmocka_unit_test(anything_else_is_refused),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);

    return cmocka_run_group_tests(tests, NULL, NULL);
}
