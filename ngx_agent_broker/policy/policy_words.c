/*
 * The grammar of the words that policies are made of, and the tables of what
 * no policy may say.  Each *_refusal gives a constant phrase that follows the
 * quoted word in a message, or NULL for a word that is fine.
 */

#include <stdint.h>
#include <string.h>

#include <libpsl.h>

#include "jail/shared/utf8.h"
#include "jail/shared/box_paths.h"
#include "policy/policy.h"
#include "policy/policy_words.h"


#define METHOD_MAX  32
#define ENV_MAX     128
#define PEM_MAX     (4 * 1024 * 1024)


typedef struct {
    const char  *word;
    bool         prefix;        /* and all that begins with it */
    bool         suffix;        /* and all that ends in it */
    const char  *why;
} env_refusal_t;


typedef struct {
    const char  *path;
    bool         exact;         /* this directory only, not what is in it */
    const char  *why;
} path_refusal_t;


static bool policy_is_path(const char *text);
static const char *policy_path_refusal(const path_refusal_t *table, size_t n,
    const char *path);
static bool policy_is_shown(uint32_t code);
static bool policy_is_in_pem(uint32_t code);
static bool policy_is_never_opened(const address_range_t *range);


static const char  env_loader[] =
    "would change which code the box's programs load";
static const char  env_broker[] = "is set by the launcher for the broker";
static const char  env_box[] = "is set by the launcher for the box";
static const char  env_verify[] = "would turn off or replace the check of "
                                  "certificates";
static const char  env_shell[] = "would run code before the task's own";


static const env_refusal_t  env_refusals[] = {
    { "LD_", true, false, env_loader },
    { "GLIBC_TUNABLES", false, false, env_loader },
    { "GCONV_PATH", false, false, env_loader },
    { "LOCPATH", false, false, env_loader },
    { "NLSPATH", false, false, env_loader },
    { "MALLOC_TRACE", false, false, env_loader },
    { "DYLD_", true, false, env_loader },

    { "BASH_ENV", false, false, env_shell },
    { "ENV", false, false, env_shell },
    { "SHELLOPTS", false, false, env_shell },
    { "BASHOPTS", false, false, env_shell },
    { "PS4", false, false, env_shell },
    { "IFS", false, false, env_shell },
    { "PROMPT_COMMAND", false, false, env_shell },

    { "PATH", false, false, env_box },
    { "HOME", false, false, env_box },
    { "TMPDIR", false, false, env_box },
    { "PWD", false, false, env_box },
    { "OLDPWD", false, false, env_box },
    { "USER", false, false, env_box },
    { "LOGNAME", false, false, env_box },
    { "SHELL", false, false, env_box },
    { "TASK_", true, false, env_box },
    { "RES_OPTIONS", false, false, env_box },
    { "LOCALDOMAIN", false, false, env_box },
    { "HOSTALIASES", false, false, env_box },

    { "_PROXY", false, true, env_broker },
    { "_proxy", false, true, env_broker },
    { "AGENT_BROKER_", true, false, env_broker },
    { "NODE_USE_ENV_PROXY", false, false, env_broker },
    { "JAVA_TOOL_OPTIONS", false, false, env_broker },
    { "_JAVA_OPTIONS", false, false, env_broker },
    { "JDK_JAVA_OPTIONS", false, false, env_broker },

    { "SSL_CERT_FILE", false, false, env_verify },
    { "SSL_CERT_DIR", false, false, env_verify },
    { "OPENSSL_CONF", false, false, env_verify },
    { "OPENSSL_MODULES", false, false, env_loader },
    { "OPENSSL_ENGINES", false, false, env_loader },
    { "SSLKEYLOGFILE", false, false, env_verify },
    { "REQUESTS_CA_BUNDLE", false, false, env_verify },
    { "CURL_CA_BUNDLE", false, false, env_verify },
    { "AWS_CA_BUNDLE", false, false, env_verify },
    { "NODE_EXTRA_CA_CERTS", false, false, env_verify },
    { "NODE_TLS_REJECT_UNAUTHORIZED", false, false, env_verify },
    { "PYTHONHTTPSVERIFY", false, false, env_verify },
    { "GIT_SSL_CAINFO", false, false, env_verify },
    { "GIT_SSL_CAPATH", false, false, env_verify },
    { "GIT_SSL_NO_VERIFY", false, false, env_verify },
    { "PIP_CERT", false, false, env_verify },
    { "NPM_CONFIG_CAFILE", false, false, env_verify },
    { "npm_config_cafile", false, false, env_verify },
};


