/*
 * Credentials on their way: the client's own are taken out of a request, the
 * rule's is put in.
 */

#pragma once

#include "policy/policy.h"
#include "task/ngx_agent_task.h"


#define NGX_AGENT_STRIPPED_MAX  16          /* names that a line has */


/* The names of what was taken out, never a value; each once. */

typedef struct {
    struct {
        const char  *name;
        ngx_uint_t   is_query;
    } list[NGX_AGENT_STRIPPED_MAX];

    ngx_uint_t       count;
    ngx_uint_t       cut;                   /* there were more */
} ngx_agent_stripped_t;


/* ngx_agent_strip.c */

void ngx_agent_strip_init(void);

/*
 * Is a client's header of this name a credential that does not pass under the
 * rule?  Its name as it is listed, which lives as long as the rule; or NULL.
 */
const char *ngx_agent_strip_header(const policy_rule_t *rule,
    const u_char *name, size_t len);

/*
 * Copies the query without the fields that are credentials: returns the number
 * of bytes written to dst, at most len.  dst may be NULL.  Their names are
 * noted if stripped is not NULL.
 */
size_t ngx_agent_strip_query(const policy_rule_t *rule, const u_char *query,
    size_t len, u_char *dst, ngx_agent_stripped_t *stripped);

/* The names of what does not pass of a request. */
void ngx_agent_strip_names(const policy_rule_t *rule, ngx_list_part_t *headers,
    const u_char *query, size_t len, ngx_agent_stripped_t *stripped);


/* ngx_agent_attach.c */

typedef enum {
    NGX_AGENT_ATTACH_QUERY = 0,
    NGX_AGENT_ATTACH_HEADER
} ngx_agent_attach_e;

/* The bytes that ngx_agent_attach() needs for the rule's credential. */
size_t ngx_agent_attach_room(const policy_rule_t *rule);

/*
 * Writes what belongs in this place of a request: nothing, a field of the
 * query without its "?" or "&", or a line of the header.  Returns its end, or
 * NULL: the credential is not in the vault, or cannot be sent so, and nothing
 * may be sent.  All of ngx_agent_attach_room() bytes at p are used; the caller
 * cleanses them.  *revision is set to the vault's.
 */
u_char *ngx_agent_attach(const policy_rule_t *rule, ngx_agent_attach_e place,
    u_char *p, uint64_t *revision);
