/*
 * Compiles the table of system calls into a program for the kernel, when the
 * launcher is built: loading it costs a start 0.06 ms, compiling it there
 * 0.25 ms.  libseccomp knows the numbers of the names.
 *
 * The program is made here and not by libseccomp because its rules have no
 * "otherwise": a call whose arguments match no rule gets the default answer,
 * which is ENOSYS, and a program that is refused a socket family must hear
 * EAFNOSUPPORT instead.
 *
 * Shape: the architecture is judged first (a 32-bit call has other numbers,
 * and other arguments), then x32; then a binary search over ranges of call
 * numbers with one answer, eight comparisons for any call.
 */

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "seccomp_table.h"


#define GEN_CALLS  1024                 /* more than any kernel has */
#define GEN_INSNS  4096                 /* BPF_MAXINSNS */
#define GEN_X32    0x40000000u


typedef struct {
    struct sock_filter  insns[GEN_INSNS];
    unsigned            n;
} gen_code_t;


/* ranges of calls: first number, and its rule or the default */

typedef struct {
    unsigned               first;
    const seccomp_rule_t  *rule;        /* NULL: ENOSYS */
} gen_range_t;


static unsigned gen_ranges(const seccomp_rule_t **calls, gen_range_t *ranges);
static void gen_tree(gen_code_t *code, const gen_range_t *ranges, unsigned n);
static void gen_rule(gen_code_t *code, const seccomp_rule_t *rule);
static void gen_answer(gen_code_t *code, int err);
static void gen_add(gen_code_t *code, unsigned op, uint32_t k, unsigned jt,
    unsigned jf);
static void gen_load(gen_code_t *code, size_t offset);
static void gen_fail(const char *what, const char *name);


int
main(void)
{
    int                           nr;
    unsigned                      i, n;
    static gen_code_t             code;
    static gen_range_t            ranges[GEN_CALLS];
    static const seccomp_rule_t  *calls[GEN_CALLS];

    for (i = 0; i < sizeof(seccomp_rules) / sizeof(seccomp_rules[0]); i++) {
        nr = seccomp_syscall_resolve_name(seccomp_rules[i].name);

        /* a name libseccomp does not know, or of another architecture */

        if (nr < 0) {
            continue;
        }

        if (nr >= GEN_CALLS) {
            gen_fail("number out of range", seccomp_rules[i].name);
        }

        if (calls[nr]) {
            gen_fail("two rows", seccomp_rules[i].name);
        }

        calls[nr] = &seccomp_rules[i];
    }

    n = gen_ranges(calls, ranges);

    gen_load(&code, offsetof(struct seccomp_data, arch));
    gen_add(&code, BPF_JMP|BPF_JEQ|BPF_K, seccomp_arch_native(), 1, 0);
    gen_answer(&code, ENOSYS);

    gen_load(&code, offsetof(struct seccomp_data, nr));
    gen_add(&code, BPF_JMP|BPF_JGE|BPF_K, GEN_X32, 0, 1);
    gen_answer(&code, ENOSYS);

    gen_tree(&code, ranges, n);

    printf("/* made by seccomp_gen from jail/seccomp_table.h */\n\n"
           "static const struct sock_filter  seccomp_filter[] = {\n");

    for (i = 0; i < code.n; i++) {
        printf("    { 0x%04x, %u, %u, 0x%08x },\n", code.insns[i].code,
               code.insns[i].jt, code.insns[i].jf, code.insns[i].k);
    }

    printf("};\n");

    return 0;
}


/* Neighbours with one answer and no conditions become one range. */

static unsigned
gen_ranges(const seccomp_rule_t **calls, gen_range_t *ranges)
{
    unsigned               i, n;
    const seccomp_rule_t  *rule, *last;

    n = 0;
    last = NULL;

    for (i = 0; i < GEN_CALLS; i++) {
        rule = calls[i];

        if (i > 0 && (rule == NULL) == (last == NULL)
            && (rule == NULL
                || (rule->answer == last->answer
                    && rule->conds[0].test == COND_END
                    && last->conds[0].test == COND_END)))
        {
            continue;
        }

        ranges[n].first = i;
        ranges[n].rule = rule;
        n++;
        last = rule;
    }

    return n;
}


