/*
 * Names that mean a secret.  A variable's name is read as the words that "_"
 * or a change of case separates: GITHUB_TOKEN, githubToken, apikey.
 */

#define _GNU_SOURCE                     /* strcasestr() */

#include <string.h>
#include <strings.h>

#include "secret.h"


#define WORDS_MAX  65           /* of a name of 128 bytes */
#define WORD_MAX   32


typedef struct {
    char    text[WORDS_MAX][WORD_MAX];      /* in capitals */
    size_t  n;
} words_t;


static void secret_words(const char *name, words_t *words);
static bool secret_is_word(const char *word, const char *const *list);
static bool secret_ends_with(const char *text, const char *end);


/* wherever they are in a name */

static const char *const  anywhere[] = {
    "SECRET", "SECRETS", "PASSWORD", "PASSWORDS", "PASSWD", "PASSPHRASE",
    "CREDENTIAL", "CREDENTIALS", "APIKEY", "PRIVATEKEY", "AUTHTOKEN",
    "ACCESSTOKEN", "ACCESSKEY", "JWT", "COOKIES", NULL
};


/* as the last word: MAX_TOKENS, KEY_COUNT and TOKEN_LIMIT are none */

static const char *const  last[] = {
    "KEY", "KEYS", "TOKEN", "PAT", "PWD", "PW", "PASS", "SSHPASS", "DBPASS",
    "BINDPW", "AUTH", "COOKIE", "DSN", NULL
};


/* before KEY, wherever that is: AWS_ACCESS_KEY_ID_PROD */

static const char *const  before_key[] = {
    "ACCESS", "API", "PRIVATE", "SIGNING", "ENCRYPTION", NULL
};


/* in a word: PGPASSWORD, MYTOKEN; MAX_TOKENS and TOKENIZER are none */

static const char *const  ends[] = {
    "PASSWORD", "PASSWD", "PASSPHRASE", "SECRET", "SECRETKEY", "TOKEN",
    "APIKEY", NULL
};


/* behind the last word: AWS_ACCESS_KEY_ID, TOKEN_FILE */

static const char *const  behind[] = {
    "ID", "FILE", "PATH", "JSON", "BASE64", "B64", "VALUE", NULL
};


static const char *const  whole[] = {
    "DATABASE_URL", "DATABASE_URI", "DB_URL", "REDIS_URL", "MONGODB_URI",
    "MONGO_URL", "MONGO_URI", "AMQP_URL", "WEBHOOK_URL",
    "CONNECTION_STRING", "NETRC",
    "PGPASSFILE", "KUBECONFIG", "SSH_AUTH_SOCK", "GPG_AGENT_INFO",
    "DOCKER_AUTH_CONFIG", "DOCKER_CONFIG", NULL
};


typedef struct {
    const char  *directory;         /* that it is in, or NULL: any */
    const char  *name;              /* the whole, or with "*" its end */
} secret_file_t;


static const secret_file_t  files[] = {
    { NULL, ".env" }, { NULL, ".netrc" }, { NULL, "_netrc" },
    { NULL, ".pgpass" }, { NULL, ".my.cnf" }, { NULL, ".git-credentials" },
    { NULL, ".pypirc" }, { NULL, ".htpasswd" }, { NULL, ".dockercfg" },
    { NULL, ".vault-token" }, { NULL, "id_rsa" }, { NULL, "id_dsa" },
    { NULL, "id_ecdsa" }, { NULL, "id_ed25519" }, { NULL, "id_ecdsa_sk" },
    { NULL, "id_ed25519_sk" }, { NULL, "*.p12" }, { NULL, "*.pfx" },
    { NULL, "*.keystore" }, { NULL, "*.kdbx" }, { NULL, "*.ppk" },
    { ".aws", "credentials" }, { ".docker", "config.json" },
    { ".kube", "config" }, { "gcloud", "credentials.db" },
    { "gcloud", "application_default_credentials.json" },
    { ".config", "hub" }, { "gh", "hosts.yml" }, { NULL, NULL }
};


