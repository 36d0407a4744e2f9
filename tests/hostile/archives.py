# SPDX-License-Identifier: MIT
"""Bad model.pth files: zip and pickle attacks. Every case is (name, maker, status of inspect)."""
import os
import shutil
import struct
import zipfile

from files import archive, copy, number, numbers, pickle, put, state, tensor, text


def cases(base, golden):
    items, blobs = state(base)
    good = pickle(items)
    n0 = len(blobs["0"]) // 2

    def case(write):
        def make(folder):
            copy(base, folder, without=("model.safetensors",))
            write(os.path.join(folder, "model.pth"))

        return make

    def with_pickle(pkl, **how):
        return case(lambda p: archive(p, pkl, blobs, **how))

    def first(value):
        """The state dict with another value for its first key."""
        return with_pickle(pickle([(items[0][0], value)] + items[1:]))

    yield "pth_sound", with_pickle(good), 0
    evil = b"cos\nsystem\n(" + text("touch owned") + b"tR"
    yield "pth_runs_a_command", with_pickle(pickle([("a", evil)] + items)), 2
    yield "pth_builtin_eval", with_pickle(b"\x80\x02cbuiltins\neval\n(" + text("1") + b"tR."), 2
    yield "pth_global_after_stop", with_pickle(good[:-1] + b"cos\nsystem\n0."), 2
    yield "pth_inst_opcode", with_pickle(b"\x80\x02(ios\nsystem\n."), 2
    yield "pth_protocol_5", with_pickle(b"\x80\x05" + good[2:]), 2
    yield "pth_no_stop", with_pickle(good[:-1]), 2
    for n in (15_000_000, 60_000_000):
        yield f"pth_pickle_of_{n}_marks", with_pickle(b"\x80\x02" + b"(0" * (n // 2) + b"."), 2
        yield f"pth_pickle_of_{n}_texts", with_pickle(b"\x80\x02" + b"X\1\0\0\0a" * (n // 6) + b"."), 2
    yield "pth_empty_pickle", with_pickle(b""), 2
    yield "pth_stack_underflow", with_pickle(b"\x80\x02ttttR."), 2
    yield "pth_mark_flood", with_pickle(b"\x80\x02" + b"(" * 3_000_000 + b"."), 2
    yield "pth_tuple_flood", with_pickle(b"\x80\x02" + b")" * 3_000_000 + b"."), 2
    yield "pth_deep_tuples", with_pickle(b"\x80\x02)" + b"\x85" * 1_000_000 + b"."), 2
    yield "pth_deep_lists", with_pickle(b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b"."), 2
    yield "pth_self_in_self", with_pickle(b"\x80\x02}q\x00" + text("a") + b"h\x00s."), 2
    yield "pth_memo_far", with_pickle(b"\x80\x02}r" + struct.pack("<I", 2**32 - 1) + b"."), 2
    yield "pth_memo_unknown", with_pickle(b"\x80\x02h\x07."), 2
    yield "pth_string_longer_than_the_file", with_pickle(b"\x80\x02X\xff\xff\xff\x7fabc."), 2
    yield "pth_long_of_255_bytes", with_pickle(b"\x80\x02\x8a\xff" + b"\x01" * 255 + b"."), 2
    yield "pth_top_is_a_list", with_pickle(b"\x80\x02]."), 2
    yield "pth_key_is_a_number", with_pickle(b"\x80\x02}K\x01K\x02s."), (1, 2)
    yield "pth_bad_utf8_key", with_pickle(b"\x80\x02}X\x02\0\0\0\xff\xfeK\x02s."), 2
    yield "pth_doubling_tuples", with_pickle(b"\x80\x02)" + b"q\x00h\x00\x86" * 60 + b"."), 2
    yield "pth_no_tensors", with_pickle(pickle([])), (1, 2)

    def shaped(shape, stride, offset=0, n=n0, key="0"):
        return first(tensor("BF16", key, n, shape, stride, offset))

    yield "pth_stride_zero", shaped([2**40, 2], [0, 0]), 2
    yield "pth_more_elements_than_storage", shaped([n0 + 1], [1]), 2
    yield "pth_negative_size", shaped([-1], [1]), 2
    yield "pth_negative_stride", shaped([4], [-1]), 2
    yield "pth_negative_offset", shaped([4], [1], -1), 2
    yield "pth_offset_past_the_end", shaped([4], [1], n0 - 3), 2
    yield "pth_offset_overflow", shaped([4], [1], 2**62), 2
    yield "pth_size_overflow", shaped([2**62, 2**62], [1, 1]), 2
    yield "pth_rank_9", shaped([1] * 9, [1] * 9), 2
    yield "pth_strides_too_few", shaped([2, 2], [1]), 2
    yield "pth_storage_missing", shaped([4], [1], key="none"), 2
    yield "pth_storage_above", shaped([4], [1], key="../../config.json"), 2
    yield "pth_storage_claims_more", shaped([4], [1], n=n0 * 1000), 2
    yield "pth_storage_claims_2_62", shaped([4], [1], n=2**62), 2
    yield "pth_rebuild_of_nothing", first(b"ctorch._utils\n_rebuild_tensor_v2\n)R"), 2
    yield "pth_rebuild_of_numbers", first(b"ctorch._utils\n_rebuild_tensor_v2\n" + numbers([1] * 6) + b"R"), 2
    yield "pth_persistent_number", first(number(7) + b"Q"), 2

    yield "pth_deflated", with_pickle(good, method=zipfile.ZIP_DEFLATED), 2
    bomb = case(lambda p: archive(p, b"\0" * 60_000_000, {}, method=zipfile.ZIP_DEFLATED))
    yield "pth_zip_bomb", bomb, 2
    yield "pth_two_pickles", with_pickle(good, extra=[("other/data.pkl", good)]), 2
    yield "pth_big_endian", with_pickle(good, extra=[("archive/byteorder", "big")]), 2
    yield "pth_no_pickle", case(lambda p: zipfile.ZipFile(p, "w").writestr("a/b", "c")), 2
    yield "pth_is_text", case(lambda p: put(os.path.dirname(p), "model.pth", b"not a zip")), 2
    yield "pth_is_empty", case(lambda p: put(os.path.dirname(p), "model.pth", b"")), 2
    yield "pth_signature_alone", case(lambda p: put(os.path.dirname(p), "model.pth", b"PK\3\4")), 2

    def patched(change):
        def write(p):
            archive(p, good, blobs)
            raw = bytearray(open(p, "rb").read())
            change(raw)
            put(os.path.dirname(p), "model.pth", bytes(raw))

        return case(write)

    def at(raw, signature):
        return raw.rindex(signature)

    def poke(signature, offset, fmt, value):
        def change(raw):
            struct.pack_into(fmt, raw, at(raw, signature) + offset, value)

        return patched(change)

    end, central, local = b"PK\5\6", b"PK\1\2", b"PK\3\4"
    yield "zip_count_too_large", poke(end, 10, "<H", 65535), 2
    yield "zip_directory_size_huge", poke(end, 12, "<I", 2**32 - 2), 2
    yield "zip_directory_past_the_end", poke(end, 16, "<I", 2**31), 2
    yield "zip_encrypted", poke(central, 8, "<H", 1), 2
    yield "zip_local_past_the_end", poke(central, 42, "<I", 2**31), 2
    yield "zip_name_length_huge", poke(central, 28, "<H", 65535), 2
    yield "zip_size_huge", poke(central, 24, "<I", 2**31), 2
    yield "zip_zip64_without_field", poke(central, 24, "<I", 2**32 - 1), 2
    yield "zip_local_name_huge", poke(local, 26, "<H", 65535), 2

    def cut(share):
        def change(raw):
            del raw[int(len(raw) * share) :]

        return patched(change)

    for share in (0.1, 0.5, 0.9, 0.99):
        yield f"zip_cut_at_{share}", cut(share), 2
    for name in sorted(os.listdir(golden)):  # written by torch.save, then broken
        if name.startswith("bad-") or name == "evil.pth":
            yield "real_" + name, case(lambda p, name=name: shutil.copy(os.path.join(golden, name), p)), 2