static void
gen_tree(gen_code_t *code, const gen_range_t *ranges, unsigned n)
{
    unsigned     half, jump, size;

    if (n == 1) {
        gen_rule(code, ranges[0].rule);
        return;
    }

    half = n / 2;

    /*
     * Below: fall through to the lower half.  Else jump over it; by the
     * instruction with a long distance, since a conditional jump reaches 255.
     */

    gen_add(code, BPF_JMP|BPF_JGE|BPF_K, ranges[half].first, 0, 1);
    jump = code->n;
    gen_add(code, BPF_JMP|BPF_JA, 0, 0, 0);

    gen_tree(code, ranges, half);

    size = code->n - jump - 1;

    if (size <= 255) {
        code->insns[jump - 1].jt = (unsigned char) size;
        code->insns[jump - 1].jf = 0;

        (void) memmove(&code->insns[jump], &code->insns[jump + 1],
                       size * sizeof(code->insns[0]));
        code->n--;

    } else {
        code->insns[jump].k = size;
    }

    gen_tree(code, ranges + half, n - half);
}


static void
gen_rule(gen_code_t *code, const seccomp_rule_t *rule)
{
    unsigned               i, ends[SECCOMP_CONDITIONS_MAX], n, tests;
    const seccomp_cond_t  *c;

    if (rule == NULL) {
        gen_answer(code, ENOSYS);
        return;
    }

    if (rule->conds[0].test == COND_END) {
        gen_answer(code, rule->answer);
        return;
    }

    /*
     * Each alternative is a chain of tests that ends in "allow"; a test that
     * fails jumps behind that, to the next alternative.
     */

    for (i = 0; rule->conds[i].test != COND_END; /* void */) {
        tests = 0;
        n = 0;

        for ( ;; ) {
            c = &rule->conds[i + tests++];
            gen_load(code, offsetof(struct seccomp_data, args)
                           + 8 * c->arg
#if __BYTE_ORDER == __BIG_ENDIAN
                           + 4
#endif
                    );
            ends[n++] = code->n;

            switch (c->test) {

            case COND_EQ:
                gen_add(code, BPF_JMP|BPF_JEQ|BPF_K, c->value, 0, 1);
                break;

            case COND_NE:
                gen_add(code, BPF_JMP|BPF_JEQ|BPF_K, c->value, 1, 0);
                break;

            case COND_CLEAR:
                gen_add(code, BPF_JMP|BPF_JSET|BPF_K, c->value, 1, 0);
                break;

            default:
                gen_fail("condition", rule->name);
            }

            if (!c->with_next) {
                break;
            }
        }

        gen_answer(code, rule->answer);
        i += tests;

        while (n > 0) {
            n--;
            tests = code->n - ends[n] - 1;

            if (code->insns[ends[n]].jt) {
                code->insns[ends[n]].jt = (unsigned char) tests;

            } else {
                code->insns[ends[n]].jf = (unsigned char) tests;
            }
        }
    }

    gen_answer(code, rule->otherwise);
}


static void
gen_answer(gen_code_t *code, int err)
{
    gen_add(code, BPF_RET|BPF_K,
            err ? SECCOMP_RET_ERRNO|(uint32_t) err : SECCOMP_RET_ALLOW, 0, 0);
}


static void
gen_load(gen_code_t *code, size_t offset)
{
    gen_add(code, BPF_LD|BPF_W|BPF_ABS, (uint32_t) offset, 0, 0);
}


static void
gen_add(gen_code_t *code, unsigned op, uint32_t k, unsigned jt, unsigned jf)
{
    if (code->n == GEN_INSNS) {
        gen_fail("too many instructions", "");
    }

    code->insns[code->n++] = (struct sock_filter) {
        (unsigned short) op, (unsigned char) jt, (unsigned char) jf, k
    };
}


static void
gen_fail(const char *what, const char *name)
{
    fprintf(stderr, "seccomp_gen: %s: %s\n", what, name);
    exit(1);
}
