# SPDX-License-Identifier: MIT
"""Bad config.json and tokenizer.json files. Every case is (name, maker, status of inspect)."""
import copy as deep
import json
import os

from files import copy, put


def file_case(base, name, content):
    def make(folder):
        copy(base, folder, without=(name,))
        if callable(content):
            content(os.path.join(folder, name))
        elif content is not None:
            put(folder, name, content)

    return make


def changed(base, whole, path, value):
    """The object with one value replaced; value "drop" removes the key."""
    o = deep.deepcopy(whole)
    at = o
    for key in path[:-1]:
        at = at[key]
    if value == "drop":
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return o


BAD_SIZES = (0, -1, 2**31, 2**63, 1e308, 1.5, "64", [], {}, None, True)


def configs(base):
    def case(content):
        return file_case(base, "config.json", content)

    def key(path, value):
        return case(changed(base, base.config, path, value))

    yield "config_missing", case(None), 2
    yield "config_empty", case(b""), 2
    yield "config_spaces", case(b" " * 5_000_000), 2
    yield "config_number", case(b"1"), 2
    yield "config_list", case(b"[{}]"), 2
    yield "config_cut", case(b'{"model_type": "dual_ar", '), 2
    yield "config_deep", case(b'{"a":' * 300000 + b"1" + b"}" * 300000), 2
    yield "config_deep_unclosed", case(b"[" * 1_000_000), 2
    yield "config_bad_utf8", case(b'{"model_type": "\xc3\x28"}'), 2
    yield "config_binary", case(bytes(range(256)) * 50), 2
    yield "config_is_a_folder", case(os.mkdir), 2
    yield "config_is_a_pipe", case(os.mkfifo), 2
    yield "config_is_a_device", case(lambda p: os.symlink("/dev/zero", p)), 2
    yield "config_links_to_itself", case(lambda p: os.symlink("config.json", p)), 2
    for kind in ("naive", "llama", "", 5, None, "drop", "x" * 100000, "\u001b[31m"):
        yield f"model_type_{str(kind)[:8]!r}", key(["model_type"], kind), 2
    for name in ("vocab_size", "n_layer", "dim", "n_head", "head_dim", "max_seq_len", "intermediate_size"):
        for value in BAD_SIZES:
            if value is None and name in ("head_dim", "max_seq_len", "intermediate_size"):
                continue  # null has a documented meaning there
            yield f"{name}_is_{value!r}", key(["text_config", name], value), 2
    for name in ("vocab_size", "num_codebooks", "n_layer"):
        for value in BAD_SIZES:
            yield f"audio_{name}_is_{value!r}", key(["audio_decoder_config", name], value), 2
    for name, value in (
        ("n_head", 5),
        ("n_local_heads", 3),
        ("n_local_heads", 8),
        ("head_dim", 7),
        ("rope_base", 0),
        ("rope_base", -1.0),
        ("rope_base", "big"),
        ("norm_eps", -1e-6),
        ("norm_eps", 1e300),
        ("tie_word_embeddings", "yes"),
        ("attention_qk_norm", 2),
    ):
        yield f"text_{name}_is_{value!r}", key(["text_config", name], value), 2
    yield "config_use_moe", key(["text_config", "use_moe"], True), 2
    yield "config_without_text_config", key(["text_config"], "drop"), 2
    yield "config_text_config_is_a_list", key(["text_config"], []), 2
    yield "config_without_audio", key(["audio_decoder_config"], "drop"), 2
    for name, value in (("n_layer", 3), ("dim", 28), ("vocab_size", 321), ("intermediate_size", 41), ("head_dim", 10)):
        yield f"config_wants_{name}_{value}", key(["text_config", name], value), 1
    yield "config_wants_a_million_layers", key(["text_config", "n_layer"], 1000000), (1, 2)
    yield "config_wants_two_billion_positions_wide", key(["text_config", "dim"], 2**31 - 8), (1, 2)
    yield "config_wants_5_codebooks", key(["audio_decoder_config", "num_codebooks"], 5), 1


