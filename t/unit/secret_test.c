/*
 * What looks like a credential, and what is a name of one, or an ordinary
 * word.
 */

#include "unit.h"

#include "jail/shared/secret.h"


static bool
looks(const char *text)
{
    bool    found;
    char   *exact;
    size_t  n;

    n = strlen(text);
    exact = malloc(n ? n : 1);
    memcpy(exact, text, n);
    found = secret_is_in(exact, n);
    free(exact);

    return found;
}


static void
test_credentials(void **state)
{
    size_t  i;

    static const char *const  rows[] = {
        "sk_live_0123456789abcdef",
        "sk-proj-abcdefghijklmnopqrstuvwxyz",
        "sk-ant-api03-Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6",
        "ghp_abcdefghijklmnopqrstuvwxyzabcdefghij",
        "github_pat_11ABCDEFG0abcdefghijklm_nopqrstu",
        "glpat-ABCDEFGHIJKLMNOPQRST",
        "xoxb-123456789012-abcdefghijkl",
        "AKIAIOSFODNN7EXAMPLE",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln",
        "npm_abcdefghijklmnopqrstuvwxyzABCDEFGHIJ",
        "AIzaSyA1234567890abcdefghijklmnopqrstuvw",
        "tok-ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        "0123456789abcdef",
        "d41d8cd98f00b204e9800998ecf8427e",
        "550e8400-e29b-41d4-a716-446655440000",
        "XK4J-9F2M-77QP-ZT3A",
        "Zm9vYmFyYmF6cXV4",
        /* within a text */
        "OPENAI_API_KEY=sk_live_0123456789abcdef",
        "https://user:sk_live_0123456789abcdef@host/",
        "Bearer sk_live_0123456789abcdef",
        "\"sk_live_0123456789abcdef\"",
    };

    (void) state;

    for (i = 0; i < COUNT(rows); i++) {
        expect(looks(rows[i]), "\"%s\" is taken for a name", rows[i]);
    }
}


static void
test_names(void **state)
{
    size_t  i;

    static const char *const  rows[] = {
        "", "a", "api_internal", "sk_live_0123456", "0123456789abcde",
        "openai_production_key", "github-readonly-token-2024",
        "internalApiKeyReadonly", "internalgithubtoken",
        "npm_publish_internal", "sk-production-key", "customer_8f3a2c_prod",
        "k8s-cluster-prod-eu-west-1", "aws_s3_backup_bucket_rw",
        "GITHUB_PAT_READONLY_INTERNAL", "x-access-token-reader",
        "api_internal_v2_2024-11-30", "https://api.internal.example.com:8443/",
        "www.packages.example.org", "99999999999999999999r/s",
        "123456789012345678ms", "/etc/agent-broker/conf/trusted.pem",
    };

    (void) state;

    for (i = 0; i < COUNT(rows); i++) {
        expect(!looks(rows[i]), "\"%s\" is taken for a token", rows[i]);
    }
}


static void
test_hidden(void **state)
{
    char    text[128];
    size_t  i;

    static const struct {
        const char  *text;
        const char  *shown;
    } rows[] = {
        { "", "" },
        { "api_internal", "api_internal" },
        { "0123456789abcdef", "(not shown)" },
        { "A=0123456789abcdef", "A=(not shown)" },
        { "0123456789abcdef,0123456789abcdef0", "(not shown),(not shown)" },
        { "x 0123456789abcdef y sk_live_0123456789abcdef@h",
          "x (not shown) y (not shown)@h" },
    };

    (void) state;

    for (i = 0; i < COUNT(rows); i++) {
        (void) strcpy(text, rows[i].text);
        secret_hide(text);
        assert_string_equal(text, rows[i].shown);
    }
}


/* In the middle of a long text, at every place that it may begin at. */

static const char *
scanned(const char *text, size_t before)
{
    char        *exact;
    size_t       n;
    const char  *found;

    n = strlen(text);
    exact = malloc(before + n + 1);
    memset(exact, ' ', before);
    memcpy(exact + before, text, n);
    found = secret_scan(exact, before + n);
    free(exact);

    return found ? found : "";
}


