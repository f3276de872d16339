/* What every unit test needs: cmocka in TAP, tests named by their promise. */

#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>


#define PROMISE(text, f)   { text, f, NULL, NULL, NULL }

#define COUNT(table)       (sizeof(table) / sizeof((table)[0]))

/* Fails with the row of a table and what was expected and seen. */
#define expect(condition, ...)                                               \
    do {                                                                     \
        if (!(condition)) {                                                  \
            fail_msg(__VA_ARGS__);                                           \
        }                                                                    \
    } while (0)

#define unit_run(tests)                                                      \
    (cmocka_set_message_output(CM_OUTPUT_TAP),                               \
     cmocka_run_group_tests(tests, NULL, NULL))
