/*
 * The task's environment.  Nothing is passed through from the caller's: it has
 * these tables' variables and those of --env.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "env/env.h"
#include "shared/box_paths.h"
#include "shared/protocol.h"


#define ENV_DIGITS(n)  #n
#define ENV_NUMBER(n)  ENV_DIGITS(n)
#define ENV_PORT       ENV_NUMBER(PROTOCOL_PORT_PROXY)
#define ENV_DOOR       "127.0.0.1:" ENV_PORT
#define ENV_NO_PROXY   "localhost,127.0.0.1,::1,[::1]"  /* as URLs have it */
#define ENV_CACHE      "/tmp/.cache"
#define ENV_MAX        (64 + VARIABLES_MAX)


static const char *const  env_always[] = {
    "PATH=" ENV_PATH,
    "HOME=" BOX_WORK,
    "TMPDIR=/tmp",
    "TASK_OUT=/run/task/out",
    "AGENT_LIMITS=" BOX_LIMITS,
    "LANG=C.UTF-8",
    "USER=task",
    "LOGNAME=task",
    "SHELL=/bin/sh",

    /* outside the working directory, which may be copied back */

    "XDG_CACHE_HOME=" ENV_CACHE,
    "MPLCONFIGDIR=" ENV_CACHE "/matplotlib",

    /* it traces its own process: refused in a box, a clean run would fail */

    "ASAN_OPTIONS=detect_leaks=0",
    "LSAN_OPTIONS=detect_leaks=0",
    NULL
};


/* Both cases: curl reads only the lower one for http, others the upper. */

static const char *const  env_broker[] = {
    "HTTP_PROXY=http://" ENV_DOOR,
    "http_proxy=http://" ENV_DOOR,
    "HTTPS_PROXY=http://" ENV_DOOR,
    "https_proxy=http://" ENV_DOOR,
    "NO_PROXY=" ENV_NO_PROXY,
    "no_proxy=" ENV_NO_PROXY,
    "NODE_USE_ENV_PROXY=1",
    "AGENT_BROKER_URL=http://" ENV_DOOR,
    NULL
};


/*
 * The bundle for those that replace what the program would trust, the
 * broker's own certificate for those that add to it.
 */

static const char *const  env_trust[] = {
    "SSL_CERT_FILE=/" TRUST_BUNDLE,
    "REQUESTS_CA_BUNDLE=/" TRUST_BUNDLE,
    "CURL_CA_BUNDLE=/" TRUST_BUNDLE,
    "GIT_SSL_CAINFO=/" TRUST_BUNDLE,
    "PIP_CERT=/" TRUST_BUNDLE,
    "NPM_CONFIG_CAFILE=/" TRUST_BUNDLE,
    "npm_config_cafile=/" TRUST_BUNDLE,
    "CARGO_HTTP_CAINFO=/" TRUST_BUNDLE,
    "AWS_CA_BUNDLE=/" TRUST_BUNDLE,
    "NODE_EXTRA_CA_CERTS=/" TRUST_OWN,
    "DENO_CERT=/" TRUST_OWN,
    NULL
};


/*
 * Java reads none of the variables above, only this one.  No file in the box
 * tells it the box's memory and share of the processors, and sized for the
 * host's it would be killed: half of the memory is for its heap, the rest for
 * what it has beside that and for other programs.
 */

#define ENV_JAVA                                                             \
    "JAVA_TOOL_OPTIONS=-Xmx%llum -XX:ActiveProcessorCount=%llu%s%s"

#define ENV_JAVA_PROXY                                                       \
    " -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=" ENV_PORT                 \
    " -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=" ENV_PORT

#define ENV_JAVA_TRUST                                                       \
    " -Djavax.net.ssl.trustStore=/" TRUST_JAVA                               \
    " -Djavax.net.ssl.trustStoreType=JKS"


/*
 * Libraries start a thread for each processor they see, which is the host's
 * number and not the task's share of it.
 */
static const char *const  env_threads[] = {
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS",
    "NUMEXPR_MAX_THREADS", "RAYON_NUM_THREADS", "GOMAXPROCS",
    "CARGO_BUILD_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL",
    "PYTHON_CPU_COUNT", "LOKY_MAX_CPU_COUNT", "POLARS_MAX_THREADS",
    "TOKIO_WORKER_THREADS", NULL
};


char **
env_build(uint64_t cpu, uint64_t memory, const trust_t *trust,
    const variables_t *v)
{
    char                **env, text[512];
    unsigned              i, k, n;
    const char *const    *p;
    unsigned long long    cores;

    env = calloc(ENV_MAX, sizeof(char *));

    if (env == NULL) {
        return NULL;
    }

    n = 0;
    cores = (cpu + 999) / 1000;

    for (p = env_always; *p; p++) {
        env[n++] = strdup(*p);
    }

    for (p = env_broker; trust && *p; p++) {
        env[n++] = strdup(*p);
    }

    for (p = env_trust; trust && trust->pem && *p; p++) {
        env[n++] = strdup(*p);
    }

    (void) snprintf(text, sizeof(text), ENV_JAVA,
                    (unsigned long long) (memory >> 21), cores,
                    trust ? ENV_JAVA_PROXY : "",
                    trust && trust->java_tail ? ENV_JAVA_TRUST : "");
    env[n++] = strdup(text);

    for (p = env_threads; *p; p++) {
        (void) snprintf(text, sizeof(text), "%s=%llu", *p, cores);
        env[n++] = strdup(text);
    }

    for (i = 0; i < v->n; i++) {

        for (k = 0; k < n; k++) {
            if (env[k]
                && strncmp(env[k], v->pairs[i], v->names[i] + 1) == 0)
            {
                free(env[k]);
                break;
            }
        }

        env[k] = strdup(v->pairs[i]);
        n += (k == n);
    }

    while (n > 0) {
        if (env[--n] == NULL) {
            return NULL;
        }
    }

    return env;
}


/* Copied, since argv itself is wiped in the child. */

char **
env_command(char **words, const char *code)
{
    char      **argv;
    unsigned    i, n;

    for (n = 0; words[n]; n++) { /* void */ }

    argv = calloc(n + 2, sizeof(char *));

    if (argv == NULL) {
        return NULL;
    }

    for (i = 0; i < n + (code != NULL); i++) {
        argv[i] = strdup(i < n ? words[i] : code);

        if (argv[i] == NULL) {
            while (i-- > 0) {
                free(argv[i]);
            }

            free(argv);
            return NULL;
        }
    }

    return argv;
}
