/* SPDX-License-Identifier: MIT */
/* Longest added token at a position (spec 05 section 5, step 1). The tokens are in byte order,
 * so those that share a prefix with the text form a range that narrows byte by byte; a token
 * that ends exactly there is the first of its range. At most KVREF_ADDED_MAX bytes are read. */
#include "base/tokenizer.h"

/* First of added[low..high-1] whose byte at `depth` is >= b. The NUL that ends a name sorts
 * before every byte. */
static uint32_t
lower(const kvref_tokenizer *tok, uint32_t low, uint32_t high, size_t depth, unsigned b)
{
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if ((unsigned char)tok->added[mid]->name[depth] < b)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

const kvref_token *kvref_added_match(const kvref_tokenizer *tok, const char *text, size_t n)
{
    const kvref_token *best = NULL;
    unsigned first = (unsigned char)text[0];
    uint32_t low = tok->added_start[first], high = tok->added_start[first + 1];
    for (size_t depth = 1; low < high; depth++) {
        if (!tok->added[low]->name[depth]) best = tok->added[low++];
        if (depth == n || !text[depth]) break; /* no name holds a NUL */
        unsigned b = (unsigned char)text[depth];
        uint32_t end = lower(tok, low, high, depth, b + 1);
        low = lower(tok, low, end, depth, b);
        high = end;
    }
    return best;
}
