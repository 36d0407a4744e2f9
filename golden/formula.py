# SPDX-License-Identifier: MIT
"""Shared by the scripts of this folder: the weight formula and the safetensors container.

The formula gives every element of every tensor of a synthetic checkpoint from the tensor's
name, its row length and the element's number, so that no weights need to be stored. README.md
states it; base/synth_values.c is the same in C.
"""

import json
import struct

import numpy as np

DTYPES = {"F32": np.dtype("<f4"), "I32": np.dtype("<i4")}


def fnv(name):
    """FNV-1a, 32 bits, of an ASCII name."""
    h = 0x811C9DC5
    for byte in name.encode("ascii"):
        h = (h ^ byte) * 0x01000193 & 0xFFFFFFFF
    return h


def mix(name, first, n):
    """mix(name, i) for i = first .. first + n - 1, as uint32."""
    i = np.arange(first, first + n, dtype=np.uint64)
    x = ((i * 2654435761 + fnv(name)) & 0xFFFFFFFF).astype(np.uint32)
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x85EBCA6B)
    x ^= x >> np.uint32(13)
    x *= np.uint32(0xC2B2AE35)
    return x ^ (x >> np.uint32(16))


def weight(name, shape):
    """A whole tensor in float64."""
    x = mix(name, 0, int(np.prod(shape))).astype(np.int64)
    v8 = ((x >> 24) - 128) / 128
    v5 = ((x >> 27) - 16) / 16
    last = name.rsplit(".", 1)[-1]
    if last in ("alpha", "weight_g", "original0") or ("norm" in name and last == "weight"):
        out = 1 + v5 / 8
        if name.startswith("decoder.model.6."):
            out = out / 16
    elif last == "bias":
        out = v8 / 8
    elif last == "gamma":
        out = v8 / 4
    elif "embeddings" in name or "codebook.weight" in name:
        out = v8
    else:
        row = int(np.prod(shape[1:]))
        out = v8 * 2.0 ** -((row.bit_length() - 1) // 2)
    return out.reshape(shape)


def read_safetensors(path):
    """({name: array}, {metadata})"""
    with open(path, "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        head = json.loads(f.read(n))
        data = f.read()
    meta = head.pop("__metadata__", {})
    out = {}
    for name, t in head.items():
        begin, end = t["data_offsets"]
        out[name] = np.frombuffer(data[begin:end], DTYPES[t["dtype"]]).reshape(t["shape"])
    return out, meta


def write_safetensors(path, tensors, meta):
    """Tensors in the order given; float arrays as F32, integers as I32."""
    head = {"__metadata__": meta}
    parts, at = [], 0
    for name, x in tensors.items():
        dtype = "I32" if np.issubdtype(x.dtype, np.integer) else "F32"
        raw = np.ascontiguousarray(x, dtype=DTYPES[dtype]).tobytes()
        shape = [int(d) for d in x.shape]
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(raw)]}
        parts.append(raw)
        at += len(raw)
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for raw in parts:
            f.write(raw)
