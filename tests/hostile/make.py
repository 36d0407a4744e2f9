# SPDX-License-Identifier: MIT
"""Makes hostile checkpoints of a sound one: folders m0, m1, ... and a list of them.

usage: make.py BASE FOLDER GOLDEN_PTH
The list "cases" has a line per folder: its name, the statuses that inspect may give, a title;
the list "inputs" has one per bad input beside a sound model: title, arguments and status, as JSON.
"""
import json
import os
import sys

import archives
import inputs
import texts
import weights
from files import Base, copy


def every(base, golden):
    yield "sound", lambda folder: copy(base, folder), 0
    yield from weights.cases(base)
    yield from texts.cases(base)
    yield from archives.cases(base, golden)


def main():
    base, work, golden = Base(sys.argv[1]), sys.argv[2], sys.argv[3]
    with open(os.path.join(work, "cases"), "w", encoding="utf-8") as f:
        for i, (name, make, want) in enumerate(every(base, golden)):
            make(os.path.join(work, f"m{i}"))
            wanted = ",".join(map(str, want if isinstance(want, tuple) else (want,)))
            f.write(f"m{i}\t{wanted}\t{ascii(name)}\n")
    with open(os.path.join(work, "inputs"), "w", encoding="utf-8") as f:
        for case in inputs.cases(base, work):
            f.write(json.dumps(case) + "\n")


main()