static const path_refusal_t  readable_refusals[] = {
    { "/", true, "is the whole host" },
    { "/home", false, "holds homes, which no box may see" },
    { "/root", false, "is a home, which no box may see" },
    { "/proc", false, "is the kernel's, and the box has its own" },
    { "/sys", false, "is the kernel's, and no box may see it" },
    { "/dev", false, "holds devices, and the box has its own" },
    { "/run", false, "holds sockets of the host" },
    { "/var/run", false, "holds sockets of the host" },
    { "/var", true, "holds data of every service of the host" },
    { "/var/lib", true, "holds data of every service of the host" },
    { "/var/log", false, "holds logs of the host" },
    { "/var/spool", false, "holds mail and jobs of the host" },
    { "/var/backups", false, "holds copies of the host's secrets" },
    { "/tmp", true, "is shared by all users of the host" },
    { "/var/tmp", true, "is shared by all users of the host" },
    { "/etc", true, "holds secrets of the host; name what is needed in it" },
    { "/etc/shadow", false, "holds secrets of the host" },
    { "/etc/shadow-", false, "holds secrets of the host" },
    { "/etc/gshadow", false, "holds secrets of the host" },
    { "/etc/gshadow-", false, "holds secrets of the host" },
    { "/etc/sudoers", false, "holds secrets of the host" },
    { "/etc/sudoers.d", false, "holds secrets of the host" },
    { "/etc/ssh", false, "holds secrets of the host" },
    { "/etc/ssl/private", false, "holds secrets of the host" },
    { "/boot", false, "is the host's, and no box may see it" },
};


static const path_refusal_t  writable_refusals[] = {
    { "/", true, "is the box's root" },
    { "/usr", false, "holds the box's programs" },
    { "/bin", false, "holds the box's programs" },
    { "/sbin", false, "holds the box's programs" },
    { "/lib", false, "holds the box's programs" },
    { "/lib32", false, "holds the box's programs" },
    { "/lib64", false, "holds the box's programs" },
    { "/libx32", false, "holds the box's programs" },
    { "/etc", false, "holds what the box's programs trust" },
    { "/proc", false, "is the kernel's" },
    { "/sys", false, "is the kernel's" },
    { "/dev", false, "holds the box's devices" },
    { "/run", true, "holds the task's own files" },
    { "/run/task", false, "holds the task's own files" },
    { "/tmp", true, "is in every box already" },
};


/*
 * Names under which anybody can get one of his own, and that are not a
 * public suffix themselves, or not in every list that libpsl was built with.
 */

static const char *const  shared_parents[] = {
    "amazonaws.com", "azure.com", "cloudapp.azure.com", "windows.net",
    "core.windows.net", "blob.core.windows.net", "file.core.windows.net",
    "queue.core.windows.net", "table.core.windows.net",
    "web.core.windows.net", "dfs.core.windows.net", "azurewebsites.net",
    "jfrog.io", "storage.googleapis.com", "nip.io", "sslip.io", "xip.io",
    "ngrok.io", "ngrok.app", "trycloudflare.com", "loca.lt",
};


/* The vault's names, credentials' and policies'. */

bool
policy_is_name(const char *text)
{
    size_t  i;

    for (i = 0; text[i]; i++) {

        if ((text[i] >= 'a' && text[i] <= 'z')
            || (text[i] >= 'A' && text[i] <= 'Z')
            || (text[i] >= '0' && text[i] <= '9')
            || text[i] == '_'
            || (i > 0 && (text[i] == '.' || text[i] == '-')))
        {
            continue;
        }

        return false;
    }

    return i > 0 && i <= POLICY_NAME_MAX;
}


/* Methods differ by case (RFC 9110 section 9.1), and all in use are upper. */

bool
policy_is_method(const char *text)
{
    size_t  i;

    for (i = 0; text[i]; i++) {
        if ((text[i] < 'A' || text[i] > 'Z')
            && (i == 0 || (text[i] != '-' && text[i] != '_')))
        {
            return false;
        }
    }

    return i > 0 && i <= METHOD_MAX;
}


/* Absolute, and with one spelling: no empty, "." or ".." component. */

static bool
policy_is_path(const char *text)
{
    size_t  i, start;

    if (text[0] != '/' || !policy_is_plain_text(text, BOX_PATH_MAX)) {
        return false;
    }

    if (text[1] == '\0') {
        return true;
    }

    for (i = 1, start = 1; ; i++) {

        if (text[i] != '/' && text[i] != '\0') {
            continue;
        }

        if (i == start
            || (i - start == 1 && text[start] == '.')
            || (i - start == 2 && memcmp(text + start, "..", 2) == 0))
        {
            return false;
        }

        if (text[i] == '\0') {
            return true;
        }

        start = i + 1;
    }
}


bool
policy_is_plain_text(const char *text, size_t max)
{
    return text[0] != '\0' && strlen(text) <= max
           && utf8_is_valid(text, strlen(text), policy_is_shown, false);
}


bool
policy_is_pem(const char *text)
{
    return utf8_is_valid(text, strlen(text), policy_is_in_pem, false)
           && strlen(text) <= PEM_MAX
           && strstr(text, "-----BEGIN ") != NULL;
}


