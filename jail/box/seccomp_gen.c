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
 * numbers with one answer, eight comparisons for any call.  Each answer is
 * there once, at the end: the kernel translates every instruction at every
 * start.
 */

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "box/seccomp_table.h"


#define GEN_CALLS   1024                /* more than any kernel has */
#define GEN_INSNS   4096                /* BPF_MAXINSNS */
#define GEN_ERRNOS  4096                /* MAX_ERRNO and none */
#define GEN_X32     0x40000000u
#define GEN_NEXT    0u                  /* a target: the next instruction */
#define GEN_MIXED   (-2)                /* one argument or another is loaded */

/* the low half */
#if __BYTE_ORDER == __BIG_ENDIAN
#define GEN_ARG(n)  (offsetof(struct seccomp_data, args) + 8 * (n) + 4)
#else
#define GEN_ARG(n)  (offsetof(struct seccomp_data, args) + 8 * (n))
#endif


/* An instruction; where it jumps to are targets, made places at the end. */

typedef struct {
    unsigned  op;
    uint32_t  k;
    unsigned  jt;
    unsigned  jf;
} gen_insn_t;


typedef struct {
    gen_insn_t  insns[GEN_INSNS];
    unsigned    n;
    unsigned    places[GEN_INSNS];      /* of the targets */
    unsigned    ntargets;               /* the last one; GEN_NEXT is none */
    unsigned    answers[GEN_ERRNOS];    /* their targets, or GEN_NEXT */
} gen_code_t;


/* ranges of calls: first number, and its rule or the default */

typedef struct {
    unsigned               first;
    const seccomp_rule_t  *rule;        /* NULL: ENOSYS */
} gen_range_t;


static unsigned gen_ranges(const seccomp_rule_t **calls, gen_range_t *ranges);
static void gen_tree(gen_code_t *code, const gen_range_t *ranges, unsigned n);
static unsigned gen_plain(gen_code_t *code, const gen_range_t *ranges,
    unsigned n);
static void gen_rule(gen_code_t *code, const seccomp_rule_t *rule);
static void gen_answers(gen_code_t *code);
static unsigned gen_answer(gen_code_t *code, int err);
static unsigned gen_target(gen_code_t *code);
static void gen_place(gen_code_t *code, unsigned target);
static void gen_add(gen_code_t *code, unsigned op, uint32_t k, unsigned jt,
    unsigned jf);
