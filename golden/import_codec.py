# SPDX-License-Identifier: MIT
"""Takes upstream's numbers of the codec into this folder.

    import_codec.py SHARED OUT

SHARED holds golden/upstream-codec.safetensors and spec/golden-codec.json. The JSON is copied byte
for byte. Of every tensor whose last axis (time) is longer than 2 KEEP, the first and the last KEEP
columns stay; metadata `columns.kept` says how many that is at either end. Nothing is computed here
and nothing is rounded.
"""

import hashlib
import os
import shutil
import sys

import numpy as np

import formula

KEEP = 384


def cut(x):
    if x.shape[-1] <= 2 * KEEP:
        return x
    return np.concatenate([x[..., :KEEP], x[..., -KEEP:]], axis=-1)


def main(argv):
    if len(argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    shared, out = argv[1], os.path.join(argv[2], "codec")
    os.makedirs(out, exist_ok=True)
    shutil.copyfile(f"{shared}/spec/golden-codec.json", f"{out}/golden-codec.json")
    source = f"{shared}/golden/upstream-codec.safetensors"
    tensors, meta = formula.read_safetensors(source)
    with open(source, "rb") as f:
        meta["cut_from_sha256"] = hashlib.sha256(f.read()).hexdigest()
    meta["columns.kept"] = str(KEEP)
    kept = {name: cut(x) for name, x in tensors.items()}
    formula.write_safetensors(f"{out}/codec.safetensors", kept, meta)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
