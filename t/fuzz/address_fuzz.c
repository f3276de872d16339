/*
 * The first 17 bytes are an address, the rest a range's text.  An address has
 * one text that reads back; no range opens what is forbidden without it; a
 * range that is accepted is written and read as the same range.
 */

#include "fuzz.h"

#include "parse/address.h"


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char                text[ADDRESS_TEXT_MAX + 8];
    size_t              n;
    address_t           a, back;
    const char         *why, *err;
    address_range_t     range, again, all[2];
    address_verdict_t   without, with;

    if (size < 17) {
        return 0;
    }

    memset(&a, 0, sizeof(a));
    a.v6 = data[0] & 1;
    memcpy(a.bytes, data + 1, a.v6 ? 16 : 4);

    n = address_text(&a, text);
    must(n == strlen(text) && n < ADDRESS_TEXT_MAX);
    must(a.v6 ? address_parse_v6(text, n, &back)
              : address_parse_v4(text, n, &back));
    must(memcmp(&a, &back, sizeof(a)) == 0);

    memset(all, 0, sizeof(all));
    all[1].v6 = true;

    without = address_judge(&a, NULL, 0, true, &why);
    must(why != NULL);
    with = address_judge(&a, all, 2, true, &why);
    must(why != NULL);

    must((without == ADDRESS_FORBIDDEN) == (with == ADDRESS_FORBIDDEN));
    must(with == ADDRESS_FORBIDDEN || with == ADDRESS_ALLOWED);
    must(without != ADDRESS_ALLOWED
         || address_judge(&a, all, 2, false, &why) == ADDRESS_ALLOWED);

    if (address_range_parse((const char *) data + 17, size - 17, &range, &err)
        != 0)
    {
        must(err != NULL);
        return 0;
    }

    memset(&back, 0, sizeof(back));
    back.v6 = range.v6;
    memcpy(back.bytes, range.bytes, 16);
    must(address_range_holds(&range, &back));

    n = address_text(&back, text);
    n += (size_t) snprintf(text + n, sizeof(text) - n, "/%u", range.prefix);
    must(address_range_parse(text, n, &again, &err) == 0);
    must(memcmp(&range, &again, sizeof(range)) == 0);

    return 0;
}
