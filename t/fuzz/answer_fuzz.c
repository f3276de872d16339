/*
 * The head of an answer: what is taken at once is taken byte by byte, with the
 * same result, and has no byte that another reader could take for an end.
 */

#include "fuzz.h"

#include "parse/answer.h"


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    size_t       i, have;
    answer_t     once, slow;
    answer_rc_t  rc, again;

    memset(&once, 0, sizeof(once));
    memset(&slow, 0, sizeof(slow));

    rc = answer_read(data, n, &once);
    again = ANSWER_MORE;

    for (have = 1; again == ANSWER_MORE && have <= n; have++) {
        again = answer_read(data, have, &slow);
    }

    must(n == 0 || rc == again);
    must((rc == ANSWER_BAD) == (once.why != NULL));

    if (rc != ANSWER_DONE) {
        return 0;
    }

    must(memcmp(&once, &slow, sizeof(once)) == 0);
    must(once.at <= n && memcmp(data + once.at - 4, "\r\n\r\n", 4) == 0);
    must(once.status >= 100 && once.status <= 599);
    must(!once.chunked || !once.has_length);
    must(once.keep <= 3600);

    for (i = 0; i < once.at; i++) {
        must(data[i] != '\0');
        must(data[i] != '\n' || data[i - 1] == '\r');
        must(data[i] != '\r' || data[i + 1] == '\n');
    }

    must(once.accept == NULL
         || (once.accept >= data
             && once.accept + once.accept_len <= data + once.at));

    return 0;
}