static void gen_load(gen_code_t *code, size_t offset);
static void gen_print(const gen_code_t *code);
static unsigned gen_distance(const gen_code_t *code, unsigned at,
    unsigned target);
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
    gen_add(&code, BPF_JMP|BPF_JEQ|BPF_K, seccomp_arch_native(), GEN_NEXT,
            gen_answer(&code, ENOSYS));

    gen_load(&code, offsetof(struct seccomp_data, nr));
    gen_add(&code, BPF_JMP|BPF_JGE|BPF_K, GEN_X32, gen_answer(&code, ENOSYS),
            GEN_NEXT);

    gen_tree(&code, ranges, n);
    gen_answers(&code);
    gen_print(&code);

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
            && (rule == NULL || last == NULL
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


/*
 * The lower half is behind the comparison, the upper one behind that.  A
 * half that is an answer without conditions is jumped to.
 */

static void
gen_tree(gen_code_t *code, const gen_range_t *ranges, unsigned n)
{
    unsigned  half, low, high, upper;

    if (n == 1) {
        gen_rule(code, ranges[0].rule);
        return;
    }

    half = n / 2;
    low = gen_plain(code, ranges, half);
    high = gen_plain(code, ranges + half, n - half);
    upper = high ? high : gen_target(code);

    gen_add(code, BPF_JMP|BPF_JGE|BPF_K, ranges[half].first, upper, low);

    if (low == GEN_NEXT) {
        gen_tree(code, ranges, half);
    }

    if (high == GEN_NEXT) {
        gen_place(code, upper);
        gen_tree(code, ranges + half, n - half);
    }
}


/* The answer of one range without conditions; GEN_NEXT of all others. */

static unsigned
gen_plain(gen_code_t *code, const gen_range_t *ranges, unsigned n)
{
    const seccomp_rule_t  *rule;

    rule = ranges[0].rule;

    if (n > 1 || (rule && rule->conds[0].test != COND_END)) {
        return GEN_NEXT;
    }

    return gen_answer(code, rule ? rule->answer : ENOSYS);
}


/*
 * Each alternative is a chain of tests; the last one that holds allows, and
 * one that fails leads to the next alternative.  An argument that is still
 * loaded is not loaded again.
 */

static void
gen_rule(gen_code_t *code, const seccomp_rule_t *rule)
{
    int                    loaded;
    unsigned               yes, no;
    const seccomp_cond_t  *c, *next;

    loaded = -1;

    for (c = rule->conds; c->test != COND_END; c = next) {

        for (next = c; next->with_next; next++) { /* void */ }

        next++;
        no = next->test == COND_END ? gen_answer(code, rule->otherwise)
                                    : gen_target(code);

        for ( /* void */ ; c < next; c++) {

            if (loaded != (int) c->arg) {
                loaded = loaded == -1 ? (int) c->arg : GEN_MIXED;
                gen_load(code, GEN_ARG(c->arg));
            }

            yes = c->with_next ? GEN_NEXT : gen_answer(code, rule->answer);

            switch (c->test) {

            case COND_EQ:
                gen_add(code, BPF_JMP|BPF_JEQ|BPF_K, c->value, yes, no);
                break;

            case COND_NE:
                gen_add(code, BPF_JMP|BPF_JEQ|BPF_K, c->value, no, yes);
                break;

            case COND_CLEAR:
                gen_add(code, BPF_JMP|BPF_JSET|BPF_K, c->value, no, yes);
                break;

            default:
                gen_fail("condition", rule->name);
            }
        }

        if (next->test != COND_END) {
            gen_place(code, no);
        }
    }
}


static void
gen_answers(gen_code_t *code)
{
    unsigned  err;

    for (err = 0; err < GEN_ERRNOS; err++) {
        if (code->answers[err] != GEN_NEXT) {
            gen_place(code, code->answers[err]);
            gen_add(code, BPF_RET|BPF_K,
                    err ? SECCOMP_RET_ERRNO|err : SECCOMP_RET_ALLOW,
                    GEN_NEXT, GEN_NEXT);
        }
    }
}


static unsigned
gen_answer(gen_code_t *code, int err)
{
    if (code->answers[err] == GEN_NEXT) {
        code->answers[err] = gen_target(code);
    }

    return code->answers[err];
}


static unsigned
gen_target(gen_code_t *code)
{
    if (++code->ntargets == GEN_INSNS) {
        gen_fail("too many targets", "");
    }

    return code->ntargets;
}


static void
gen_place(gen_code_t *code, unsigned target)
{
    code->places[target] = code->n;
}


static void
gen_load(gen_code_t *code, size_t offset)
{
    gen_add(code, BPF_LD|BPF_W|BPF_ABS, (uint32_t) offset, GEN_NEXT,
            GEN_NEXT);
}


static void
gen_add(gen_code_t *code, unsigned op, uint32_t k, unsigned jt, unsigned jf)
{
    if (code->n == GEN_INSNS) {
        gen_fail("too many instructions", "");
    }

    code->insns[code->n++] = (gen_insn_t) { op, k, jt, jf };
}


static void
gen_print(const gen_code_t *code)
{
    unsigned           i;
    const gen_insn_t  *insn;

    printf("/* made by seccomp_gen from jail/box/seccomp_table.h */\n\n"
           "static const struct sock_filter  seccomp_filter[] = {\n");

    for (i = 0; i < code->n; i++) {
        insn = &code->insns[i];

        printf("    { 0x%04x, %u, %u, 0x%08x },\n", insn->op,
               gen_distance(code, i, insn->jt),
               gen_distance(code, i, insn->jf), insn->k);
    }

    printf("};\n");
}


/* Forward, and at most 255: all that a conditional jump can. */

static unsigned
gen_distance(const gen_code_t *code, unsigned at, unsigned target)
{
    unsigned  distance;

    if (target == GEN_NEXT) {
        return 0;
    }

    distance = code->places[target] - at - 1;

    if (distance > 255) {
        gen_fail("a jump is too long", "");
    }

    return distance;
}


static void
gen_fail(const char *what, const char *name)
{
    (void) fprintf(stderr, "seccomp_gen: %s: %s\n", what, name);
    exit(1);
}
