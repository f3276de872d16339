/*
 * What the audit says of the broker itself: its configurations and its workers,
 * and those that were killed.
 */


#include "audit/ngx_agent_audit_shared.h"
#include "jail/shared/version.h"


void
ngx_agent_audit_broker_config(ngx_cycle_t *cycle, ngx_agent_main_conf_t *amcf,
    const char *what)
{
    char          build[NGX_AGENT_BUILD_ID + 1];
    ngx_uint_t    i;
    audit_line_t  line;

    ngx_agent_audit_begin(&line, "config", NULL, NULL, NULL, 0);

    audit_line_word(&line, "action", what);
    audit_line_number(&line, "generation",
                      (int64_t) ngx_agent_zone_generation());
    audit_line_number(&line, "vault",
                      (int64_t) ngx_agent_zone_vault_revision());

    ngx_agent_build_id(build);

    audit_line_word(&line, "module", AGENT_BROKER_VERSION);
    audit_line_word(&line, "build", build);

    if (amcf->replaced) {
        audit_line_bool(&line, "module_replaced", true);
    }

    if (amcf->started) {
        audit_line_number(&line, "listens", (int64_t) amcf->listens);
    }

    audit_line_open(&line, "policies");

    /* of a refused one nothing is in force */

    for (i = 0; amcf->started && i < amcf->set->policies_count; i++) {
        audit_line_word(&line, amcf->set->policies[i]->name,
                        amcf->set->policies[i]->hash);
    }

    audit_line_close(&line);

    (void) ngx_agent_audit_write(&line, NULL);
}


void
ngx_agent_audit_broker_worker(const char *what)
{
    audit_line_t  line;

    ngx_agent_audit_begin(&line, "worker", NULL, NULL, NULL, 0);

    audit_line_word(&line, "action", what);
    audit_line_number(&line, "last_seq", (int64_t) ngx_agent_audit_last());

    if (ngx_strcmp(what, "end") == 0) {
        (void) ngx_agent_audit_write_end(&line);

    } else {
        (void) ngx_agent_audit_write(&line, NULL);
    }
}


void
ngx_agent_audit_broker_lost(void)
{
    u_char        name[NGX_AGENT_AUDIT_WRITER];
    uint64_t      sequence;
    ngx_int_t     rc;
    ngx_uint_t    entry;
    audit_line_t  line;

    do {
        if (ngx_agent_audit_shared_lost(name, &sequence, &entry) != NGX_OK) {
            return;
        }

        ngx_agent_audit_begin(&line, "worker", NULL, NULL, NULL, 0);

        audit_line_word(&line, "action", "writer_lost");
        audit_line_number(&line, "last_seq", (int64_t) sequence);
        audit_line_word(&line, "lost", (char *) name);

        rc = ngx_agent_audit_write(&line, NULL);

        /* what cannot be written now is told by the next sweep */

        ngx_agent_audit_shared_lost_recorded(entry, rc == NGX_OK);

    } while (rc == NGX_OK);
}
