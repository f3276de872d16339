/* A set as a worker sees it: opened from its snapshot. */

#pragma once

#include "unit.h"

#include "policy/policy_snapshot.h"


static unsigned char  *opened_data;
static policy_set_t   *opened_set;
static const policy_t *opened_of;
static size_t          opened_rules;


/* To be called when a set is freed, since the next may have its address. */

static inline void
opened_forget(void)
{
    policy_set_free(opened_set);
    free(opened_data);

    opened_data = NULL;
    opened_set = NULL;
    opened_of = NULL;
}


/* The snapshot is kept in memory of its own size, which a sanitizer knows. */

static inline const policy_t *
opened(const policy_t *policy)
{
    char            message[POLICY_ERROR_MAX];
    size_t          len;
    unsigned char  *data;

    if (opened_of != policy || opened_rules != policy->rules_count) {

        opened_forget();

        assert_int_equal(policy_set_complete(policy->set), 0);
        data = policy_snapshot_make(policy->set, &len);
        assert_non_null(data);

        opened_data = malloc(len);
        memcpy(opened_data, data, len);
        free(data);

        opened_set = policy_snapshot_open(opened_data, len, message);
        expect(opened_set != NULL, "%s", message);

        opened_of = policy;
        opened_rules = policy->rules_count;
    }

    return policy_set_find(opened_set, policy->name);
}
