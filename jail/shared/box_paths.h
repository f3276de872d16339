/*
 * Paths in a box that both programs, or several parts of one, name.
 */

#pragma once


#define BOX_WORK        "/tmp/work"     /* the working directory, and HOME */
#define BOX_WORK_BYTES  (256ull << 20)  /* unless the policy says */
#define BOX_LIMITS      "/run/task/limits.json"

/* how many of each a policy may have, and a box can be given */
#define BOX_WRITABLE_MAX   16
#define BOX_READABLE_MAX   32
#define BOX_ENV_MAX        64
#define BOX_PATH_MAX       255
