/*
 * Reading the configuration, and checking it when all of it is read.
 */

#pragma once


#include "control/ngx_agent_control.h"


/* contexts of agent_policy and host blocks, bits no core context uses */
#define NGX_AGENT_POLICY_CONF    0x00100000
#define NGX_AGENT_HOST_CONF      0x00200000

/* of a directive that may be repeated */
#define NGX_AGENT_MANY           0x00400000


typedef struct {
    ngx_str_t        name;                  /* of a vault entry */
    ngx_uint_t       kind;                  /* credential_kind_t */
    ngx_str_t        file;                  /* and where it is asked for */
    ngx_uint_t       line;
} ngx_agent_credential_use_t;


/* Of a location: where it begins. */

typedef struct {
    ngx_str_t        file;
    ngx_uint_t       line;
} ngx_agent_loc_conf_t;


/* ngx_agent_main_conf.c */

/* As nginx creates and initializes a main configuration. */
void *ngx_agent_main_conf_create(ngx_conf_t *cf);
char *ngx_agent_main_conf_init(ngx_conf_t *cf, void *conf);

/* agent_vault; agent_audit and agent_state; agent_ca; and what is a number */
char *ngx_agent_main_conf_vault(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf);
char *ngx_agent_main_conf_zone(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf);
char *ngx_agent_main_conf_count(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf);
char *ngx_agent_main_conf_opens(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf);
char *ngx_agent_main_conf_path(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf);
char *ngx_agent_main_conf_ca(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf);


/* ngx_agent_variables.c */

ngx_int_t ngx_agent_variables_add(ngx_conf_t *cf);


/* ngx_agent_error_log.c */

/* As nginx merges a location: gives it a log of its own. */
char *ngx_agent_error_log_merge(ngx_conf_t *cf, void *parent, void *child);

/* When all is read: sets the levels of these logs. */
void ngx_agent_error_log_start(ngx_agent_main_conf_t *amcf);


/* ngx_agent_conf.c */

/*
 * The handler of every directive of the main configuration.  It looks at the
 * words, refuses a second one unless the row has NGX_AGENT_MANY, and calls the
 * function in the row's post.
 */
char *ngx_agent_conf_directive(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);

/* What a row's post points to; as a handler, but for the configuration. */
typedef char *(*ngx_agent_conf_pt)(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf);

/*
 * Says that the value is invalid, and why; it is shown unless it looks like a
 * credential.  Returns NGX_CONF_ERROR.
 */
char *ngx_agent_conf_invalid(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_str_t *value, const char *why);

char *ngx_agent_conf_policy(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf);
char *ngx_agent_conf_field(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf);
char *ngx_agent_conf_limit(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf);
char *ngx_agent_conf_fixed(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf);
char *ngx_agent_conf_isolation(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf);
char *ngx_agent_conf_writable(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf);
char *ngx_agent_conf_bound(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf);
char *ngx_agent_conf_rate(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf);
char *ngx_agent_conf_budget(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf);
char *ngx_agent_conf_env_despite(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf);
char *ngx_agent_conf_credential(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf);


/* ngx_agent_policy_files.c */

char *ngx_agent_policy_files_readable(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf);
char *ngx_agent_policy_files_trusted(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf);
char *ngx_agent_policy_files_crl(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf);


/* ngx_agent_host_block.c */

char *ngx_agent_host_block(ngx_conf_t *cf, ngx_command_t *cmd,
    ngx_agent_main_conf_t *amcf);

/* Says err; and where the first one is, if it is because of one. */
void ngx_agent_host_block_duplicate(ngx_conf_t *cf, const char *file,
    ngx_uint_t line, const char *directive, const char *err);

/*
 * After each directive: refuses a token in the place of the next one.  In an
 * agent_policy it first reads the plain hosts that stand next, and then
 * readies the table for the directive behind them.
 */
char *ngx_agent_host_block_next(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf);


/* ngx_agent_allowed.c */

/*
 * Around the reading of http: begin has each directive of nginx's http modules
 * noted, end refuses what a server with agent_control may neither have nor
 * inherit.
 */
ngx_int_t ngx_agent_allowed_begin(ngx_conf_t *cf,
    ngx_agent_main_conf_t *amcf);
ngx_int_t ngx_agent_allowed_end(ngx_conf_t *cf, ngx_agent_main_conf_t *amcf);


/* ngx_agent_check.c */

ngx_int_t ngx_agent_check_master(ngx_cycle_t *cycle);
ngx_int_t ngx_agent_check_user(ngx_conf_t *cf);

/*
 * When all is read and the sockets are open: warns of what else the process
 * serves, and of a module that a reload does not load; has USR2 find the
 * binary.
 */
void ngx_agent_check_process(ngx_cycle_t *cycle,
    ngx_agent_main_conf_t *amcf);


ngx_int_t ngx_agent_check_readable(ngx_conf_t *cf,
    ngx_agent_main_conf_t *amcf);
ngx_int_t ngx_agent_check_credentials(ngx_conf_t *cf,
    ngx_agent_main_conf_t *amcf);
ngx_int_t ngx_agent_check_servers(ngx_conf_t *cf,
    ngx_agent_main_conf_t *amcf);
ngx_int_t ngx_agent_check_system_names(ngx_conf_t *cf,
    ngx_agent_main_conf_t *amcf);
