# SPDX-License-Identifier: MIT
"""Bad inputs beside a sound model: prompts, forced frames, references, noise. Every case is
(name, arguments, status)."""
import json
import os
import struct


def holes(path, descr, shape, size):
    """A .npy file that claims its shape and holds no data on disk."""
    n = size
    for d in shape:
        n *= d
    text = repr({"descr": descr, "fortran_order": False, "shape": tuple(shape)}).encode()
    text += b" " * (-(11 + len(text)) % 64) + b"\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text)
        f.truncate(f.tell() + n)


def tensor_of_holes(path, name, shape):
    n = 4
    for d in shape:
        n *= d
    text = json.dumps({name: {"dtype": "I32", "shape": shape, "data_offsets": [0, n]}}).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.truncate(f.tell() + n)


def cases(base, work):
    model = ["--model", base.folder]
    n_book = base.config["audio_decoder_config"]["num_codebooks"]
    n_code = base.config["audio_decoder_config"]["vocab_size"]
    width = 2 * (n_code + 1) + (n_book - 1) * n_code
    out = os.path.join(work, "codes.npy")
    pipe = os.path.join(work, "pipe")
    os.mkfifo(pipe)

    def at(name):
        return os.path.join(work, name)

    holes(at("codes_of_holes.npy"), "|i1", (n_book, 100_000_000), 1)
    holes(at("books_of_holes.npy"), "|i1", (100_000_000, 2), 1)
    holes(at("frames_of_holes.npy"), "<i8", (n_book + 1, 100_000_000), 8)
    tensor_of_holes(at("prompt_of_holes.st"), "prompt", [50_000_000, n_book + 1])
    tensor_of_holes(at("forced_of_holes.st"), "frames", [50_000_000, n_book + 1])
    holes(at("noise_of_holes.npy"), "<f4", (1, 1_000_000, width), 4)
    trace = ["trace"] + model + ["-o", out]
    say = ["generate"] + model + ["--text", "Hi", "-o", out, "--max-new-tokens", "3"]
    for name in ("codes_of_holes.npy", "books_of_holes.npy", "frames_of_holes.npy", "prompt_of_holes.st"):
        yield "prompt_is_" + name, trace + ["--prompt", at(name)], 2
    for name in ("codes_of_holes.npy", "books_of_holes.npy", "forced_of_holes.st"):
        yield "forced_is_" + name, trace + ["--text", "Hi", "--forced", at(name)], 2
    for name in ("codes_of_holes.npy", "books_of_holes.npy"):
        yield "reference_is_" + name, say + ["--reference-text", "a", "--reference-codes", at(name)], 2
    yield "noise_is_of_holes", say + ["--noise", "file:" + at("noise_of_holes.npy")], 0
    for option in ("--prompt", "--from"):
        yield f"{option}_is_a_pipe", trace + [option, pipe], 2
        yield f"{option}_is_a_device", trace + [option, "/dev/zero"], 2
    yield "forced_is_a_pipe", trace + ["--text", "Hi", "--forced", pipe], 2
    yield "reference_is_a_pipe", say + ["--reference-text", "a", "--reference-codes", pipe], 2
    yield "noise_is_a_pipe", say + ["--noise", "file:" + pipe], 2
