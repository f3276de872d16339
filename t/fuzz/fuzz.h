/* What every fuzz target needs: an entry, and a check that stops the run. */

#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);


#define must(condition)                                                      \
    do {                                                                     \
        if (!(condition)) {                                                  \
            (void) fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__,    \
                           __LINE__, #condition);                            \
            abort();                                                         \
        }                                                                    \
    } while (0)
