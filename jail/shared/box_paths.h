/*
 * Paths in a box that both programs, or several parts of one, name.
 */

#pragma once


#define BOX_WORK        "/tmp/work"     /* the working directory, and HOME */
#define BOX_WORK_BYTES  (256ull << 20)  /* unless the policy says */
#define BOX_LIMITS      "/run/task/limits.json"