/* ".env.production" is one as well, but not these */

static const char *const  env_samples[] = {
    ".example", ".sample", ".template", ".dist", ".defaults", NULL
};


bool
secret_is_name(const char *name)
{
    size_t       i, n;
    words_t      words;
    const char  *at;

    for (i = 0; whole[i]; i++) {

        n = strlen(whole[i]);
        at = strcasestr(name, whole[i]);

        if (at && (at == name || at[-1] == '_')
            && (at[n] == '\0' || at[n] == '_'))
        {
            return true;
        }
    }

    secret_words(name, &words);

    for (i = 0; i < words.n; i++) {
        if (secret_is_word(words.text[i], anywhere)
            || (i && strcmp(words.text[i], "KEY") == 0
                && secret_is_word(words.text[i - 1], before_key)))
        {
            return true;
        }
    }

    while (words.n > 1
           && (secret_is_word(words.text[words.n - 1], behind)
               || (words.text[words.n - 1][0] >= '0'
                   && words.text[words.n - 1][0] <= '9')))
    {
        words.n--;
    }

    if (words.n == 0) {
        return false;
    }

    for (i = 0; ends[i]; i++) {
        if (secret_ends_with(words.text[words.n - 1], ends[i])) {
            return true;
        }
    }

    return secret_is_word(words.text[words.n - 1], last);
}


/* The words of a name; digits at the end of one are left out. */

static void
secret_words(const char *name, words_t *words)
{
    char         c;
    bool         is_new;
    size_t       len;
    const char  *p;

    words->n = 0;
    len = 0;

    for (p = name; ; p++) {

        is_new = *p == '\0' || *p == '_' || *p == '-' || *p == '.'
                 || (p > name && *p >= 'A' && *p <= 'Z'
                     && p[-1] >= 'a' && p[-1] <= 'z');

        if (is_new && len > 0) {

            while (len > 1 && words->text[words->n][len - 1] >= '0'
                   && words->text[words->n][len - 1] <= '9')
            {
                len--;
            }

            words->text[words->n++][len] = '\0';
            len = 0;
        }

        if (*p == '\0' || words->n == WORDS_MAX) {
            return;
        }

        c = *p;

        if (c == '_' || c == '-' || c == '.' || len == WORD_MAX - 1) {
            continue;
        }

        words->text[words->n][len++] = c >= 'a' && c <= 'z'
                                       ? (char) (c - 'a' + 'A') : c;
    }
}


static bool
secret_is_word(const char *word, const char *const *list)
{
    while (*list && strcmp(word, *list) != 0) {
        list++;
    }

    return *list != NULL;
}


bool
secret_is_file(const char *path)
{
    size_t                n;
    const char           *base, *slash;
    const secret_file_t  *f;
    const char *const    *sample;

    slash = strrchr(path, '/');
    base = slash ? slash + 1 : path;

    if (strncmp(base, ".env.", 5) == 0) {

        for (sample = env_samples; *sample; sample++) {
            if (secret_ends_with(base, *sample)) {
                return false;
            }
        }

        return true;
    }

    for (f = files; f->name; f++) {

        if (f->name[0] == '*' ? !secret_ends_with(base, f->name + 1)
                              : strcmp(base, f->name) != 0)
        {
            continue;
        }

        if (f->directory == NULL) {
            return true;
        }

        /* the directory is the part before the last "/" */

        n = strlen(f->directory);

        if (slash && (size_t) (slash - path) >= n
            && strncmp(slash - n, f->directory, n) == 0
            && ((size_t) (slash - path) == n || slash[-(long) n - 1] == '/'))
        {
            return true;
        }
    }

    return false;
}


static bool
secret_ends_with(const char *text, const char *end)
{
    size_t  n, len;

    n = strlen(text);
    len = strlen(end);

    return n > len && strcmp(text + n - len, end) == 0;
}
