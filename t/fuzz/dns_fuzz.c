/*
 * A query of a box: it is read within its bytes, its answer fits and repeats
 * the question, and an answer is never answered.
 */

#include "fuzz.h"

#include "parse/dns.h"


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    size_t          len;
    dns_kind_t      kind;
    dns_query_t     query, again;
    unsigned char   answer[DNS_ANSWER_MAX];

    static const unsigned char  address[4] = { 198, 18, 0, 1 };

    kind = dns_parse(data, n, &query);

    if (kind == DNS_GARBAGE) {
        return 0;
    }

    len = dns_answer(&query, kind == DNS_QUERY ? address : NULL, answer);

    if (len < 12 || len > sizeof(answer) || answer[0] != data[0]
        || answer[1] != data[1] || !(answer[2] & 0x80))
    {
        abort();
    }

    if (dns_parse(answer, len, &again) != DNS_GARBAGE) {
        abort();
    }

    if (query.question
        && memcmp(answer + 12, query.question, query.question_len) != 0)
    {
        abort();
    }

    if (strlen(query.text) >= sizeof(query.text)) {
        abort();
    }

    return 0;
}
