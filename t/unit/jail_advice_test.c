/*
 * The table of advice as a table: every sentence fits where it is kept, can
 * be printed as it is, and can be reached; the stages at which hosts differ
 * have one, and so has every cause.
 */

#include "unit.h"

/* the table itself is looked at */
#include "base/advice.c"


static void
a_sentence_fits_and_is_plain(void **state)
{
    const char          *p;
    const advice_row_t  *r;

    for (r = advice_rows; r < advice_rows + ADVICE_ROWS; r++) {

        if (r->fix == NULL) {
            continue;
        }

        expect(strlen(r->fix) < sizeof(((fault_t *) 0)->fix),
               "%s, %d: %zu bytes", fault_stage_name(r->stage), r->err,
               strlen(r->fix));

        for (p = r->fix; *p; p++) {
            expect(*p >= ' ' && *p <= '~', "%s: byte %d",
                   fault_stage_name(r->stage), *p);
        }
    }
}


/* An earlier row that always fits would hide a later one. */

static void
a_row_can_be_reached(void **state)
{
    const advice_row_t  *r, *before;

    for (r = advice_rows; r < advice_rows + ADVICE_ROWS; r++) {
        for (before = advice_rows; before < r; before++) {
            expect(before->fix == NULL || before->fact
                   || (before->stage != STAGE_NONE
                       && before->stage != r->stage)
                   || (before->cause != CAUSE_NONE
                       && before->cause != r->cause)
                   || (before->err != 0 && before->err != r->err),
                   "%s, %d: row %td is hidden by row %td",
                   fault_stage_name(r->stage), r->err, r - advice_rows,
                   before - advice_rows);
        }
    }
}


/* A row of its own: the advice, or that the one for its stage will do. */

static void
a_cause_has_advice_or_needs_none(void **state)
{
    cause_t              cause;
    const advice_row_t  *r;

    for (cause = CAUSE_NONE + 1; cause < CAUSE_COUNT; cause++) {

        for (r = advice_rows; r < advice_rows + ADVICE_ROWS; r++) {
            if (r->cause == cause) {
                break;
            }
        }

        expect(r < advice_rows + ADVICE_ROWS, "cause %u has no row",
               (unsigned) cause);
    }
}


/* Whatever the message says: it is for people. */

static void
a_cause_decides_and_not_the_message(void **state)
{
    fault_t  guard, tie;

    guard = (fault_t) { 0 };
    (void) fault_set_cause(&guard, STAGE_TIE, EAGAIN, CAUSE_GUARD, "x");
    assert_int_equal(guard.cause, CAUSE_GUARD);
    assert_string_equal(guard.fix, advice(STAGE_TIE, EAGAIN, CAUSE_GUARD));

    tie = (fault_t) { 0 };
    (void) fault_set(&tie, STAGE_TIE, EAGAIN, "the guard of the box");
    assert_int_equal(tie.cause, CAUSE_NONE);
    assert_string_equal(tie.fix, "");

    /* the first fault's cause is kept as well */

    (void) fault_set_cause(&tie, STAGE_TIE, EAGAIN, CAUSE_GUARD, "late");
    assert_int_equal(tie.cause, CAUSE_NONE);
    assert_string_equal(tie.fix, "");
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

    for (i = 0; i < COUNT(refusals); i++) {
        expect(advice(refusals[i].stage, refusals[i].err, CAUSE_NONE)
               != NULL,
               "%s, %d", fault_stage_name(refusals[i].stage), refusals[i].err);
    }

    assert_null(advice(STAGE_RUN, EIO, CAUSE_NONE));
}


static void
a_fault_gets_its_advice(void **state)
{
    fault_t  fault;

    fault = (fault_t) { 0 };
    assert_int_equal(fault_set(&fault, STAGE_NESTED, 0, "inside"), -1);
    assert_string_equal(fault.fix, advice(STAGE_NESTED, 0, CAUSE_NONE));

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
        PROMISE("every cause has advice, or says that it needs none",
                a_cause_has_advice_or_needs_none),
        PROMISE("the cause decides which advice is given, not the message",
                a_cause_decides_and_not_the_message),
        PROMISE("what hosts are known to refuse has advice",
                what_hosts_refuse_has_advice),
        PROMISE("a fault gets its advice, and the first is kept",
                a_fault_gets_its_advice),
    };

    return unit_run(tests);
}
