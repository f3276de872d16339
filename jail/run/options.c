/*
 * The options are a table: name, argument, reader, where its value goes, help.
 * The flags of the limits are not in it, they come from the table of limits,
 * so that a limit has one spelling everywhere.
 */

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "run/options.h"
#include "shared/utf8.h"


typedef struct option_s  option_t;

typedef int option_read_t(options_t *options, const option_t *o,
    const char *value, fault_t *fault);

struct option_s {
    const char     *name;
    const char     *argument;           /* NULL: takes none */
    option_read_t  *read;
    size_t          offset;             /* of the field, if it is just one */
    bool            repeats;
    bool            of_policy;          /* of `jail policy` too */
    const char     *help;
};


static option_read_t  option_flag, option_path, option_text, option_policy,
                      option_in, option_env, option_env_file, option_keep;

static int option_read(options_t *options, bool policy, int argc,
    char **argv, int *i, uint64_t *seen, fault_t *fault);
static int option_ask(options_t *options, int argc, char **argv, int *i,
    fault_t *fault);
static int option_limit(options_t *options, limit_id_t id, const char *value,
    fault_t *fault);
static const option_t *option_find(const char *name, size_t n, bool policy);
static limit_id_t option_find_limit(const char *name, size_t n);
static int option_add_env(options_t *options, const char *text, bool is_file,
    fault_t *fault);
static int option_empty(const option_t *o, fault_t *fault);
static bool option_is_name(const char *name);
static void option_default_control(options_t *options);


#define FIELD(name)  offsetof(options_t, name)

static const option_t  option_table[] = {

    { "policy", "NAME", option_policy, FIELD(policy), false, false,
      "the broker's policy to run under (" OPTIONS_POLICY ")" },
    { "control", "SOCKET", option_path, FIELD(control), false, true,
      "the broker's socket ($AGENT_BROKER_CONTROL,\n"
      "                         " PROTOCOL_CONTROL ")" },
    { "offline", NULL, option_flag, FIELD(offline), false, false,
      "no broker and no network at all" },
    { "code", "FILE|-", option_path, FIELD(code), false, false,
      "the program text: /run/task/code in the box, with the\n"
      "                         file's suffix; its path is appended to "
      "COMMAND" },
    { "in", "FILE[:NAME]", option_in, 0, true, false,
      "a file to read: /run/task/in/NAME, linked from the\n"
      "                         working directory; may repeat" },
    { "out", "DIR", option_path, FIELD(out), false, false,
      "a new or empty directory for what the task leaves in\n"
      "                         /run/task/out" },
    { "workspace", "DIR", option_path, FIELD(workspace), false, false,
      "copied into the working directory, and back if COMMAND\n"
      "                         ends by itself" },
    { "env", "NAME=VALUE", option_env, 0, true, false,
      "a variable that the policy lists; may repeat" },
    { "env-file", "FILE", option_env_file, 0, true, false,
      "lines of NAME=VALUE, empty or beginning with \"#\"; may\n"
      "                         repeat" },
    { "external-id", "ID", option_text, FIELD(external_id), false, false,
      "an id of the caller's for the audit log" },
    { "label", "TEXT", option_text, FIELD(label), false, false,
      "a text of the caller's for the audit log" },
    { "stdin", NULL, option_flag, FIELD(has_stdin), false, false,
      "pass the standard input to COMMAND" },
    { "raw", NULL, option_flag, FIELD(raw), false, false,
      "pass the output through; no object, but COMMAND's status" },
    { "output-keep", "PART", option_keep, 0, false, false,
      "of a stream that is cut keep its \"ends\", \"head\" or\n"
      "                         \"tail\" (ends)" },

    { .name = NULL }
};

#define OPTIONS  (sizeof(option_table) / sizeof(option_table[0]))

_Static_assert(OPTIONS + LIMIT_COUNT <= 64, "each has a bit of `seen`");


