# SPDX-License-Identifier: MIT
"""Describes the data of this folder: MANIFEST.json and SHA256SUMS.

    manifest.py [FOLDER]      rewrites both (after a deliberate change of the data)

A case is a pair NAME.json, NAME.safetensors in a subfolder. Its entry says where the numbers come
from, the sizes that matter, the axes, which rows are kept, and how large it is. SHA256SUMS covers
every data file, MANIFEST.json included, in the form that sha256sum -c reads.
"""

import hashlib
import json
import os
import sys

import formula

SCHEMA = 1
DATA = (".safetensors", ".json", ".txt", ".npy", ".pth")
COPIED = ("config", "im_end", "rope_table", "sampling", "axes")


def data_files(folder):
    """Paths of all data files, relative, sorted."""
    found = []
    for base, dirs, names in os.walk(folder):
        dirs.sort()
        for name in names:
            path = os.path.relpath(os.path.join(base, name), folder)
            if name.endswith(DATA) and path != "MANIFEST.json":
                found.append(path)
    return sorted(found)


def entry(folder, path):
    """The manifest entry of the case whose tensors are in path."""
    stem = os.path.splitext(path)[0]
    tensors, meta = formula.read_safetensors(os.path.join(folder, path))
    out = {"case": os.path.basename(stem), "file": path, "bytes": os.path.getsize(os.path.join(folder, path))}
    if os.path.exists(os.path.join(folder, stem + ".json")):
        with open(os.path.join(folder, stem + ".json"), encoding="utf-8") as f:
            case = json.load(f)
        out["source"] = case.get("oracle", "")
        out.update({key: case[key] for key in COPIED if key in case})
    kept = {key[5:]: [int(i) for i in value.split(",")] for key, value in meta.items() if key.startswith("rows.")}
    out["rows_kept"] = kept or "all"
    if "cut_from_sha256" in meta:
        out["cut_from_sha256"] = meta["cut_from_sha256"]
    out["tensors"] = {name: list(x.shape) for name, x in tensors.items()}
    return out


def dump(value, depth=0):
    """JSON with one line per innermost object or list."""
    if isinstance(value, dict) and depth < 3:
        pad = " " * (depth + 1)
        rows = [f"{pad}{json.dumps(k)}: {dump(v, depth + 1)}" for k, v in value.items()]
        return "{\n" + ",\n".join(rows) + "\n" + pad[1:] + "}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        pad = " " * (depth + 1)
        return "[\n" + ",\n".join(pad + dump(v, depth + 1) for v in value) + "\n" + pad[1:] + "]"
    return json.dumps(value)


def main(argv):
    folder = argv[1] if len(argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    files = data_files(folder)
    manifest = {
        "schema": SCHEMA,
        "weights": "by formula, see README.md; never stored",
        "cases": [entry(folder, path) for path in files if path.endswith(".safetensors")],
        "other": [path for path in files if not path.endswith(".safetensors")],
    }
    with open(os.path.join(folder, "MANIFEST.json"), "w", encoding="utf-8") as f:
        f.write(dump(manifest) + "\n")
    with open(os.path.join(folder, "SHA256SUMS"), "w", encoding="utf-8") as f:
        for path in sorted(files + ["MANIFEST.json"]):
            with open(os.path.join(folder, path), "rb") as data:
                f.write(f"{hashlib.sha256(data.read()).hexdigest()}  {path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