def tokenizers(base):
    t = base.tokenizer

    def case(content):
        return file_case(base, "tokenizer.json", content)

    def key(path, value):
        return case(changed(base, t, path, value))

    semantic = [i for i, a in enumerate(t["added_tokens"]) if "semantic" in a["content"]]
    yield "tokenizer_empty", case(b""), 2
    yield "tokenizer_cut", case(open(base.folder + "/tokenizer.json", "rb").read()[:-30]), 2
    whole = json.dumps(t)
    for n in (10, 20, 200):
        yield f"tokenizer_of_{n}_mb_of_blanks_cut", case(b"{" + b" " * n * 1_000_000), 2
    for n, name in ((400_000, "many"), (10_000_000, "countless")):
        flood = ",".join(f'"{i:08}":{i + 1000}' for i in range(min(n, 3_000_000)))
        yield f"tokenizer_of_{name}_entries", case(whole.replace('"vocab": {', '"vocab": {' + flood + ",", 1)), 2
    yield "tokenizer_of_long_entries", case(whole.replace('"vocab": {', '"vocab": {' + ",".join(f'"{i:01000}":{i + 1000}' for i in range(20000)) + ",", 1)), 2
    yield "tokenizer_of_many_merges", case(whole.replace('"merges": [', '"merges": [' + '"a b",' * 3_000_000, 1)), 2
    yield "tokenizer_list", case(b"[]"), 2
    yield "tokenizer_deep", case(b'{"model":' * 200000 + b"1" + b"}" * 200000), 2
    yield "tokenizer_bad_utf8", case(b'{"model": {"vocab": {"\xff": 0}}}'), 2
    yield "tokenizer_is_a_folder", case(os.mkdir), 2
    yield "tokenizer_is_a_link_to_nothing", case(lambda p: os.symlink("nothing", p)), 2
    yield "tokenizer_is_a_pipe", case(os.mkfifo), 2
    yield "tokenizer_without_model", key(["model"], "drop"), 2
    yield "tokenizer_model_is_unigram", key(["model", "type"], "Unigram"), 2
    yield "tokenizer_vocab_is_a_list", key(["model", "vocab"], ["a"]), 2
    yield "tokenizer_vocab_is_empty", key(["model", "vocab"], {}), 2
    yield "tokenizer_merges_is_an_object", key(["model", "merges"], {"a": 1}), 2
    yield "tokenizer_merge_of_one", key(["model", "merges"], ["ab"]), 2
    yield "tokenizer_merge_of_three", key(["model", "merges"], [["a", "b", "c"]]), 2
    yield "tokenizer_merge_of_unknown_parts", key(["model", "merges"], [["not", "there"]]), 2
    yield "tokenizer_merge_of_numbers", key(["model", "merges"], [[1, 2]]), 2
    yield "tokenizer_other_normalizer", key(["normalizer"], {"type": "NFKD"}), 2
    yield "tokenizer_other_pattern", key(["pre_tokenizer"], {"type": "Whitespace"}), 2
    for value in (-1, 2**31, 2**63, 1.5, "7", None, 2**31 - 1):
        yield f"tokenizer_id_is_{value!r}", key(["model", "vocab", "a"], value), 2
        yield f"added_token_id_is_{value!r}", key(["added_tokens", semantic[0], "id"], value), 2
    yield "tokenizer_same_id_twice", key(["model", "vocab", "a"], t["model"]["vocab"]["b"]), 2
    yield "added_token_of_a_taken_id", key(["added_tokens", semantic[0], "id"], t["model"]["vocab"]["b"]), 2
    yield "added_token_without_content", key(["added_tokens", 0, "content"], "drop"), 2
    yield "added_token_is_empty", key(["added_tokens", 0, "content"], ""), 2
    yield "added_tokens_is_a_number", key(["added_tokens"], 4), 2
    few = [a for i, a in enumerate(t["added_tokens"]) if i not in semantic]
    yield "tokenizer_without_semantic_tokens", key(["added_tokens"], few), 2
    gap = [a for i, a in enumerate(t["added_tokens"]) if i != semantic[3]]
    yield "tokenizer_with_a_semantic_gap", key(["added_tokens"], gap), 2


def cases(base):
    yield from configs(base)
    yield from tokenizers(base)
