/*
 * The table of advice as a table: every sentence fits where it is kept, can
 * be printed as it is, and can be reached; the stages at which hosts differ
 * have one.
 */

#include "unit.h"

/* the table itself is looked at */
#include "base/advice.c"


static void
a_sentence_fits_and_is_plain(void **state)
{
    const char          *p;
    const advice_row_t  *r;

    (void) state;

    for (r = advice_rows; r->fix; r++) {
        expect(strlen(r->fix) < sizeof(((fault_t *) 0)->fix),
               "%s, %d: %zu bytes", stage_name(r->stage), r->err,
               strlen(r->fix));

        for (p = r->fix; *p; p++) {
            expect(*p >= ' ' && *p <= '~', "%s: byte %d",
                   stage_name(r->stage), *p);
        }
    }
}


/* An earlier row that always fits would hide a later one. */

static void
a_row_can_be_reached(void **state)
{
    const advice_row_t  *r, *before;

    (void) state;

    for (r = advice_rows; r->fix; r++) {
        for (before = advice_rows; before < r; before++) {
            expect(before->stage != r->stage || before->about || before->fact
                   || (before->err != 0 && before->err != r->err),
                   "%s, %d: row %td is hidden by row %td",
                   stage_name(r->stage), r->err, r - advice_rows,
                   before - advice_rows);
        }
    }
}


static void
what_hosts_refuse_has_advice(void **state)
{
    size_t  i;

    static const struct {
        stage_t  stage;
        int      err;
    } refusals[] = {
        { STAGE_NESTED, 0 },
        { STAGE_BROKER, ENOENT },
        { STAGE_BROKER, ECONNREFUSED },
        { STAGE_BROKER, EACCES },
        { STAGE_CGROUP, EROFS },
        { STAGE_CGROUP, EACCES },
        { STAGE_CGROUP, ENOENT },
        { STAGE_NAMESPACES, EPERM },
        { STAGE_NAMESPACES, ENOSPC },
        { STAGE_NAMESPACES, EINVAL },
        { STAGE_IDMAP, EPERM },
        { STAGE_IDMAP, EACCES },
        { STAGE_DESCRIPTORS, ENOSYS },
        { STAGE_CGROUP_ATTACH, EACCES },
        { STAGE_NET_LO, EPERM },
        { STAGE_HOSTNAME, EPERM },
        { STAGE_PROPAGATION, EACCES },
        { STAGE_ROOT, ENOSYS },
        { STAGE_MOUNT, EPERM },
        { STAGE_PIVOT, EPERM },
        { STAGE_LANDLOCK, ENOSYS },
        { STAGE_LANDLOCK, EOPNOTSUPP },
        { STAGE_SECCOMP, EINVAL },
        { STAGE_CODE, ENOENT },
        { STAGE_CODE, EACCES },
        { STAGE_IN, ENOENT },
        { STAGE_IN, EACCES },
        { STAGE_OUT, ENOENT },
        { STAGE_WORKSPACE, ENOENT },
        { STAGE_EXEC, ENOENT },
    };

    (void) state;

    for (i = 0; i < COUNT(refusals); i++) {
        expect(advice(refusals[i].stage, refusals[i].err, "") != NULL,
               "%s, %d", stage_name(refusals[i].stage), refusals[i].err);
    }

    assert_null(advice(STAGE_RUN, EIO, ""));
}


static void
a_fault_gets_its_advice(void **state)
{
    fault_t  fault;

    (void) state;

    fault = (fault_t) { 0 };
    assert_int_equal(fault_set(&fault, STAGE_NESTED, 0, "inside"), -1);
    assert_string_equal(fault.fix, advice(STAGE_NESTED, 0, "inside"));

    /* the first one is kept */

    assert_int_equal(fault_set(&fault, STAGE_SECCOMP, EINVAL, "late"), -1);
    assert_int_equal(fault.stage, STAGE_NESTED);
    assert_string_equal(fault.message, "inside");
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        PROMISE("a sentence fits its place and is plain text",
                a_sentence_fits_and_is_plain),
        PROMISE("no row is hidden by one before it", a_row_can_be_reached),
        PROMISE("what hosts are known to refuse has advice",
                what_hosts_refuse_has_advice),
        PROMISE("a fault gets its advice, and the first is kept",
                a_fault_gets_its_advice),
    };

    return unit_run(tests);
}