static void
test_scan(void **state)
{
    size_t  i, before;

    static const struct {
        const char  *text;
        const char  *found;
    } rows[] = {
        { "ghp_Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb7c", "a token" },
        { "x = 'sk_live_4eC39HqLyjWDarjtT1zdp7dc'\n", "a token" },
        { "AWS=AKIAIOSFODNN7EXAMPL3", "a token" },
        { "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
          "a token" },
        { "-----BEGIN RSA PRIVATE KEY-----\n"
          "MIIEowIBAAKCAQEAu1SU1LfVLPHCozMxH2Mo4lgOEePzNm0tRgeLezV6ffAt0gun\n",
          "a private key" },
        { "-----BEGIN PRIVATE KEY-----\r\n"
          "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us\r\n",
          "a private key" },
        { "-----BEGIN OPENSSH PRIVATE KEY-----\n"
          "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtz\n",
          "a private key" },
        { "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n"
          "DEK-Info: AES-128-CBC,0123456789ABCDEF\n\n"
          "MIIEowIBAAKCAQEAu1SU1LfVLPHCozMxH2Mo4lgOEePzNm0tRgeLezV6ffAt0gun\n",
          "a private key" },
        { "{\"private_key\": \"-----BEGIN PRIVATE KEY-----\\n"
          "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us\\n",
          "a private key" },
        { "KEY='-----BEGIN RSA PRIVATE KEY-----\\r\\n"
          "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us",
          "a private key" },
        { "-----BEGIN PRIVATE KEY----- "
          "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us",
          "a private key" },
        { "postgres://app:Xk29sj%40d82ks@db.prod/app",
          "an address with a password" },
        { "postgres://app:Xk29fjQ1zz@db.internal/x",
          "an address with a password" },
        { "url: https://u:Xk29fjQ1zz@host/", "an address with a password" },

        /* ordinary text */
        { "", "" },
        { "if \"-----BEGIN PRIVATE KEY-----\" in text:\n    pass\n", "" },
        { "-----BEGIN CERTIFICATE-----\n"
          "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n",
          "" },
        { "-----BEGIN PUBLIC KEY-----\n"
          "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAu1SU1LfVLPHCozMxH2Mo\n",
          "" },
        { "sourceMappingURL=data:application/json;base64,"
          "eyJ2ZXJzaW9uIjozLCJzb3VyY2VzIjpbIi4uL3NyYy9pbmRleC50cyJdfQ", "" },
        { "sha512-Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9v", "" },
        { "d41d8cd98f00b204e9800998ecf8427e  file", "" },
        { "sk-learn-contrib-something-long-and-readable", "" },
        { "github_pat_ is how a token begins", "" },
        { "npm_config_registry=https", "" },
        { "postgres://user:password@localhost/db", "" },
        { "'postgres://app:%s@host/%s' % (code, name)", "" },
        { "'postgres://app:%(value_of)s@host/'", "" },
        { "postgres://user:${PASSWORD_OF_DB}@localhost/db", "" },
        { "ftp://anonymous:anonymous@ftp.example.org/", "" },
        { "url = f'https://{user}:{code_of_it}@host/'", "" },
        { "mail to a.person@example.com: now, at 12:30:45", "" },
        { "@decorator\ndef f(x: int) -> None: pass\n", "" },
        { "git@github.com:owner/repository.git", "" },
        { "ssh://git@host:2222/some/path/that/is/long", "" },
    };

    (void) state;

    for (i = 0; i < COUNT(rows); i++) {
        for (before = 0; before < 40; before++) {

            /* a key begins its line */

            if (before && strncmp(rows[i].text, "-----", 5) == 0) {
                break;
            }

            expect(strcmp(scanned(rows[i].text, before), rows[i].found) == 0,
                   "row %zu at %zu: \"%s\"", i, before,
                   scanned(rows[i].text, before));
        }
    }
}


