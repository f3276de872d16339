/*
 * The commands of agent-vault.  A value is read before the vault is locked, so
 * that nobody waits while it is typed; from the lock on no signal but SIGKILL
 * ends the process.
 */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>

#include "tools/agent_vault.h"


static int agent_vault_set(const agent_vault_options_t *options, bool is_new,
    char err[VAULT_ERROR_MAX]);
static int agent_vault_set_line(agent_vault_t *av,
    const agent_vault_options_t *options, const vault_line_t *value,
    bool is_new, char err[VAULT_ERROR_MAX]);
static int agent_vault_set_all(const agent_vault_options_t *options,
    bool is_seal, char err[VAULT_ERROR_MAX]);
static int agent_vault_change(agent_vault_t *av,
    const agent_vault_options_t *options, bool may_be_new,
    char err[VAULT_ERROR_MAX]);
static size_t agent_vault_find(const agent_vault_t *av, const char *name);


int
agent_vault_command_init_key(const agent_vault_options_t *options,
    char err[VAULT_ERROR_MAX])
{
    sigset_t  all;

    (void) sigfillset(&all);
    (void) sigprocmask(SIG_BLOCK, &all, NULL);

    if (agent_vault_new_key(options->key, err) != 0) {
        return -1;
    }

    (void) printf("\"%s\" is made: keep a copy where the vault is not, its "
                  "values cannot be opened without it\n", options->key);

    return 0;
}


int
agent_vault_command_seal(const agent_vault_options_t *options,
    char err[VAULT_ERROR_MAX])
{
    return agent_vault_set_all(options, true, err);
}


int
agent_vault_command_unseal(const agent_vault_options_t *options,
    char err[VAULT_ERROR_MAX])
{
    return agent_vault_set_all(options, false, err);
}


int
agent_vault_command_add(const agent_vault_options_t *options,
    char err[VAULT_ERROR_MAX])
{
    return agent_vault_set(options, true, err);
}


int
agent_vault_command_rotate(const agent_vault_options_t *options,
    char err[VAULT_ERROR_MAX])
{
    return agent_vault_set(options, false, err);
}


int
agent_vault_command_remove(const agent_vault_options_t *options,
    char err[VAULT_ERROR_MAX])
{
    int                    rc;
    size_t                 i;
    agent_vault_t          av;
    agent_vault_change_t  *changes;

    changes = NULL;
    rc = agent_vault_change(&av, options, false, err);

    if (rc == 0) {
        i = agent_vault_find(&av, options->name);
        changes = calloc(av.count + 1, sizeof(agent_vault_change_t));

        if (i == av.count) {
            rc = vault_file_refuse(err, "vault \"%s\" has no entry \"%s\"",
                                   options->vault, options->name);

        } else if (changes == NULL) {
            rc = vault_file_refuse(err, "no memory");

        } else {
            changes[i].is_removed = true;
            rc = agent_vault_replace(&av, changes, NULL,
                                     av.is_sealed ? AGENT_VAULT_AS_LINES
                                                  : AGENT_VAULT_IN_CLEAR,
                                     err);
        }
    }

    if (rc == 0) {
        (void) printf("entry \"%s\" is removed: \"nginx -s reload\" puts this "
                      "into use\n", options->name);
    }

    free(changes);
    agent_vault_close(&av);

    return rc;
}


int
agent_vault_command_list(const agent_vault_options_t *options,
    char err[VAULT_ERROR_MAX])
{
    int             rc;
    size_t          i;
    agent_vault_t   av;

    rc = agent_vault_open(&av, options->vault, options->key, false, false,
                          err);

    if (rc == 0 && options->key) {
        rc = agent_vault_open_values(&av, err);
    }

    for (i = 0; rc == 0 && i < av.count; i++) {
        (void) printf("%.*s %s\n", (int) av.lines[i].name_len,
                      av.lines[i].name,
                      vault_lines_is_sealed(&av.lines[i]) ? "sealed"
                                                          : "plain");
    }

    agent_vault_close(&av);

    if (rc == 0 && fflush(stdout) != 0) {
        return vault_file_refuse(err, "the list could not be written");
    }

    return rc;
}


/* A value from standard input, for a new entry or one that is there. */

static int
agent_vault_set(const agent_vault_options_t *options, bool is_new,
    char err[VAULT_ERROR_MAX])
{
    int             rc;
    agent_vault_t   av;
    vault_line_t    value;
    vault_memory_t  memory;

    memset(&value, 0, sizeof(vault_line_t));
    value.name = (const unsigned char *) options->name;
    value.name_len = strlen(options->name);

    /* nobody waits for the lock until it is typed */

    if (agent_vault_value(options->name, &memory, &value.value_len, err) != 0)
    {
        return -1;
    }

    value.value = memory.data;

    rc = agent_vault_change(&av, options, is_new, err);

    if (rc == 0) {
        rc = agent_vault_set_line(&av, options, &value, is_new, err);
    }

    if (rc == 0) {
        (void) printf("entry \"%s\" is %s: \"nginx -s reload\" puts this into "
                      "use\n", options->name, is_new ? "added" : "rotated");
    }

    agent_vault_close(&av);
    vault_memory_free(&memory);

    return rc;
}


