/*
 * A chunked body, with two bytes that say how it is cut: however it arrives,
 * it is read within its bytes and the result is the same, and it stays so.
 */

#include "fuzz.h"

#include "parse/chunk.h"


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t          i, n, step;
    chunk_t         whole, pieces;
    chunk_result_t  result, last;

    if (size < 2) {
        return 0;
    }

    step = (size_t) data[0] % 61 + 1;
    n = data[1];
    data += 2;
    size -= 2;

    memset(&whole, 0, sizeof(whole));
    memset(&pieces, 0, sizeof(pieces));

    result = chunk_follow(&whole, data, size);
    last = chunk_follow(&pieces, data, n < size ? n : 0);

    for (i = n < size ? n : 0; i < size; i += step) {
        must(last == CHUNK_MORE || last == result);
        last = chunk_follow(&pieces, data + i,
                            step < size - i ? step : size - i);
    }

    must(last == result);
    must(whole.state == pieces.state && whole.left == pieces.left);
    must(whole.line <= CHUNK_LINE_MAX + 1);
    must(result == CHUNK_MORE || chunk_follow(&whole, data, size) == result);

    return 0;
}
