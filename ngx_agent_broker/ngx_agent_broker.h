/*
 * The module itself, which nginx's macros need to find its configuration and
 * the context of a request.  What the files share is in one header a folder;
 * the folders are listed in ngx_agent_broker_module.c, and each includes only
 * headers of its own and of those after it.
 */

#pragma once


#include <ngx_config.h>
#include <ngx_core.h>


extern ngx_module_t  ngx_agent_broker_module;