static void
test_variables(void **state)
{
    size_t  i;

    static const char *const  secrets[] = {
        "PAYMENT_KEY", "GITHUB_TOKEN", "OPENAI_API_KEY", "DB_PASSWORD",
        "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "apiKey", "githubToken",
        "MYSQL_PWD", "SECRET", "TOKEN", "API_KEY_2", "STRIPE_KEY1",
        "GOOGLE_APPLICATION_CREDENTIALS", "DATABASE_URL", "MY_REDIS_URL",
        "SENTRY_DSN", "SSH_AUTH_SOCK", "KUBECONFIG", "NPM_AUTH", "CI_JWT",
        "SESSION_COOKIE", "PRIVATE_KEY_FILE", "GPG_PASSPHRASE", "GH_PAT",
        "PGPASSWORD", "SSHPASS", "DBPASS", "SMTPPASSWORD", "LDAP_BINDPW",
        "MYSQL_ROOT_PW", "SESSION_COOKIES", "CI_JOB_JWT_V2", "MYTOKEN",
        "AWS_ACCESS_KEY_ID_PROD", "DATABASE_URL_PROD", "SLACK_WEBHOOK_URL",
        "AWSSECRETKEY", "A_B_C_D_E_F_G_H_I_J_K_L_M_N_O_P_Q_TOKEN",
    };

    static const char *const  ordinary[] = {
        "LANG", "LC_ALL", "TZ", "TERM", "PYTHONPATH", "MAX_TOKENS",
        "TOKENIZERS_PARALLELISM", "KEYBOARD", "KEY_COUNT", "MONKEY",
        "TOKEN_LIMIT", "NODE_ENV", "OMP_NUM_THREADS", "AUTHOR", "GIT_AUTHOR",
        "PASSES", "BYPASS", "COMPASS", "HTTP_TIMEOUT",
        "DATA_URL", "SORT_ORDER", "SOURCE_DATE_EPOCH",
        "_", "", "A__B",
    };

    (void) state;

    for (i = 0; i < COUNT(secrets); i++) {
        expect(secret_is_name(secrets[i]), "%s is taken", secrets[i]);
    }

    for (i = 0; i < COUNT(ordinary); i++) {
        expect(!secret_is_name(ordinary[i]), "%s is refused", ordinary[i]);
    }
}


static void
test_files(void **state)
{
    size_t  i;

    static const char *const  secrets[] = {
        ".env", "a/.env", ".env.production", "/home/u/.netrc", ".pgpass",
        "id_rsa", "/home/u/.ssh/id_ed25519", ".aws/credentials",
        "/home/u/.aws/credentials", ".docker/config.json", ".kube/config",
        "store.p12", "a.b/c.pfx", ".git-credentials", ".env.local",
    };

    static const char *const  ordinary[] = {
        "env", ".env.example", ".env.sample", "config.json", "a/config.json",
        "config", "credentials", "x.aws/credentials", "id_rsa.pub",
        "cert.pem", "ca.crt", "server.csr", "environment.yml", "p12", ".p12/x",
        "data.csv", "main.py", "",
    };

    (void) state;

    for (i = 0; i < COUNT(secrets); i++) {
        expect(secret_is_file(secrets[i]), "%s is taken", secrets[i]);
    }

    for (i = 0; i < COUNT(ordinary); i++) {
        expect(!secret_is_file(ordinary[i]), "%s is refused", ordinary[i]);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        PROMISE("G-061 known tokens and random text look like credentials",
                test_credentials),
        PROMISE("G-061 names and ordinary words do not", test_names),
        PROMISE("G-061 what looks like one is replaced in a message",
                test_hidden),
        PROMISE("a long text is looked through for what is certain",
                test_scan),
        PROMISE("the name of a variable may mean a secret", test_variables),
        PROMISE("the name of a file may", test_files),
    };

    return unit_run(tests);
}
