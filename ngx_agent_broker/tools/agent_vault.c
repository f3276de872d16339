/*
 * agent-vault: makes and changes a vault and its key.  It never prints a
 * value, and takes one only from standard input; agent-vault.1 says how it is
 * used.
 *
 * What a vault is, only the module's own reader says (policy/vault*.c): a
 * change is read by it before and after.  All that holds a value is locked
 * memory that is left out of core dumps; there are no core dumps either.
 */

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jail/shared/version.h"
#include "tools/agent_vault.h"


#define DEFAULT_VAULT  "/etc/agent-broker/vault"


typedef struct {
    const char  *name;
    bool         has_name;          /* takes the NAME of an entry */
    bool         needs_key;
    int        (*run)(const agent_vault_options_t *options,
                      char err[VAULT_ERROR_MAX]);
} command_t;


static const command_t *agent_vault_options(int argc, char **argv,
    agent_vault_options_t *options);
static bool agent_vault_option(char **argv, int *i,
    agent_vault_options_t *options);
static const command_t *agent_vault_usage(const char *why);
static bool agent_vault_protect(void);


static const command_t  commands[] = {
    { "init-key", false, true, agent_vault_command_init_key },
    { "seal", false, true, agent_vault_command_seal },
    { "open", false, true, agent_vault_command_unseal },
    { "add", true, false, agent_vault_command_add },
    { "rotate", true, false, agent_vault_command_rotate },
    { "remove", true, false, agent_vault_command_remove },
    { "list", false, false, agent_vault_command_list },
};


static const char  help[] =
"usage: agent-vault [--vault FILE] [--key KEYFILE] COMMAND [NAME]\n"
"\n"
"  init-key       make KEYFILE, 32 random bytes\n"
"  seal           seal all values of the vault\n"
"  open --plain   write all values in clear, in the same file\n"
"  add NAME       add an entry; its value is read from standard input\n"
"  rotate NAME    replace an entry's value; it is read from standard input\n"
"  remove NAME    remove an entry\n"
"  list           print the names, and whether their values are sealed\n"
"\n"
"  --vault FILE   instead of " DEFAULT_VAULT "\n"
"  --key KEYFILE  its values are sealed with this key\n"
"  --help, --version\n"
"\n"
"A terminal is asked for the value, without an echo.  No value is printed, or\n"
"taken from the command line.  \"nginx -s reload\" puts a change into use.\n"
"Exit status: 0 done, 1 nothing was changed, 2 wrong usage.\n";


int
main(int argc, char **argv)
{
    int               fd;
    char              err[VAULT_ERROR_MAX];
    agent_vault_options_t         options;
    const command_t  *command;

    do {                                /* 0, 1 and 2 are not the vault's */
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    } while (fd >= 0 && fd <= STDERR_FILENO);

    (void) umask(077);

    command = agent_vault_options(argc, argv, &options);

    if (options.is_help || options.is_version) {
        (void) fputs(options.is_help ? help : AGENT_BROKER_VERSION "\n",
                     stdout);
        return fflush(stdout) == 0 ? AGENT_VAULT_DONE : AGENT_VAULT_FAILED;
    }

    if (command == NULL) {
        return AGENT_VAULT_USAGE;
    }

    if (fd == -1 || !agent_vault_protect()) {
        (void) fputs("agent-vault: this process cannot be protected\n",
                     stderr);
        return AGENT_VAULT_FAILED;
    }

    err[0] = '\0';

    if (command->run(&options, err) != 0) {
        (void) fprintf(stderr, "agent-vault: %s\n", err);
        return AGENT_VAULT_FAILED;
    }

    return AGENT_VAULT_DONE;
}


/* NULL: it was said what is wrong, or there is nothing to run. */

static const command_t *
agent_vault_options(int argc, char **argv, agent_vault_options_t *options)
{
    int               i;
    size_t            k;
    const char       *why;
    const command_t  *command;

    memset(options, 0, sizeof(agent_vault_options_t));
    options->vault = DEFAULT_VAULT;
    command = NULL;

    for (i = 1; i < argc; i++) {

        if (argv[i][0] == '-') {

            if (!agent_vault_option(argv, &i, options)) {
                return agent_vault_usage("an option is unknown, repeated, or "
                                         "has no FILE");
            }

        } else if (command == NULL) {

            for (k = 0; k < sizeof(commands) / sizeof(commands[0]); k++) {
                if (strcmp(argv[i], commands[k].name) == 0) {
                    command = &commands[k];
                }
            }

            if (command == NULL) {
                return agent_vault_usage("there is no such command");
            }

        } else if (command->has_name && options->name == NULL) {
            options->name = argv[i];

        } else {

            /* what it is, may be a value: it is not printed */

            return agent_vault_usage("there is a word too many; a value is "
                                     "read from standard input, and never "
                                     "from the command line");
        }
    }

    if (options->is_help || options->is_version) {
        return NULL;
    }

    if (command == NULL) {
        return agent_vault_usage("there is no command");
    }

    if (command->needs_key && options->key == NULL) {
        return agent_vault_usage("this command needs --key KEYFILE");
    }

    if (options->is_plain != (command->run == agent_vault_command_unseal)) {
        return agent_vault_usage("\"open --plain\" writes all values in "
                                 "clear; no other command has --plain, and "
                                 "\"open\" does nothing without it");
    }

    if (command->has_name) {

        if (options->name == NULL) {
            return agent_vault_usage("this command needs the NAME of an "
                                     "entry");
        }

        why = vault_lines_judge_name((const unsigned char *) options->name,
                                     strlen(options->name));
        if (why) {
            return agent_vault_usage("NAME is not one that an entry can have: "
                                     "up to 64 letters, digits, \"_\", \".\" "
                                     "and \"-\" that make readable words, "
                                     "beginning with a letter or \"_\"");
        }
    }

    return command;
}


static bool
agent_vault_option(char **argv, int *i, agent_vault_options_t *options)
{
    bool         *flag;
    const char  **file;

    flag = strcmp(argv[*i], "--plain") == 0 ? &options->is_plain
           : strcmp(argv[*i], "--help") == 0 ? &options->is_help
           : strcmp(argv[*i], "--version") == 0 ? &options->is_version : NULL;

    if (flag) {

        if (*flag) {
            return false;
        }

        *flag = true;

        return true;
    }

    file = strcmp(argv[*i], "--vault") == 0 ? &options->vault
           : strcmp(argv[*i], "--key") == 0 ? &options->key : NULL;

    if (file == NULL || argv[*i + 1] == NULL || argv[*i + 1][0] == '\0'
        || (*file && strcmp(*file, DEFAULT_VAULT) != 0))
    {
        return false;
    }

    *file = argv[++*i];

    return true;
}


static const command_t *
agent_vault_usage(const char *why)
{
    (void) fprintf(stderr, "agent-vault: %s: see agent-vault --help\n", why);

    return NULL;
}


/* No core, and no other process of the user reads its memory. */

static bool
agent_vault_protect(void)
{
    static const struct rlimit  none = { 0, 0 };

    return setrlimit(RLIMIT_CORE, &none) == 0
           && prctl(PR_SET_DUMPABLE, 0) == 0;
}
