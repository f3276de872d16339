/*
 * The part of the plan that is about certificates.
 */

#pragma once

#include "box/mount_list.h"
#include "env/trust.h"


/*
 * The files, before what the host has of their names.  0, 1 if the directory
 * TRUST_CERTS must be the host's, or -1 with errno.
 */
int plan_trust_files(mount_list_t *list, const trust_t *trust);

/* After them: what still is the host's gets ours over it. */
void plan_trust_names(mount_list_t *list, const trust_t *trust);