static int
agent_vault_set_line(agent_vault_t *av, const agent_vault_options_t *options,
    const vault_line_t *value, bool is_new, char err[VAULT_ERROR_MAX])
{
    int                    rc;
    char                  *text;
    size_t                 i, n;
    vault_memory_t         line;
    const vault_line_t    *old;
    agent_vault_change_t   added, *changes;

    i = agent_vault_find(av, options->name);

    if (is_new != (i == av->count)) {
        return vault_file_refuse(err, is_new
                                 ? "vault \"%s\" has the entry \"%s\" already: "
                                   "\"agent-vault rotate\" replaces its value"
                                 : "vault \"%s\" has no entry \"%s\": "
                                   "\"agent-vault add\" makes one",
                                 options->vault, options->name);
    }

    if (av->is_sealed && options->key == NULL) {
        return vault_file_refuse(err, "the values of vault \"%s\" are sealed: "
                                 "name their key with --key KEYFILE",
                                 options->vault);
    }

    if (options->key && agent_vault_open_values(av, err) != 0) {
        return -1;
    }

    old = av->values ? &av->values[i] : &av->lines[i];

    if (!is_new && old->value_len == value->value_len
        && CRYPTO_memcmp(old->value, value->value, value->value_len) == 0)
    {
        return vault_file_refuse(err, "this is the value that the entry "
                                 "\"%s\" has already", options->name);
    }

    changes = calloc(av->count + 1, sizeof(agent_vault_change_t));

    if (changes == NULL
        || vault_memory_alloc(&line, VAULT_NAME_MAX + VAULT_SEALED_MAX + 8)
           != 0)
    {
        free(changes);
        return vault_file_refuse(err, "no memory");
    }

    text = (char *) line.data;
    n = is_new ? (size_t) sprintf(text, "%s = ", options->name) : 0;

    if (options->key) {
        n += vault_seal_value(av->key.data, value, text + n);

    } else {
        memcpy(text + n, value->value, value->value_len);
        n += value->value_len;
    }

    if (is_new) {
        text[n++] = '\n';
        added.text = text;
        added.len = n;

    } else {
        changes[i].text = text;
        changes[i].len = n;
    }

    rc = agent_vault_replace(av, changes, is_new ? &added : NULL,
                             options->key ? AGENT_VAULT_WITH_KEY
                                          : AGENT_VAULT_IN_CLEAR, err);

    vault_memory_free(&line);
    free(changes);

    return rc;
}


/* All values sealed, or all in clear. */

static int
agent_vault_set_all(const agent_vault_options_t *options, bool is_seal,
    char err[VAULT_ERROR_MAX])
{
    int                    rc;
    char                  *text;
    size_t                 i, count, room;
    agent_vault_t          av;
    vault_memory_t         sealed;
    agent_vault_change_t  *changes;

    changes = NULL;
    sealed.data = NULL;
    count = 0;

    rc = agent_vault_change(&av, options, false, err);

    if (rc == 0 && !is_seal) {
        rc = agent_vault_open_values(&av, err);
    }

    for (i = 0, room = 1; rc == 0 && i < av.count; i++) {
        room += av.lines[i].value_len * 2 + 64;
    }

    if (rc == 0) {
        changes = calloc(av.count + 1, sizeof(agent_vault_change_t));

        if (changes == NULL || vault_memory_alloc(&sealed, room) != 0) {
            rc = vault_file_refuse(err, "no memory");
        }
    }

    text = (char *) sealed.data;

    for (i = 0; rc == 0 && changes && i < av.count; i++) {

        if (vault_lines_is_sealed(&av.lines[i]) == is_seal) {
            continue;
        }

        count++;

        if (is_seal) {
            changes[i].text = text;
            changes[i].len = vault_seal_value(av.key.data, &av.lines[i], text);
            text += changes[i].len;

        } else {
            changes[i].text = (const char *) av.values[i].value;
            changes[i].len = av.values[i].value_len;
        }
    }

    if (rc == 0) {
        rc = agent_vault_replace(&av, changes, NULL,
                                 is_seal ? AGENT_VAULT_WITH_KEY
                                         : AGENT_VAULT_IN_CLEAR, err);
    }

    if (rc == 0) {
        (void) printf("%zu of %zu values %s; %s\n", count, av.count,
                      is_seal ? "are now sealed" : "are now in clear",
                      is_seal ? "agent_vault needs \"key=\" with this key"
                              : "agent_vault must have no \"key=\"");
    }

    vault_memory_free(&sealed);
    free(changes);
    agent_vault_close(&av);

    return rc;
}


/* From here on only SIGKILL ends it between two steps. */

static int
agent_vault_change(agent_vault_t *av, const agent_vault_options_t *options,
    bool may_be_new, char err[VAULT_ERROR_MAX])
{
    sigset_t  all;

    (void) sigfillset(&all);
    (void) sigprocmask(SIG_BLOCK, &all, NULL);

    return agent_vault_open(av, options->vault, options->key, true,
                            may_be_new, err);
}


static size_t
agent_vault_find(const agent_vault_t *av, const char *name)
{
    size_t  i;

    for (i = 0; i < av->count; i++) {
        if (av->lines[i].name_len == strlen(name)
            && memcmp(av->lines[i].name, name, av->lines[i].name_len) == 0)
        {
            break;
        }
    }

    return i;
}
