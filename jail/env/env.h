/*
 * The task's environment and arguments, built up from nothing.
 */

#pragma once

#include <stdint.h>

#include "env/trust.h"
#include "env/variables.h"


#define ENV_PATH  "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin" \
                  ":/bin"

/*
 * cpu in thousandths of a core, memory in bytes; trust is NULL without a
 * broker.  The caller's variables replace those of the same name.  NULL when
 * out of memory.
 */
char **env_build(uint64_t cpu, uint64_t memory, const trust_t *trust,
    const variables_t *variables);

/* A copy of the words, and the path of the code if it is not NULL. */
char **env_command(char **words, const char *code);
