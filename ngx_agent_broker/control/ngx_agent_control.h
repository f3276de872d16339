/*
 * agent_control, the socket on which launchers open tasks and end them.
 */

#pragma once


#include "door/ngx_agent_door.h"


/* ngx_agent_listen.c */

/* agent_control; and, when all is read, whether the socket is free. */
char *ngx_agent_listen_directive(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
ngx_int_t ngx_agent_listen_check(ngx_conf_t *cf,
    ngx_agent_main_conf_t *amcf, ngx_agent_srv_conf_t *ascf);

/* Is it the socket of an agent_control? */
ngx_uint_t ngx_agent_listen_is_control(const ngx_listening_t *ls);


/* ngx_agent_channel.c */

/* In a worker: launchers can be served; and, when it exits, no longer. */
ngx_int_t ngx_agent_channel_start(ngx_cycle_t *cycle);
void ngx_agent_channel_stop(ngx_cycle_t *cycle);
