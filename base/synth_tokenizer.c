/* SPDX-License-Identifier: MIT */
/* A small byte-level BPE tokenizer.json (spec 01 section 7) for a synthetic checkpoint. The
 * config fixes the ids of <|im_end|> and of the semantic tokens; the other tokens take the ids
 * that are left: the 256 bytes first (in the order of the real file, newline 198), then the
 * control tokens of a prompt, then the other control tokens, then merges of the words that
 * every prompt contains. Where the config places <|im_end|> and the semantic tokens as S2-Pro
 * does, 33 apart, all control tokens get their official places between and around them. */
#include "base/base.h"
#include "base/synth.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All of the file but its lists. The backslashes of the split pattern are doubled for JSON. */
#define BYTE_LEVEL                                                                             \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":false,"               \
    "\"use_regex\":false}"
#define SPLIT                                                                                  \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}|"           \
    " ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define FORMAT                                                                                 \
    "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":%s,"           \
    "\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":\"Sequence\","              \
    "\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" SPLIT "\"},"            \
    "\"behavior\":\"Isolated\",\"invert\":false}," BYTE_LEVEL "]},"                            \
    "\"post_processor\":" BYTE_LEVEL ",\"decoder\":" BYTE_LEVEL ","                            \
    "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,"                         \
    "\"continuing_subword_prefix\":\"\",\"end_of_word_suffix\":\"\",\"fuse_unk\":false,"       \
    "\"byte_fallback\":false,\"ignore_merges\":false,\"vocab\":%s,\"merges\":%s}}"

/* Official neighbours of <|im_end|>, from two before it to the id before <|semantic:0|>. */
enum { BEFORE = 2, BETWEEN = 32, N_CONTROL = BEFORE + 1 + BETWEEN, IM_END = BEFORE };
static const char *const control[N_CONTROL] = {"<|endoftext|>",
                                               "<|im_start|>",
                                               "<|im_end|>",
                                               "<|object_ref_start|>",
                                               "<|object_ref_end|>",
                                               "<|box_start|>",
                                               "<|box_end|>",
                                               "<|quad_start|>",
                                               "<|quad_end|>",
                                               "<|vision_start|>",
                                               "<|vision_end|>",
                                               "<|vision_pad|>",
                                               "<|image_pad|>",
                                               "<|video_pad|>",
                                               "<tool_call>",
                                               "</tool_call>",
                                               "<|fim_prefix|>",
                                               "<|fim_middle|>",
                                               "<|fim_suffix|>",
                                               "<|fim_pad|>",
                                               "<|repo_name|>",
                                               "<|file_sep|>",
                                               "<tool_response>",
                                               "</tool_response>",
                                               "<think>",
                                               "</think>",
                                               "<|pad|>",
                                               "<|phoneme_start|>",
                                               "<|phoneme_end|>",
                                               "<|text|>",
                                               "<|voice|>",
                                               "<|interleave|>",
                                               "<|audio_start|>",
                                               "<|audio_end|>",
                                               "<|audio_pad|>"};

/* The order in which control tokens get ids where the official places do not fit: those that a
 * prompt needs, then Fish's others. */
enum { N_NEEDED = 2, N_WANTED = 11 };
static const int wanted[N_WANTED] = {1, 30, 0, 26, 27, 28, 29, 31, 32, 33, 34};

/* Words that get a token of their own while ids last; each is built up letter by letter. */
static const char *const word[] = {
    "system",     "user",    "assistant", "convert", " the",  " provided",  " text", " to",
    " speech",    "speaker", "<|",        "|>",      "Hello", " reference", "Text",  "Speech",
    " following", " world",  " you",      " and",    " is",   " of",        " in",   "Good"};

/* Ids handed out in ascending order, around those that the config fixes. */
typedef struct layout {
    const kvref_config *config;
    bool official;
    int next;
    bool lost; /* memory ran out: some entry is missing */
    json_t *added, *vocab, *merges;
} layout;

static bool fixed(const layout *l, int id)
{
    const kvref_config *c = l->config;
    if (id >= c->semantic_begin && id <= c->semantic_end) return true;
    return l->official ? id >= c->im_end - BEFORE && id <= c->im_end + BETWEEN
                       : id == c->im_end;
}

/* The next free id, or -1 when the vocabulary is full. */
static int take(layout *l)
{
    while (l->next < l->config->n_vocab && fixed(l, l->next)) l->next++;
    return l->next < l->config->n_vocab ? l->next++ : -1;
}

static void add_token(layout *l, int id, const char *content)
{
    static const char *const flag[] = {"single_word", "lstrip", "rstrip", "normalized"};
    json_t *o = json_pack("{s:i,s:s}", "id", id, "content", content);
    for (int i = 0; i < 4; i++) l->lost |= json_object_set_new(o, flag[i], json_false()) != 0;
    l->lost |= json_object_set_new(o, "special", json_true()) != 0;
    l->lost |= json_array_append_new(l->added, o) != 0;
}

