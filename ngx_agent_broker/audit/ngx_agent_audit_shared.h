/*
 * The audit, as its files share it: ngx_agent_audit.c gathers lines,
 * ngx_agent_audit_shared.c appends them and knows the other writers,
 * ngx_agent_audit_file.c opens the file they go to.
 */

#pragma once


#include "audit/ngx_agent_audit.h"


#define NGX_AGENT_AUDIT_LINES   64          /* gathered */
#define NGX_AGENT_AUDIT_BYTES   (8 * AUDIT_LINE_MAX)
#define NGX_AGENT_AUDIT_WRITER  32          /* a writer's name, with its NUL */


/* Lines that go out in one write. */

typedef struct {
    u_char       writer[NGX_AGENT_AUDIT_WRITER];
    uint64_t     sequence;                  /* of its last one in the file */
    ngx_uint_t   count;
    ngx_uint_t   is_end;                    /* the writer writes no more */
    size_t       ends[NGX_AGENT_AUDIT_LINES];
    u_char       text[NGX_AGENT_AUDIT_BYTES];
} ngx_agent_audit_batch_t;


typedef struct {
    ngx_pid_t    pid;                       /* 0: free */
    ngx_pid_t    teller;                    /* who records its loss */
    uint64_t     sequence;                  /* of its last line */
    u_char       name[NGX_AGENT_AUDIT_WRITER];
} ngx_agent_audit_writer_t;


typedef struct {
    uint64_t     generation;                /* of the file; 0: there is none */
    off_t        size;                      /* as the last write left it */
    ngx_uint_t   torn;                      /* it ends within a line */
    ngx_uint_t   failing;                   /* the last write failed */

    ngx_uint_t   writing;                   /* lines of a write begun, or 0 */
    ngx_uint_t   writer;                    /* whose */
    ngx_uint_t   is_end;
    off_t        start;                     /* the size before it */
    uint64_t     sequence;                  /* before it */
    size_t       ends[NGX_AGENT_AUDIT_LINES];

    ngx_uint_t   used;                      /* entries, free ones included */

    ngx_agent_audit_writer_t  writers[NGX_MAX_PROCESSES];
} ngx_agent_audit_shared_t;


/* ngx_agent_audit_fd.c */

/* Makes the socket pair, once in the life of a master. */
ngx_int_t ngx_agent_audit_fd_init(ngx_log_t *log);

/*
 * Leaves the descriptor for everybody, in place of the one before.  Under the
 * lock.
 */
ngx_int_t ngx_agent_audit_fd_send(ngx_agent_audit_shared_t *shared,
    ngx_fd_t fd);

/* The newest file has no descriptor that the others can get: only ours. */
void ngx_agent_audit_fd_skip(ngx_agent_audit_shared_t *shared);

/* Has this process the newest file?  Takes it.  Under the lock. */
ngx_int_t ngx_agent_audit_fd_receive(ngx_agent_audit_shared_t *shared,
    ngx_err_t *err);

/* A worker takes descriptors, and leaves none. */
void ngx_agent_audit_fd_close(void);

extern ngx_fd_t  ngx_agent_audit_fd;


/* ngx_agent_audit_shared.c */

/* Who has the lock may take it again, and append. */
void ngx_agent_audit_shared_lock(void);
void ngx_agent_audit_shared_unlock(void);

/*
 * The file as it is now: what a writer that was killed has left of its write,
 * and whether somebody has cut the file.  Under the lock.
 */
ngx_int_t ngx_agent_audit_shared_settle(ngx_agent_audit_shared_t *shared,
    ngx_err_t *err);

/* How many of the lines are in the file now; why not all of them in *err. */
ngx_uint_t ngx_agent_audit_shared_append(ngx_agent_audit_batch_t *batch,
    ngx_err_t *err);

/* Has the last write of any process failed? */
ngx_uint_t ngx_agent_audit_shared_is_failing(void);

/* How many bytes somebody has cut off the file, told once. */
off_t ngx_agent_audit_shared_bytes_cut(void);

/*
 * A worker that was killed: NGX_OK with its name and the number of its last
 * line, and nobody else gets it until it was told of; NGX_DECLINED when there
 * is none.
 */
ngx_int_t ngx_agent_audit_shared_lost(u_char name[NGX_AGENT_AUDIT_WRITER],
    uint64_t *sequence, ngx_uint_t *entry);
void ngx_agent_audit_shared_lost_recorded(ngx_uint_t entry,
    ngx_uint_t is_written);

extern ngx_slab_pool_t  *ngx_agent_audit_pool;
