/*
 * The compiled filter answers what the table says, for every number and for
 * arguments with high bits set: the program is run here by an interpreter of
 * its own, which knows the few instructions that the kernel allows.
 */

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "box/seccomp_table.h"
#include "seccomp_filter.h"


#define INSNS  (sizeof(seccomp_filter) / sizeof(seccomp_filter[0]))
#define RULES  (sizeof(seccomp_rules) / sizeof(seccomp_rules[0]))


/* 0: allowed; else the errno */

static int
filter(uint32_t arch, uint32_t nr, const uint64_t args[6])
{
    size_t                     pc;
    uint32_t                   a;
    struct seccomp_data        data;
    const struct sock_filter  *i;

    data = (struct seccomp_data) { .nr = (int) nr, .arch = arch };
    (void) memcpy(data.args, args, sizeof(data.args));
    a = 0;

    for (pc = 0; pc < INSNS; pc++) {
        i = &seccomp_filter[pc];

        switch (i->code) {

        case BPF_LD|BPF_W|BPF_ABS:
            assert_true(i->k % 4 == 0 && i->k < sizeof(data));
            (void) memcpy(&a, (char *) &data + i->k, 4);
            break;

        case BPF_JMP|BPF_JA:
            pc += i->k;
            break;

        case BPF_JMP|BPF_JEQ|BPF_K:
            pc += a == i->k ? i->jt : i->jf;
            break;

        case BPF_JMP|BPF_JGE|BPF_K:
            pc += a >= i->k ? i->jt : i->jf;
            break;

        case BPF_JMP|BPF_JSET|BPF_K:
            pc += a & i->k ? i->jt : i->jf;
            break;

        case BPF_RET|BPF_K:
            if (i->k == SECCOMP_RET_ALLOW) {
                return 0;
            }

            assert_int_equal(i->k & SECCOMP_RET_ACTION_FULL,
                             SECCOMP_RET_ERRNO);
            return (int) (i->k & SECCOMP_RET_DATA);

        default:
            fail_msg("instruction %zu has code 0x%x", pc, i->code);
        }
    }

    fail_msg("the filter has no end");

    return -1;
}


/* what the table says, read another way than the compiler reads it */

static int
expected(const seccomp_rule_t *rule, const uint64_t args[6])
{
    bool                    is_true, holds;
    uint32_t                v;
    const seccomp_cond_t   *c;

    if (rule == NULL) {
        return ENOSYS;
    }

    if (rule->conds[0].test == COND_END) {
        return rule->answer;
    }

    is_true = true;

    for (c = rule->conds; c->test != COND_END; c++) {
        v = (uint32_t) args[c->arg];

        holds = c->test == COND_EQ ? v == c->value
                : c->test == COND_NE ? v != c->value
                : (v & c->value) == 0;
        is_true = is_true && holds;

        if (!c->with_next) {

            if (is_true) {
                return rule->answer;
            }

            is_true = true;
        }
    }

    return rule->otherwise;
}


static const seccomp_rule_t *
rule_of(int nr)
{
    size_t  i;

    for (i = 0; i < RULES; i++) {
        if (seccomp_syscall_resolve_name(seccomp_rules[i].name) == nr) {
            return &seccomp_rules[i];
        }
    }

    return NULL;
}


static void
every_number_gets_the_tables_answer(void **state)
{
    int                     nr;
    size_t                  i, j;
    uint64_t                args[6];
    const seccomp_rule_t   *rule;
    const seccomp_cond_t   *c;

    static const uint64_t  high[] = { 0, 1ull << 32, 0xffffffffull << 32 };

    (void) state;

    for (nr = 0; nr < 1100; nr++) {
        rule = rule_of(nr);

        (void) memset(args, 0, sizeof(args));
        assert_int_equal(filter(AUDIT_ARCH_X86_64, (uint32_t) nr, args),
                         expected(rule, args));

        for (i = 0; rule && rule->conds[i].test != COND_END; i++) {
            for (j = 0; j < 3 * 4; j++) {
                c = &rule->conds[i];
                (void) memset(args, 0, sizeof(args));
                args[c->arg] = high[j % 3]
                               | (uint32_t) (c->value + (uint32_t) (j / 3) - 1);

                if (filter(AUDIT_ARCH_X86_64, (uint32_t) nr, args)
                    != expected(rule, args))
                {
                    fail_msg("%s with argument %u = 0x%llx", rule->name,
                             c->arg, (unsigned long long) args[c->arg]);
                }
            }
        }
    }
}


static void
other_architectures_have_no_calls(void **state)
{
    uint32_t        nr;
    const uint64_t  args[6] = { 0 };

    (void) state;

    for (nr = 0; nr < 1100; nr++) {
        assert_int_equal(filter(AUDIT_ARCH_I386, nr, args), ENOSYS);
        assert_int_equal(filter(AUDIT_ARCH_AARCH64, nr, args), ENOSYS);
        assert_int_equal(filter(AUDIT_ARCH_X86_64, nr | 0x40000000, args),
                         ENOSYS);
    }

    assert_int_equal(filter(AUDIT_ARCH_X86_64, 0xffffffff, args), ENOSYS);
}


static void
every_name_is_known(void **state)
{
    size_t  i, unknown;

    (void) state;

    /* a misspelled name would be left out without a word */

    for (i = 0, unknown = 0; i < RULES; i++) {
        if (seccomp_syscall_resolve_name(seccomp_rules[i].name)
            == __NR_SCMP_ERROR)
        {
            print_message("# not known to libseccomp: %s\n",
                          seccomp_rules[i].name);
            unknown++;
        }
    }

    assert_int_equal(unknown, 0);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(every_number_gets_the_tables_answer),
        { "A-050 other architectures have no calls",
          other_architectures_have_no_calls, NULL, NULL, NULL },
        cmocka_unit_test(every_name_is_known),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);

    return cmocka_run_group_tests(tests, NULL, NULL);
}
