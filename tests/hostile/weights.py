# SPDX-License-Identifier: MIT
"""Bad model.safetensors files and bad indexes. Every case is (name, maker, status of inspect)."""
import copy as deep
import json
import os
import struct

from files import copy, put, safetensors


def weights_case(base, change, length=None, tail=b""):
    """A maker: change(header, data) gives a new (header, data)."""

    def make(folder):
        copy(base, folder, without=("model.safetensors",))
        header, data = change(deep.deepcopy(base.header), base.data)
        put(folder, "model.safetensors", safetensors(header, data + tail, length))

    return make


def truncated(base):
    """64 lengths: every early byte, around the end of the header, then evenly through the data."""
    n, h = len(base.raw), base.header_size + 8
    at = set(range(0, 12)) | {h // 4, h // 2, h - 2, h - 1, h, h + 1, n - 1, n - 2, n - 3}
    i = 0
    while len(at) < 64:
        at.add(h + (n - h) * i // 64)
        i += 1
    for cut in sorted(at):

        def make(folder, cut=cut):
            copy(base, folder, without=("model.safetensors",))
            put(folder, "model.safetensors", base.raw[:cut])

        yield f"truncated_at_{cut}", make, 2


def one(base):
    """The name of a matrix."""
    return next(k for k in base.names() if k.endswith("wo.weight"))


def field(base, key, value, name=None):
    """A header with one field of one tensor changed."""

    def change(header, data):
        header[name or one(base)][key] = value
        return header, data

    return weights_case(base, change)


def headers(base):
    def text(t, length=None):
        return weights_case(base, lambda h, d: (t, d), length)

    good = json.dumps(base.header).encode()
    name = json.dumps(one(base)).encode()
    for length in (0, 1, 7, 2**31, 2**32 + 5, 2**63, 2**64 - 1, 100 * 2**20 + 1, len(base.raw) - 8):
        yield f"header_length_{length}", text(good, length), 2
    yield "header_is_an_array", text(b"[]"), 2
    yield "header_is_text", text(b'"x"'), 2
    yield "header_is_empty", text(b""), 2
    yield "header_is_zeros", text(b"\0" * 64), 2
    yield "header_ends_early", text(good[:-1]), 2
    yield "header_has_more_after_it", text(good + b"{}"), 2
    yield "header_deep_arrays", text(b'{"a":' + b"[" * 200000 + b"]" * 200000 + b"}"), 2
    yield "header_deep_objects", text(b'{"a":' * 100000 + b"1" + b"}" * 100000), 2
    yield "header_bad_utf8", text(good.replace(name, b'"\xff\xfe\xc0\x80"')), 2
    yield "header_nul_in_name", text(good.replace(name, b'"a\\u0000b"')), 2
    yield "header_lone_surrogate", text(good.replace(name, b'"\\ud800"')), 2
    yield "header_escape_in_name", text(good.replace(name, b'"\\u001b[2Jx"')), 1
    yield "header_20_MB_of_spaces_then_nothing", text(b" " * 20_000_000), 2
    yield "header_same_tensor_twice", text(good[:-1] + b"," + name + b":" + json.dumps(base.header[one(base)]).encode() + b"}"), 2
    yield "header_without_tensors", text(b"{}"), 2
    yield "metadata_is_a_number", weights_case(base, lambda h, d: ({**h, "__metadata__": 5}, d)), 2
    yield "metadata_holds_a_number", weights_case(base, lambda h, d: ({**h, "__metadata__": {"a": 1}}, d)), 2


def fields(base):
    t = base.header[one(base)]
    rows, columns = t["shape"]
    begin, end = t["data_offsets"]
    shapes = {
        "huge": [2**32, 2**32],
        "overflow": [2**63 - 1, 2],
        "past_int64": [2**64, 1],
        "negative": [-rows, -columns],
        "fraction": [rows + 0.5, columns],
        "text": ["1", "2"],
        "rank_9": [1] * 9,
        "rank_100000": [1] * 100000,
        "object": {"a": 1},
        "too_small": [rows, columns - 1],
        "zero": [0, columns],
        "missing": None,
    }
    for what, shape in shapes.items():
        yield f"shape_{what}", field(base, "shape", shape), 2
    yield "shape_transposed", field(base, "shape", [columns, rows]), 1
    yield "shape_flat", field(base, "shape", [rows * columns]), 1
    for dtype in ("F8_E4M3", "Q4_K", "", "f32", 7, None, "\u0000"):
        yield f"dtype_{dtype!r}".replace("'", "").replace("\\", "_"), field(base, "dtype", dtype), 2
    yield "dtype_I16_of_a_weight", field(base, "dtype", "I16"), 1
    offsets = {
        "reversed": [end, begin],
        "past_the_end": [begin, len(base.data) + 2],
        "past_2_63": [2**63, 2**63 + end - begin],
        "wrap": [2**64 - 2, 2**64 - 2 + end - begin],
        "negative": [-2, end - begin - 2],
        "fraction": [begin + 0.5, end],
        "one": [begin],
        "three": [begin, end, end],
        "text": "0",
        "short": [begin, end - 2],
        "overlap": [begin - 2, end - 2],
    }
    for what, pair in offsets.items():
        yield f"offsets_{what}", field(base, "data_offsets", pair), 2
    yield "trailing_bytes", weights_case(base, lambda h, d: (h, d), tail=b"\0" * 16), 2
    yield "gap_before_the_data", weights_case(base, lambda h, d: (h, b"\0\0" + d)), 2


def tensors(base):
    def drop(name):
        def change(header, data):  # the bytes stay, under a name nobody needs
            header["unneeded"] = header.pop(name)
            return header, data

        return weights_case(base, change)

    for name in (one(base), "text_model.model.norm.weight", "audio_decoder.output.weight", "text_model.model.embeddings.weight"):
        yield "missing_" + name, drop(name), 1

    def twice(header, data):  # two names that mean the same tensor
        t = header["text_model.model.norm.weight"]
        n = t["data_offsets"][1] - t["data_offsets"][0]
        header["norm.weight"] = {**t, "data_offsets": [len(data), len(data) + n]}
        return header, data + data[:n]

    yield "same_tensor_after_renaming", weights_case(base, twice), 2

    def fill(word, only=None):
        def change(header, data):
            begin, end = header[only]["data_offsets"]
            return header, data[:begin] + struct.pack("<H", word) * ((end - begin) // 2) + data[end:]

        return weights_case(base, change)

    norm = "text_model.model.norm.weight"
    yield "nan_weights", fill(0x7FC0, norm), 1
    yield "nan_in_the_embedding", fill(0x7FC0, "text_model.model.embeddings.weight"), 1
    yield "nan_in_the_fast_head", fill(0xFFFF, "audio_decoder.output.weight"), 1
    yield "infinite_weights", fill(0x7F80, norm), 1


def shard_files(base):
    """The weights in two files: {name: (header, data)}."""
    out, names = {}, base.names()
    half = len(names) // 2
    for i, part in enumerate((names[:half], names[half:])):
        header, data = {}, b""
        for n in part:
            t = base.header[n]
            piece = base.data[t["data_offsets"][0] : t["data_offsets"][1]]
            header[n] = {**t, "data_offsets": [len(data), len(data) + len(piece)]}
            data += piece
        out[f"model-{i + 1:05d}-of-00002.safetensors"] = (header, data)
    return out


def indexes(base):
    shards = shard_files(base)
    names = list(shards)
    good = {n: f for f, (header, _) in shards.items() for n in header}
    first, last = next(iter(good)), list(good)[-1]

    def case(index, skip=(), after=None):
        def make(folder):
            copy(base, folder, without=("model.safetensors",))
            for f, (header, data) in shards.items():
                if f not in skip:
                    put(folder, f, safetensors(header, data))
            put(folder, "model.safetensors.index.json", index)
            if after:
                after(folder)

        return make

    def with_map(change):
        return {"metadata": {"total_size": len(base.data)}, "weight_map": {**good, **change}}

    yield "index_sound", case(with_map({})), 0
    yield "index_shard_missing", case(with_map({}), skip=names[1:]), 2
    for what, target in {
        "above": "../base/model.safetensors",
        "absolute": "/etc/passwd",
        "below": "sub/model.safetensors",
        "dots": "..",
        "dot": ".",
        "empty": "",
        "nul": "model\u0000.safetensors",
        "the_index": "model.safetensors.index.json",
        "config": "config.json",
        "backslash": "..\\x",
        "number": 7,
        "list": [names[0]],
        "null": None,
    }.items():
        yield f"index_names_{what}", case(with_map({first: target})), 2
    yield "index_lists_an_absent_tensor", case(with_map({"not.there": names[0]})), 2
    yield "index_swaps_the_files", case(with_map({first: names[1], last: names[0]})), 2
    yield "index_without_map", case({"metadata": {}}), 2
    yield "index_map_is_a_list", case({"weight_map": [first]}), 2
    yield "index_empty_map", case({"weight_map": {}}), (1, 2)
    yield "index_is_empty", case(b""), 2
    yield "index_is_a_list", case([1]), 2
    yield "index_deep", case(b'{"weight_map":' * 50000 + b"1" + b"}" * 50000), 2
    yield "index_bad_utf8", case(b'{"weight_map":{"\xff":"\xfe"}}'), 2
    yield "index_cut", case(json.dumps(with_map({}))[:-9]), 2

    def in_both(folder):
        header, data = shards[names[1]]
        t = base.header[first]
        piece = base.data[t["data_offsets"][0] : t["data_offsets"][1]]
        both = {**header, first: {**t, "data_offsets": [len(data), len(data) + len(piece)]}}
        put(folder, names[1], safetensors(both, data + piece))

    yield "index_tensor_in_two_shards", case(with_map({}), after=in_both), 2

    def special(make_special):
        def after(folder):
            make_special(os.path.join(folder, names[1]))

        return case(with_map({}), skip=names[1:], after=after)

    yield "index_shard_is_a_folder", special(os.mkdir), 2
    yield "index_shard_is_a_pipe", special(os.mkfifo), 2
    yield "index_shard_is_a_device", special(lambda p: os.symlink("/dev/zero", p)), 2
    yield "index_shard_links_to_itself", special(lambda p: os.symlink(os.path.basename(p), p)), 2



def many_headers(folder, base):
    """100 links to one file whose header is 7 MB of blanks."""
    copy(base, folder, without=("model.safetensors",))
    put(folder, "blank", safetensors(b"{" + b" " * 7_000_000 + b"}", b""))
    names = [f"part-{i:03}.safetensors" for i in range(100)]
    for name in names:
        os.link(os.path.join(folder, "blank"), os.path.join(folder, name))
    put(folder, "model.safetensors.index.json", {"weight_map": {n: n for n in names}})


def large(base):
    def surplus(header, data):
        for i in range(65000):
            header[f"{i:0250}"] = {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}
        return header, data

    def blanks(n):
        return weights_case(base, lambda h, d: (json.dumps(h).encode() + b" " * n, d))

    def index_to_nothing(folder):
        copy(base, folder)
        os.symlink("nothing", os.path.join(folder, "model.safetensors.index.json"))

    yield "index_is_a_link_to_nothing", index_to_nothing, 2
    yield "one_large_header_under_many_names", lambda folder: many_headers(folder, base), 2
    yield "65000_surplus_tensors", weights_case(base, surplus), 2
    yield "header_of_19_mb_of_blanks", blanks(19_000_000), 2


def cases(base):
    yield from large(base)
    for part in (truncated, headers, fields, tensors, indexes):
        yield from part(base)
