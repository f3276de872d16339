/*
 * Paths in a box that both programs, or several parts of one, name.
 */

#ifndef BOX_PATHS_H
#define BOX_PATHS_H


#define BOX_WORK        "/tmp/work"     /* the working directory, and HOME */
#define BOX_WORK_BYTES  (256ull << 20)  /* unless the policy says */
#define BOX_LIMITS      "/run/task/limits.json"


#endif /* BOX_PATHS_H */
