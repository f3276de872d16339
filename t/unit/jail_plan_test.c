/* What the launcher decides of a box's file system before the box exists. */

#include "unit.h"

#include <string.h>
#include <sys/stat.h>

#include "box/plan.h"
#include "box/wall.h"


static tree_entry_t  entries[] = {
    { .path = "d", .type = S_IFDIR, .mode = 0700 },
    { .path = "d/run", .type = S_IFREG, .mode = 0700, .size = 5, .offset = 3,
      .mtime = { 7, 8 } },
    { .path = "d/secret", .type = S_IFREG, .refused = "it is too large" },
    { .path = "l", .type = S_IFLNK, .target = "d/run" },
};


static box_spec_t
spec_of(void)
{
    box_spec_t  spec;

    spec = (box_spec_t) { .memory = 64 << 20, .limits = "{}\n" };

    return spec;
}


static void
plan(box_spec_t *spec)
{
    fault_t  fault;

    fault = (fault_t) { 0 };

    if (plan_make(spec, &fault) != 0) {
        fail_msg("%s", fault.message);
    }
}


/* The n-th operation on this path, counted from 0, or NULL. */

static const mount_op_t *
op_of(const mount_list_t *list, const char *path, unsigned n)
{
    size_t  i;

    for (i = 0; i < list->n; i++) {
        if (strcmp(list->ops[i].path, path) == 0 && n-- == 0) {
            return &list->ops[i];
        }
    }

    return NULL;
}


static void
test_table(void **state)
{
    size_t             i;
    box_spec_t         spec;
    const mount_op_t  *op;

    spec = spec_of();
    plan(&spec);

    for (i = 0; i < spec.system.n; i++) {
        expect(spec.system.ops[i].kind <= M_COVER,
               "operation %zu is one that only the table has", i);
        expect(spec.system.ops[i].path[0] != '/', "\"%s\" is absolute",
               spec.system.ops[i].path);
    }

    op = op_of(&spec.system, "dev/shm", 0);
    assert_non_null(op);
    assert_int_equal(op->kind, M_DISK);
    assert_int_equal(op->size, 32 << 20);

    assert_null(op_of(&spec.system, "etc/no-such-file", 0));
    assert_null(op_of(&spec.system, "etc/shadow", 0));

    plan_free(&spec);
    assert_int_equal(spec.system.n, 0);
}


static void
test_doors(void **state)
{
    box_spec_t  offline, online;
    const char  *of, *on;

    offline = spec_of();
    online = spec_of();
    online.ndoors = 1;
    plan(&offline);
    plan(&online);

    of = op_of(&offline.system, "etc/nsswitch.conf", 0)->arg;
    on = op_of(&online.system, "etc/nsswitch.conf", 0)->arg;
    assert_null(strstr(of, "dns"));
    assert_non_null(strstr(on, "dns"));
    assert_null(op_of(&online.system, "etc/nsswitch.conf", 1));

    plan_free(&offline);
    plan_free(&online);
}


/* A mount would hide what is below it and was mounted before. */

static void
test_order(void **state)
{
    box_spec_t         spec;
    const mount_op_t  *inner, *outer, *tmp;

    spec = spec_of();
    spec.readable[0] = "/usr/share";
    spec.nreadable = 1;
    spec.writable[0] = (box_writable_t) { "/usr/share/doc", 1 << 20 };
    spec.nwritable = 1;
    plan(&spec);

    outer = op_of(&spec.system, "usr/share", 1);
    inner = op_of(&spec.system, "usr/share/doc", 1);
    tmp = op_of(&spec.system, "tmp", 1);

    if (tmp && tmp->kind == M_PARENTS) {
        tmp = op_of(&spec.system, "tmp", 2);
    }

    assert_non_null(outer);
    assert_non_null(inner);
    assert_int_equal(outer->kind, M_BIND);
    assert_int_equal(inner->kind, M_DISK);
    expect(outer < inner, "what is below comes first");

    assert_non_null(tmp);
    assert_int_equal(tmp->kind, M_DISK);
    assert_int_equal(tmp->mode, 01777);

    plan_free(&spec);
}


static void
test_absent(void **state)
{
    fault_t     fault;
    box_spec_t  spec;

    static const char *const  paths[] = { "/no/such/directory", "/dev/null" };

    unsigned  i;

    for (i = 0; i < COUNT(paths); i++) {
        spec = spec_of();
        spec.readable[0] = paths[i];
        spec.nreadable = 1;
        fault = (fault_t) { 0 };

        expect(plan_make(&spec, &fault) == -1, "%s is taken", paths[i]);
        expect(fault.stage == STAGE_MOUNT && strstr(fault.message, paths[i]),
               "the fault is \"%s\"", fault.message);
        plan_free(&spec);
    }
}


static void
test_workspace(void **state)
{
    tree_t             tree;
    box_spec_t         spec;
    const mount_op_t  *op;

    tree = (tree_t) {
        .entries = entries, .n = COUNT(entries), .content = 42
    };

    spec = spec_of();
    spec.workspace = &tree;
    plan(&spec);

    assert_int_equal(spec.unpack.n, 3);
    assert_null(op_of(&spec.unpack, "d/secret", 0));
    assert_int_equal(spec.unpack.ops[0].kind, M_DIR);
    assert_int_equal(spec.unpack.ops[0].mode, 0755);

    op = &spec.unpack.ops[1];
    assert_int_equal(op->kind, M_FILE);
    assert_int_equal(op->mode, 0755);
    assert_int_equal(op->fd, 42);
    assert_int_equal(op->offset, 3);
    assert_int_equal(op->size, 5);
    assert_int_equal(op->len, 0);
    expect(op->keeps_time && op->mtime.tv_sec == 7, "the time is not kept");

    assert_int_equal(spec.unpack.ops[2].kind, M_LINK);
    assert_string_equal(spec.unpack.ops[2].arg, "d/run");

    plan_free(&spec);
}


static void
test_wall(void **state)
{
    fault_t        fault;
    const wall_t  *wall;

    fault = (fault_t) { 0 };
    wall = wall_find(WALL_DEFAULT, &fault);
    assert_non_null(wall);
    assert_string_equal(wall->name, "namespaces");
    assert_string_equal(wall->kernel, "shared");

    assert_null(wall_find("microvm", &fault));
    assert_int_equal(fault.stage, STAGE_POLICY);
    assert_non_null(strstr(fault.message, "\"microvm\""));
}


int
main(void)
{
    static const struct CMUnitTest  tests[] = {
        PROMISE("the plan has only what the child can do, and nothing that "
                "the host has not", test_table),
        PROMISE("names are looked up only where there is a broker",
                test_doors),
        PROMISE("a mount comes before what is mounted below it", test_order),
        PROMISE("a readable path that cannot be mounted is refused by name",
                test_absent),
        PROMISE("a workspace is unpacked with times, without what was refused",
                test_workspace),
        PROMISE("a wall that is not built in is refused by name", test_wall),
    };

    return unit_run(tests);
}