/*
 * What shows as one line and as what it is: no controls (C1 too), no line
 * separators, and no direction marks, which make a reader see another text.
 */

static bool
policy_is_shown(uint32_t code)
{
    return code >= 0x20 && (code < 0x7f || code >= 0xa0)
           && (code < 0x200b || code > 0x200f)
           && (code < 0x2028 || code > 0x202e)
           && (code < 0x2060 || code > 0x206f)
           && code != 0xfeff && code < 0xe0000;
}


static bool
policy_is_in_pem(uint32_t code)
{
    return code >= 0x20 || code == '\n' || code == '\r' || code == '\t';
}


const char *
policy_env_refusal(const char *name)
{
    size_t                i, n, len;
    const env_refusal_t  *r;

    for (n = 0; name[n]; n++) {
        if ((name[n] < 'a' || name[n] > 'z')
            && (name[n] < 'A' || name[n] > 'Z')
            && name[n] != '_'
            && (n == 0 || name[n] < '0' || name[n] > '9'))
        {
            return "is not the name of an environment variable";
        }
    }

    if (n == 0 || n > ENV_MAX) {
        return "is not the name of an environment variable";
    }

    for (i = 0; i < sizeof(env_refusals) / sizeof(env_refusals[0]); i++) {

        r = &env_refusals[i];
        len = strlen(r->word);

        if (n < len || (n > len && !r->prefix && !r->suffix)) {
            continue;
        }

        if (memcmp(name + (r->suffix ? n - len : 0), r->word, len) == 0) {
            return r->why;
        }
    }

    return NULL;
}


const char *
policy_readable_refusal(const char *path)
{
    return policy_path_refusal(readable_refusals,
                        sizeof(readable_refusals) / sizeof(path_refusal_t),
                        path);
}


const char *
policy_writable_refusal(const char *path)
{
    return policy_path_refusal(writable_refusals,
                        sizeof(writable_refusals) / sizeof(path_refusal_t),
                        path);
}


static const char *
policy_path_refusal(const path_refusal_t *table, size_t n, const char *path)
{
    size_t  i, len;

    if (!policy_is_path(path)) {
        return "is not an absolute path without \".\", \"..\" and empty "
               "parts";
    }

    for (i = 0; i < n; i++) {

        len = strlen(table[i].path);

        if (strncmp(path, table[i].path, len) == 0
            && (path[len] == '\0' || (path[len] == '/' && !table[i].exact)))
        {
            return table[i].why;
        }
    }

    return NULL;
}


/*
 * host is what follows "*.": a wildcard over a public suffix lets
 * anybody register a name that the rule allows.
 */

const char *
policy_wildcard_refusal(const char *host)
{
    size_t            i;
    const psl_ctx_t  *psl;

    if (strchr(host, '.') == NULL) {
        return "needs at least two labels under its \"*.\", as in "
               "\"*.example.com\"";
    }

    psl = psl_builtin();

    if (psl == NULL) {
        return "cannot be judged: libpsl has no list of public suffixes";
    }

    if (psl_is_public_suffix2(psl, host, PSL_TYPE_ANY)) {
        return "is a wildcard over a public suffix: anyone can register a "
               "name under it; write the domain that is meant, as in "
               "\"*.example.com\"";
    }

    for (i = 0; i < sizeof(shared_parents) / sizeof(char *); i++) {
        if (strcmp(host, shared_parents[i]) == 0) {
            return "is a wildcard over a shared domain: anyone can get a "
                   "name under it; write the hosts that are meant";
        }
    }

    return NULL;
}


const char *
policy_range_refusal(const address_range_t *range)
{
    unsigned  least;

    if (policy_is_never_opened(range)) {
        return "holds only addresses that no rule opens";
    }

    if (address_range_is_public(range)) {
        return "is public: a name may resolve to it without \"private\", "
               "which opens special ranges such as 10.0.0.0/8";
    }

    /* 240.0.0.0/4 is the one special range of IPv4 wider than /8 */

    least = range->v6 ? 7 : (range->bytes[0] & 0xf0) == 0xf0 ? 4 : 8;

    if (range->prefix < least) {
        return "is too wide: at least /8, or /7 for IPv6";
    }

    return NULL;
}


/* Are its first and its last address of a kind that stays forbidden? */

static bool
policy_is_never_opened(const address_range_t *range)
{
    unsigned     i;
    address_t    a;
    const char  *why;

    a.v6 = range->v6;
    memcpy(a.bytes, range->bytes, 16);

    if (address_judge(&a, range, 1, true, &why) != ADDRESS_FORBIDDEN) {
        return false;
    }

    for (i = range->prefix; i < (range->v6 ? 128U : 32U); i++) {
        a.bytes[i / 8] |= (unsigned char) (0x80 >> (i % 8));
    }

    return address_judge(&a, range, 1, true, &why) == ADDRESS_FORBIDDEN;
}

