/* SPDX-License-Identifier: MIT */
/* What the name of a trace's tensor says: its axes and where in the order of computation it
 * stands. Names are those of golden/README.md. */
#include "base/diff.h"

#include <string.h>

/* In order of computation inside one call. */
static const struct known_tap {
    const char *part; /* after "slow." or "fast." */
    int after;        /* stands after all layers  */
    bool by_call;     /* slow: one row for each call */
} parts[] = {
    {"kv_len", 0, true},
    {"embed", 0, false},
    {"attn_norm", 0, false},
    {"q", 0, false},
    {"k", 0, false},
    {"v", 0, false},
    {"attn", 0, false},
    {"attn_out", 0, false},
    {"ffn_norm", 0, false},
    {"ffn_act", 0, false},
    {"ffn_out", 0, false},
    {"out", 0, false},
    {"norm", 1, true},
    {"logits", 1, true},
    {"hidden", 1, true},
    {"decision", 1, true},
    {"kv_rows", 1, true},
    {"kv_bytes", 1, true},
};

/* Stages of the codec; an entry stands for all names that begin so. */
static const char *const stages[] = {
    "decode.codes",
    "decode.z",
    "decode.post_module",
    "decode.upsample.",
    "decode.decoder.model.",
    "decode.audio",
    "encode.audio",
    "encode.encoder.block.0",
    "encode.encoder.block.1",
    "encode.encoder.block.2",
    "encode.encoder.block.3",
    "encode.encoder.transformer",
    "encode.encoder.block.",
    "encode.downsample.",
    "encode.pre_module",
    "encode.vq.",
    "encode.codes",
};

/* A stage of the codec, or -1. Layers come before what follows them. */
static int stage_rank(const char *tap, int layer)
{
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++)
        if (strncmp(tap, stages[i], strlen(stages[i])) == 0)
            return (int)(10 + i) * 1000 + (layer >= 0 && layer < 999 ? layer : 999);
    return -1;
}

static void place_plain(kvref_tap_name *n)
{
    int stage = stage_rank(n->tap, n->layer);
    n->axis = KVREF_AXIS_PLAIN;
    n->layer = -1;
    if (strcmp(n->tap, "prompt") == 0) {
        n->rank = 0;
    } else if (strcmp(n->tap, "candidates") == 0) {
        n->rank = 1;
    } else if (stage >= 0) {
        n->rank = stage;
    } else {
        n->layer = KVREF_AFTER; /* unknown: after everything */
        n->rank = KVREF_AFTER;
    }
}

kvref_tap_name kvref_tap_parse(const char *tensor)
{
    kvref_tap_name n = {.axis = KVREF_AXIS_PLAIN};
    n.layer = kvref_tap_of(n.tap, tensor);
    bool slow = strncmp(n.tap, "slow.", 5) == 0, fast = strncmp(n.tap, "fast.", 5) == 0;
    for (size_t i = 0; (slow || fast) && i < sizeof parts / sizeof parts[0]; i++) {
        const struct known_tap *p = &parts[i];
        if (strcmp(n.tap + 5, p->part) != 0) continue;
        n.rank = (int)i;
        if (p->after) n.layer = KVREF_AFTER;
        n.axis = fast ? KVREF_AXIS_BOOK : p->by_call ? KVREF_AXIS_CALL : KVREF_AXIS_POSITION;
        return n;
    }
    if (strcmp(tensor, "frames") == 0) {
        n.axis = KVREF_AXIS_CHOICE;
        n.rank = 0;
    } else {
        place_plain(&n);
    }
    return n;
}

static int order(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

int kvref_place_order(const kvref_place *a, const kvref_place *b)
{
    int by[] = {order(a->frame, b->frame),
                order(a->book, b->book),
                order(a->layer, b->layer),
                order(a->rank, b->rank)};
    for (int i = 0; i < 4; i++)
        if (by[i] != 0) return by[i];
    return 0;
}
