/* SPDX-License-Identifier: MIT */
/* First byte 'T': the rest is text for a tokenizer made here; both policies and the split into
 * batches run on it, and plain ids must spell its NFC form. Otherwise all of it is a
 * tokenizer.json, and one that is accepted must tokenize. */
#include "kvref/prompt.h"
#include "kvref/tokenizer.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <utf8proc.h>

static std::string utf8(int cp)
{
    utf8proc_uint8_t byte[4];
    return std::string(reinterpret_cast<char *>(byte), utf8proc_encode_char(cp, byte));
}

static std::string quoted(const std::string &s)
{
    return s == "\"" || s == "\\" ? "\"\\" + s + "\"" : "\"" + s + "\"";
}

/* All bytes, a few merges that build on each other, a few added tokens that overlap. */
static std::string small_file()
{
    static const char *const merge[][2] = {{"a", "a"},
                                           {"aa", "aa"},
                                           {"e", "r"},
                                           {"Ġ", "Ġ"},
                                           {"ĠĠ", "Ġ"},
                                           {"Ã", "©"},
                                           {"1", "2"},
                                           {"Ċ", "Ċ"}};
    static const char *const added[] = {"<|im_end|>", "<|im", "<<", "né", "<|semantic:0|>"};
    std::string vocab, merges, tokens;
    int id = 0, other = 256;
    for (int b = 0; b < 256; b++) {
        bool plain = (b >= 33 && b <= 126) || (b >= 161 && b != 173);
        vocab += quoted(utf8(plain ? b : other++)) + ":" + std::to_string(id++) + ",";
    }
    for (auto &m : merge) {
        vocab += quoted(std::string(m[0]) + m[1]) + ":" + std::to_string(id++) + ",";
        merges += "[" + quoted(m[0]) + "," + quoted(m[1]) + "],";
    }
    for (auto &t : added)
        tokens += "{\"id\":" + std::to_string(id++) + ",\"content\":" + quoted(t) +
                  ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
                  "\"normalized\":false,\"special\":true},";
    vocab.pop_back();
    merges.pop_back();
    tokens.pop_back();
    return "{\"version\":\"1.0\",\"added_tokens\":[" + tokens +
           "],\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":\"Sequence\","
           "\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"
           "\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| "
           "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
           "\"},"
           "\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\","
           "\"add_prefix_space\":false,\"use_regex\":false}]},\"model\":{\"type\":\"BPE\","
           "\"vocab\":{" +
           vocab + "},\"merges\":[" + merges + "]}}";
}

static void try_text(const kvref_tokenizer *tok, const char *text, size_t n)
{
    kvref_ids ids = {};
    kvref_error err;
    kvref_texts batches;
    bool ok = kvref_tokenize(tok, &ids, text, n, KVREF_CONTROL_HONOUR, &err) == KVREF_OK;
    ids.n = 0;
    if ((kvref_tokenize(tok, &ids, text, n, KVREF_CONTROL_PLAIN, &err) == KVREF_OK) != ok)
        abort();
    if ((kvref_prompt_split(&batches, nullptr, text, n, 30, &err) == KVREF_OK) != ok) abort();
    kvref_texts_clear(&batches);
    std::string back;
    for (size_t i = 0; i < ids.n; i++) {
        size_t n_byte;
        const char *byte = kvref_tokenizer_bytes(tok, ids.id[i], &n_byte);
        if (!byte) abort();
        back.append(byte, n_byte);
    }
    utf8proc_uint8_t *nfc = nullptr;
    if (ok && n > 0) {
        auto option = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        auto n_nfc = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t *>(text),
                                  static_cast<utf8proc_ssize_t>(n),
                                  &nfc,
                                  option);
        if (n_nfc < 0 || back != std::string(reinterpret_cast<char *>(nfc), n_nfc)) abort();
    }
    free(nfc);
    kvref_ids_clear(&ids);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const std::string file = small_file();
    static kvref_tokenizer *small = nullptr;
    const char *text = reinterpret_cast<const char *>(data);
    kvref_error err = {};
    if (!small &&
        kvref_tokenizer_parse(&small, file.data(), file.size(), "small", &err) != KVREF_OK)
        abort();
    if (size > 0 && data[0] == 'T') {
        try_text(small, text + 1, size - 1);
        return 0;
    }
    kvref_tokenizer *tok;
    if (kvref_tokenizer_parse(&tok, text, size, "fuzz", &err) == KVREF_OK) {
        kvref_ids ids = {};
        static const char sample[] = "<|im_end|>aaaaa \xc3\xa9 1234\n\n <|semantic:0|>";
        if (kvref_tokenize(tok, &ids, sample, sizeof sample - 1, KVREF_CONTROL_HONOUR, &err) !=
            KVREF_OK)
            abort();
        for (size_t i = 0; i < ids.n; i++) {
            size_t n;
            if (!kvref_tokenizer_bytes(tok, ids.id[i], &n)) abort();
        }
        kvref_ids_clear(&ids);
        kvref_tokenizer_close(&tok);
    } else if (tok || err.text[0] == 0) {
        abort();
    }
    return 0;
}