int
options_parse(options_t *options, int argc, char **argv, fault_t *fault)
{
    int       i;
    uint64_t  seen;

    seen = 0;

    for (i = 0; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {

        if (argv[i][2] == '\0') {
            i++;
            break;
        }

        if (option_read(options, false, argc, argv, &i, &seen, fault) != 0) {
            return -1;
        }
    }

    if (i >= argc) {
        return fault_set(fault, STAGE_USAGE, 0, "no command is given");
    }

    if (argv[i][0] == '\0') {
        return fault_set(fault, STAGE_USAGE, 0, "the command is empty");
    }

    if (argv[i][0] == '-') {
        return fault_set(fault, STAGE_USAGE, 0, "unknown option \"%.80s\"",
                         argv[i]);
    }

    options->command = argv + i;

    if (options->offline && (options->control || options->policy)) {
        return fault_set(fault, STAGE_USAGE, 0,
                         "--offline excludes --%s",
                         options->control ? "control" : "policy");
    }

    if (options->has_stdin && options->code
        && strcmp(options->code, "-") == 0)
    {
        return fault_set(fault, STAGE_USAGE, 0,
                         "--code - and --stdin both read the standard input");
    }

    if (options->raw && options->keep != OUTPUT_ENDS) {
        return fault_set(fault, STAGE_USAGE, 0,
                         "--raw cuts no output: it excludes --output-keep");
    }

    if (options->policy == NULL) {
        options->policy = OPTIONS_POLICY;
    }

    if (!options->offline) {
        option_default_control(options);
    }

    return 0;
}


int
options_parse_policy(options_t *options, int argc, char **argv,
    fault_t *fault)
{
    int       i;
    uint64_t  seen;

    seen = 0;

    for (i = 0; i < argc; i++) {

        if (strcmp(argv[i], "--ask") == 0) {

            if (option_ask(options, argc, argv, &i, fault) != 0) {
                return -1;
            }

            continue;
        }

        if (argv[i][0] == '-') {

            if (option_read(options, true, argc, argv, &i, &seen, fault)
                != 0)
            {
                return -1;
            }

            continue;
        }

        if (options->policy) {
            return fault_set(fault, STAGE_USAGE, 0,
                             "more than one policy is named");
        }

        if (option_policy(options, &option_table[0], argv[i], fault) != 0) {
            return -1;
        }
    }

    if (options->policy == NULL) {
        return fault_set(fault, STAGE_USAGE, 0, "no policy is named");
    }

    option_default_control(options);

    return 0;
}


/* --ask METHOD URL, the one option of two words. */

static int
option_ask(options_t *options, int argc, char **argv, int *i, fault_t *fault)
{
    if (options->ask_method) {
        return fault_set(fault, STAGE_USAGE, 0, "--ask is given twice");
    }

    if (argc - *i < 3) {
        return fault_set(fault, STAGE_USAGE, 0,
                         "--ask needs a method and a URL");
    }

    options->ask_method = argv[*i + 1];
    options->ask_url = argv[*i + 2];
    *i += 2;

    if (options->ask_method[0] == '\0'
        || strlen(options->ask_method) > PROTOCOL_METHOD_MAX
        || !utf8_is_printable(options->ask_method))
    {
        return fault_set(fault, STAGE_USAGE, 0,
                         "the method of --ask is not 1 to %d characters",
                         PROTOCOL_METHOD_MAX);
    }

    if (options->ask_url[0] == '\0'
        || strlen(options->ask_url) > PROTOCOL_URL_MAX
        || !utf8_is_printable(options->ask_url))
    {
        return fault_set(fault, STAGE_USAGE, 0,
                         "the URL of --ask is not 1 to %d characters",
                         PROTOCOL_URL_MAX);
    }

    if (strcmp(options->ask_method, "CONNECT") != 0
        && strncasecmp(options->ask_url, "http://", 7) != 0
        && strncasecmp(options->ask_url, "https://", 8) != 0)
    {
        return fault_set(fault, STAGE_USAGE, 0,
                         "the URL of --ask begins with neither http:// nor "
                         "https://");
    }

    return 0;
}


/* One option at argv[*i]; its argument is "--name=value" or the next word. */

static int
option_read(options_t *options, bool policy, int argc, char **argv, int *i,
    uint64_t *seen, fault_t *fault)
{
    size_t           n;
    uint64_t         bit;
    limit_id_t       limit;
    const char      *name, *value;
    const option_t  *o;

    name = argv[*i] + 2;

    if (strncmp(argv[*i], "--", 2) != 0) {
        return fault_set(fault, STAGE_USAGE, 0, "unknown option \"%.80s\"",
                         argv[*i]);
    }

    n = strcspn(name, "=");
    value = name[n] == '=' ? name + n + 1 : NULL;

    o = option_find(name, n, policy);
    limit = o || policy ? LIMIT_COUNT : option_find_limit(name, n);

    if (o == NULL && limit == LIMIT_COUNT) {
        return fault_set(fault, STAGE_USAGE, 0, "unknown option \"--%.*s\"",
                         (int) (n > 80 ? 80 : n), name);
    }

    bit = 1ull << (o ? (size_t) (o - option_table) : OPTIONS + limit);

    if ((*seen & bit) && !(o && o->repeats)) {
        return fault_set(fault, STAGE_USAGE, 0, "--%.*s is given twice",
                         (int) n, name);
    }

    *seen |= bit;

    if (o && o->argument == NULL) {
        return value ? fault_set(fault, STAGE_USAGE, 0,
                                 "--%s takes no argument", o->name)
                     : o->read(options, o, NULL, fault);
    }

    if (value == NULL) {

        if (*i + 1 >= argc) {
            return fault_set(fault, STAGE_USAGE, 0,
                             "--%.*s needs an argument", (int) n, name);
        }

        value = argv[++*i];
    }

    return o ? o->read(options, o, value, fault)
             : option_limit(options, limit, value, fault);
}


static const option_t *
option_find(const char *name, size_t n, bool policy)
{
    const option_t  *o;

    for (o = option_table; o->name; o++) {
        if (strlen(o->name) == n && memcmp(o->name, name, n) == 0
            && (!policy || o->of_policy))
        {
            return o;
        }
    }

    return NULL;
}


static limit_id_t
option_find_limit(const char *name, size_t n)
{
    limit_id_t   id;
    const char  *flag;

    for (id = 0; id < LIMIT_COUNT; id++) {
        flag = limit_table[id].flag;

        if (flag && strlen(flag) == n && memcmp(flag, name, n) == 0) {
            break;
        }
    }

    return id;
}


static int
option_limit(options_t *options, limit_id_t id, const char *value,
    fault_t *fault)
{
    const char  *err;

    if (limit_parse(id, value, strlen(value), &options->limits[id], &err)
        != 0)
    {
        return fault_set(fault, STAGE_USAGE, 0,
                         "invalid value \"%.80s\" in --%s: it %s", value,
                         limit_table[id].flag, err);
    }

    options->limit_set[id] = true;

    return 0;
}


static int
option_flag(options_t *options, const option_t *o, const char *value,
    fault_t *fault)
{
    *(bool *) ((char *) options + o->offset) = true;

    return 0;
}


static int
option_path(options_t *options, const option_t *o, const char *value,
    fault_t *fault)
{
    if (value[0] == '\0') {
        return option_empty(o, fault);
    }

    *(const char **) ((char *) options + o->offset) = value;

    return 0;
}


static int
option_text(options_t *options, const option_t *o, const char *value,
    fault_t *fault)
{
    if (strlen(value) > PROTOCOL_LABEL_MAX || !utf8_is_printable(value)) {
        return fault_set(fault, STAGE_USAGE, 0,
                         "the argument of --%s must be at most %d bytes of "
                         "printable UTF-8", o->name, PROTOCOL_LABEL_MAX);
    }

    *(const char **) ((char *) options + o->offset) = value;

    return 0;
}


static int
option_policy(options_t *options, const option_t *o, const char *value,
    fault_t *fault)
{
    if (value[0] == '\0') {
        return fault_set(fault, STAGE_USAGE, 0, "the policy's name is empty");
    }

    return option_text(options, o, value, fault);
}


/*
 * FILE[:NAME].  What follows the last colon is the name, so a file with a
 * colon in its path needs a name of its own.
 */

static int
option_in(options_t *options, const option_t *o, const char *value,
    fault_t *fault)
{
    char         *colon;
    unsigned      i;
    const char   *name;
    option_in_t  *in;

    if (options->nin == OPTIONS_IN_MAX) {
        return fault_set(fault, STAGE_USAGE, 0, "--in is given more than %d "
                         "times", OPTIONS_IN_MAX);
    }

    in = &options->in[options->nin];
    in->path = value;
    colon = (char *) strrchr(value, ':');

    if (colon) {
        name = colon + 1;
        *colon = '\0';

    } else {
        name = strrchr(value, '/');
        name = name ? name + 1 : value;
    }

    if (value[0] == '\0') {
        return option_empty(o, fault);
    }

    if (!option_is_name(name)) {
        return fault_set(fault, STAGE_USAGE, 0,
                         "the name \"%.80s\" in --in must be one path "
                         "component of printable characters that does not "
                         "begin with \"-\"",
                         utf8_is_printable(name) ? name : "?");
    }

    for (i = 0; i < options->nin; i++) {
        if (strcmp(options->in[i].name, name) == 0) {
            return fault_set(fault, STAGE_USAGE, 0,
                             "two files of --in have the name \"%s\"", name);
        }
    }

    (void) strcpy(in->name, name);
    options->nin++;

    return 0;
}


static int
option_env(options_t *options, const option_t *o, const char *value,
    fault_t *fault)
{
    return option_add_env(options, value, false, fault);
}


static int
option_env_file(options_t *options, const option_t *o, const char *value,
    fault_t *fault)
{
    return value[0] == '\0' ? option_empty(o, fault)
                            : option_add_env(options, value, true, fault);
}


static int
option_add_env(options_t *options, const char *text, bool is_file,
    fault_t *fault)
{
    if (options->nenv == OPTIONS_ENV_MAX) {
        return fault_set(fault, STAGE_USAGE, 0, "--env and --env-file are "
                         "given more than %d times", OPTIONS_ENV_MAX);
    }

    options->env[options->nenv++] = (option_env_t) { is_file, text };

    return 0;
}


static int
option_keep(options_t *options, const option_t *o, const char *value,
    fault_t *fault)
{
    unsigned  i;

    static const char *const  parts[] = {
        [OUTPUT_ENDS] = "ends", [OUTPUT_HEAD] = "head",
        [OUTPUT_TAIL] = "tail"
    };

    for (i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (strcmp(parts[i], value) == 0) {
            options->keep = (output_keep_t) i;
            return 0;
        }
    }

    return fault_set(fault, STAGE_USAGE, 0,
                     "--output-keep must be ends, head or tail");
}


static int
option_empty(const option_t *o, fault_t *fault)
{
    return fault_set(fault, STAGE_USAGE, 0, "the path in --%s is empty",
                     o->name);
}


static bool
option_is_name(const char *name)
{
    size_t  n;

    n = strlen(name);

    return n > 0 && n <= OPTIONS_NAME_MAX && name[0] != '-'
           && strchr(name, '/') == NULL
           && strcmp(name, ".") != 0 && strcmp(name, "..") != 0
           && utf8_is_printable(name);
}


/* Unless the option was given. */

static void
option_default_control(options_t *options)
{
    if (options->control == NULL) {
        options->control = getenv("AGENT_BROKER_CONTROL");
    }

    if (options->control == NULL || options->control[0] == '\0') {
        options->control = PROTOCOL_CONTROL;
    }
}


void
options_help(FILE *out)
{
    char             flag[64], text[32];
    unsigned         i;
    const option_t  *o;

    (void) fputs(
        "usage: jail run [OPTION]... -- COMMAND [ARG]...\n"
        "       jail policy [--control SOCKET] NAME [--ask METHOD URL]\n"
        "       jail sweep\n"
        "       jail doctor [--json] [--compare] [--control SOCKET] "
        "[--policy NAME]\n"
        "       jail --version | --help\n"
        "\n"
        "Runs COMMAND in a fresh box and prints one JSON object that says "
        "what happened.\n"
        "\n", out);

    for (o = option_table; o->name; o++) {
        (void) snprintf(flag, sizeof(flag), "--%s %s", o->name,
                        o->argument ? o->argument : "");
        (void) fprintf(out, "  %-22s %s\n", flag, o->help);
    }

    (void) fputs("\n"
                 "Limits; each may only be tighter than the policy's.  A time "
                 "is in seconds or has\n"
                 "ms, s, m or h; a size is in bytes or has k, m, g or t:\n"
                 "\n", out);

    for (i = 0; i < LIMIT_COUNT; i++) {

        if (limit_table[i].flag == NULL) {
            continue;
        }

        (void) snprintf(flag, sizeof(flag), "--%s VALUE",
                        limit_table[i].flag);
        (void) fprintf(out, "  %-22s default %s\n", flag,
                       limit_text(i, limit_table[i].standard, text,
                                  sizeof(text)));
    }

    (void) fputs(
        "\n"
        "Status: 0 a result was printed, whatever the command did; 125 the "
        "box could not\n"
        "be set up (\"reason\":\"setup\"); 2 wrong usage.  With --raw: the "
        "command's; 128 and\n"
        "a signal's number; 124 out of time; 137 out of memory; 126 or 127 "
        "not executed.\n", out);
}