/* Bytes that are printable in Latin-1 stand for themselves; the 68 others are numbered from
 * U+0100 on (spec 05 section 5 step 4). */
static bool printable(int byte)
{
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
}

static int letter_of(int byte)
{
    int n = 0;
    if (printable(byte)) return byte;
    for (int b = 0; b < byte; b++) n += !printable(b);
    return 0x100 + n;
}

/* Writes the letter of a byte as UTF-8; returns its length. All letters are below U+0800. */
static size_t put_letter(char *out, int byte)
{
    int c = letter_of(byte);
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    out[0] = (char)(0xc0 | c >> 6);
    out[1] = (char)(0x80 | (c & 0x3f));
    return 2;
}

static bool put_bytes(layout *l)
{
    for (int pass = 0; pass < 2; pass++) {
        for (int b = 0; b < 256; b++) {
            char text[4] = {0};
            if (printable(b) != (pass == 0)) continue;
            int id = take(l);
            if (id < 0) return false;
            put_letter(text, b);
            l->lost |= json_object_set_new(l->vocab, text, json_integer(id)) != 0;
        }
    }
    return true;
}

/* Merges that build a word from its first letter on; stops when no id is left. */
static bool put_word(layout *l, const char *bytes)
{
    char whole[64] = {0};
    size_t n = put_letter(whole, (uint8_t)bytes[0]);
    for (size_t i = 1; bytes[i]; i++) {
        char left[64], right[4] = {0};
        memcpy(left, whole, sizeof left);
        put_letter(right, (uint8_t)bytes[i]);
        n += put_letter(whole + n, (uint8_t)bytes[i]);
        if (json_object_get(l->vocab, whole)) continue;
        int id = take(l);
        if (id < 0) return false;
        l->lost |= json_object_set_new(l->vocab, whole, json_integer(id)) != 0;
        l->lost |= json_array_append_new(l->merges, json_pack("[s,s]", left, right)) != 0;
    }
    return true;
}

/* Hands out every id. False when the vocabulary is too small for what a prompt needs. */
static bool fill(layout *l)
{
    const kvref_config *c = l->config;
    if (!put_bytes(l)) return false;
    if (l->official) {
        for (int i = 0; i < N_CONTROL; i++) add_token(l, c->im_end - BEFORE + i, control[i]);
    } else {
        add_token(l, c->im_end, control[IM_END]);
        for (int i = 0; i < N_WANTED; i++) {
            int id = take(l);
            if (id < 0 && i < N_NEEDED) return false;
            if (id >= 0) add_token(l, id, control[wanted[i]]);
        }
    }
    for (int k = 0; k < c->n_code; k++) {
        char name[32];
        snprintf(name, sizeof name, "<|semantic:%d|>", k);
        add_token(l, c->semantic_begin + k, name);
    }
    for (size_t i = 0; i < sizeof word / sizeof word[0]; i++) {
        if (!put_word(l, word[i])) break;
    }
    return true;
}

/* The whole file; NULL when memory ran out on the way. */
static char *whole_text(const layout *l)
{
    char *added = json_dumps(l->added, JSON_COMPACT),
         *vocab = json_dumps(l->vocab, JSON_COMPACT);
    char *merges = json_dumps(l->merges, JSON_COMPACT), *text = NULL;
    if (l->lost || !added || !vocab || !merges ||
        asprintf(&text, FORMAT, added, vocab, merges) < 0)
        text = NULL;
    free(added);
    free(vocab);
    free(merges);
    return text;
}

kvref_status kvref_synth_tokenizer(char **text, const kvref_config *c, kvref_error *err)
{
    *text = NULL;
    if (c->im_end < 0)
        return kvref_fail(err, KVREF_E_ARG, "tokenizer: im_end: expected an id, found none");
    if (c->n_code > 4096)
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "tokenizer: codebook_size: expected at most 4096 semantic tokens, "
                          "found %d",
                          c->n_code);
    layout l = {.config = c, .added = json_array(), .vocab = json_object()};
    l.merges = json_array();
    l.official = c->semantic_begin == c->im_end + BETWEEN + 1 && c->im_end >= 256 + BEFORE;
    bool room = fill(&l);
    if (room) *text = whole_text(&l);
    json_decref(l.added);
    json_decref(l.vocab);
    json_decref(l.merges);
    if (!room)
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "tokenizer: vocab_size: expected at least %d (256 bytes, 3 control "
                          "and %d semantic tokens), found %d",
                          256 + 1 + N_NEEDED + c->n_code,
                          c->n_code,
                          c->n_vocab);
    if (!*text) return kvref_fail(err, KVREF_E_MEMORY, "tokenizer: out of memory");
    return KVREF_OK;
}
