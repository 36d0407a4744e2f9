# SPDX-License-Identifier: MIT
"""Writing checkpoint files, right and wrong, with the standard library alone."""
import json
import os
import shutil
import struct
import zipfile


class Base:
    """A sound checkpoint folder, taken apart: config, tokenizer, header and data of the weights."""

    def __init__(self, folder):
        self.folder = folder
        self.config = json.load(open(folder + "/config.json", encoding="utf-8"))
        self.tokenizer = json.load(open(folder + "/tokenizer.json", encoding="utf-8"))
        raw = open(folder + "/model.safetensors", "rb").read()
        (n,) = struct.unpack("<Q", raw[:8])
        self.raw = raw
        self.header = json.loads(raw[8 : 8 + n])
        self.data = raw[8 + n :]
        self.header_size = n

    def names(self):
        return [k for k in self.header if k != "__metadata__"]


def safetensors(header, data, length=None):
    """Bytes of a file; header is an object or bytes, length the claimed header length."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def put(folder, name, content):
    """Writes bytes, text or an object as JSON."""
    if not isinstance(content, (bytes, str)):
        content = json.dumps(content)
    if isinstance(content, str):
        content = content.encode()
    with open(os.path.join(folder, name), "wb") as f:
        f.write(content)


def copy(base, folder, without=()):
    os.makedirs(folder)
    for name in os.listdir(base.folder):
        if name not in without:
            shutil.copy(os.path.join(base.folder, name), folder)


# ---- torch archives ----

STORAGE = {"BF16": "BFloat16Storage", "F16": "HalfStorage", "F32": "FloatStorage", "I64": "LongStorage"}
SIZE = {"BF16": 2, "F16": 2, "F32": 4, "I64": 8}


def text(s):
    b = s.encode()
    return b"X" + struct.pack("<I", len(b)) + b


def number(n):
    if 0 <= n < 256:
        return b"K" + bytes([n])
    if 0 <= n < 65536:
        return b"M" + struct.pack("<H", n)
    if -(2**31) <= n < 2**31:
        return b"J" + struct.pack("<i", n)
    b = n.to_bytes(8, "little", signed=True)
    return b"\x8a\x08" + b


def numbers(values):
    return b"(" + b"".join(number(v) for v in values) + b"t"


def tensor(dtype, key, n, shape, stride, offset=0):
    """Opcodes that leave one tensor on the stack."""
    storage = b"(" + text("storage") + b"ctorch\n" + STORAGE[dtype].encode() + b"\n"
    storage += text(key) + text("cpu") + number(n) + b"tQ"
    return (
        b"ctorch._utils\n_rebuild_tensor_v2\n("
        + storage
        + number(offset)
        + numbers(shape)
        + numbers(stride)
        + b"\x89ccollections\nOrderedDict\n)RtR"
    )


def pickle(items):
    """A state dict: items are (key, opcodes of the value)."""
    body = b"".join(text(k) + v for k, v in items)
    return b"\x80\x02ccollections\nOrderedDict\n)R(" + body + b"u."


def contiguous(shape):
    stride, n = [], 1
    for d in reversed(shape):
        stride.insert(0, n)
        n *= d
    return stride, n


def internal(name):
    """Name inside a .pth: nested names are for safetensors only."""
    if name.startswith("text_model.model."):
        return name[len("text_model.model.") :]
    if name.startswith("audio_decoder."):
        rest = name[len("audio_decoder.") :]
        return rest if rest.startswith("codebook_embeddings.") else "fast_" + rest
    return name


def state(base):
    """(items, storages) of the whole base model."""
    items, blobs = [], {}
    for i, name in enumerate(base.names()):
        t = base.header[name]
        a, b = t["data_offsets"]
        stride, n = contiguous(t["shape"])
        items.append((internal(name), tensor(t["dtype"], str(i), n, t["shape"], stride)))
        blobs[str(i)] = base.data[a:b]
    return items, blobs


def archive(path, pkl, blobs, method=zipfile.ZIP_STORED, prefix="archive", extra=()):
    with zipfile.ZipFile(path, "w", method) as z:
        z.writestr(prefix + "/data.pkl", pkl)
        for key, data in blobs.items():
            z.writestr(f"{prefix}/data/{key}", data)
        z.writestr(prefix + "/version", "3\n")
        for name, data in extra:
            z.writestr(name, data)
