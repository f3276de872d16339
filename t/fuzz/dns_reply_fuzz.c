/*
 * An answer of a name server: it is read within its bytes, and what comes of
 * it is a name that can be asked for, or addresses.  The first byte says what
 * was asked for; the answer begins with that question, so that the fuzzer need
 * not find it.
 */

#include "fuzz.h"

#include "parse/dns.h"
#include "parse/dns_reply.h"


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    size_t            i;
    dns_name_t        name;
    dns_reply_t       reply;
    unsigned char     copy[4096];
    dns_question_t    question, again;

    if (n == 0 || n > sizeof(copy)) {
        return 0;
    }

    must(dns_name_set(&name, "www.api.internal", 16) == 0);

    dns_question_write(&question, 0x1234, &name,
                       (data[0] & 1) ? DNS_TYPE_AAAA : DNS_TYPE_A);

    data++;
    n--;

    (void) dns_reply_parse(data, n, &question, &reply);

    /* flags and counts of the input, then our question, then its rest */

    if (n < 10) {
        return 0;
    }

    memcpy(copy, question.bytes, question.len);
    memcpy(copy + 2, data, 10);
    copy[4] = 0;
    copy[5] = 1;

    i = sizeof(copy) - question.len;
    i = (n - 10 < i) ? n - 10 : i;
    memcpy(copy + question.len, data + 10, i);

    switch (dns_reply_parse(copy, question.len + i, &question, &reply)) {

    case DNS_FOUND:
        must(reply.count <= DNS_ADDRESSES_MAX);
        break;

    case DNS_ALIAS:
        must(reply.alias.len >= 1 && reply.alias.len <= DNS_WIRE_MAX);
        must(reply.alias.wire[reply.alias.len - 1] == 0);
        dns_question_write(&again, 1, &reply.alias, DNS_TYPE_A);
        must(again.len == 12 + reply.alias.len + 4);
        break;

    default:
        break;
    }

    return 0;
}
