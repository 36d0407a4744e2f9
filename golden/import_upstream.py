# SPDX-License-Identifier: MIT
"""Takes upstream's numbers into this folder.

    import_upstream.py SHARED OUT

SHARED holds golden/upstream-X.json and .safetensors (X = A, B, C, L) and spec/golden-lm.json, as
README.md describes them. Cases A, B and L are copied byte for byte. Case C, which has the true
widths, is cut to the rows of KEEP: every tensor stays, most of its rows go; the metadata say which
rows are left. Nothing is computed here and nothing is rounded.
"""

import hashlib
import os
import shutil
import sys

import formula

# Case C: the last prompt position and the first decoded one; the first two frames; the first and
# the last predicted codebook of each.
KEEP = {"position": [5, 6], "frame": [0, 1], "book": [1, 9]}


def cut(name, x):
    """The kept rows of one tensor; its axes are those of README.md."""
    if name in ("prompt", "frames"):
        return x
    if name in ("slow.norm", "slow.logits", "slow.hidden"):
        return x[KEEP["frame"]]
    if name.startswith("slow."):
        return x[KEEP["position"]]
    first_book = 1 if name == "fast.logits" else 0
    return x[KEEP["frame"]][:, [book - first_book for book in KEEP["book"]]]


def cut_case(source, target):
    tensors, meta = formula.read_safetensors(source)
    with open(source, "rb") as f:
        meta["cut_from_sha256"] = hashlib.sha256(f.read()).hexdigest()
    for axis, kept in KEEP.items():
        meta[f"rows.{axis}"] = ",".join(map(str, kept))
    formula.write_safetensors(target, {n: cut(n, x) for n, x in tensors.items()}, meta)


def main(argv):
    if len(argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    shared, out = argv[1], os.path.join(argv[2], "lm")
    os.makedirs(out, exist_ok=True)
    shutil.copyfile(f"{shared}/spec/golden-lm.json", f"{out}/golden-lm.json")
    for case in "ABCL":
        shutil.copyfile(f"{shared}/golden/upstream-{case}.json", f"{out}/{case}.json")
        source, target = f"{shared}/golden/upstream-{case}.safetensors", f"{out}/{case}.safetensors"
        if case == "C":
            cut_case(source, target)
        else:
            shutil.copyfile(source, target)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
