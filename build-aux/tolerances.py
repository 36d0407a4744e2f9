#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The figures of docs/tolerances.md, measured: tolerances.py build/tools/kvref

For every tap the largest share of its limit over the golden runs, in float32 (the reference
decoder against upstream and the oracle) and in FP16 (emulated FP16, and the CUDA kernels executed
on the CPU), and what single faults use, planted by a changed configuration. Needs NumPy. Prints Markdown."""

import json
import os
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CASES = "ABLD"

# A fault: the key of the configuration that is changed, and its wrong value for a case.
FAULTS = [
    ("norm eps ten times as large", "norm_eps", lambda c: c["norm_eps"] * 10),
    ("norm eps a tenth", "norm_eps", lambda c: c["norm_eps"] / 10),
    ("rotation base 0.1 % off", "rope_base", lambda c: c["rope_base"] * 1.001),
    ("the other rotation tables", "rope_table", None),
    ("codebook sums (not) scaled", "scale_codebook_embeddings", lambda c: not c["scale_codebook_embeddings"]),
    ("hidden state before (after) the norm", "norm_fastlayer_input", lambda c: not c["norm_fastlayer_input"]),
]


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode > 1 or (done.returncode == 1 and command[1] != "compare"):
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return done.stdout


def golden(name):
    return os.path.join(TOP, "golden", "lm", name)


def spoiled(case, fault):
    """The case file with one fault in it."""
    _, key, value = fault
    case = json.loads(json.dumps(case))
    if key == "rope_table":
        case[key] = "bf16" if case.get(key) == "f32" else "f32"
    else:
        case["config"][key] = value(case["config"])
    return case


def trace_kvref(kvref, work, case, name, backend="ref"):
    """A decoder's trace of a case."""
    config, model, out = (os.path.join(work, f) for f in ("config.json", f"model-{name}", f"{name}.st"))
    with open(config, "w", encoding="utf-8") as f:
        json.dump(case["config"], f)
    run(kvref, "make-model", model, "--config", config, "--layout", "flat", "--codec", "none", "--quiet")
    table = case.get("rope_table", "bf16")
    source = golden(case["case"] + ".safetensors")
    what = ("--level", "ops", "--rope-table", table, "--backend", backend)
    run(kvref, "trace", "--model", model, "--from", source, *what, "-o", out)
    return out


def trace_f16(work, case, name):
    """The emulated FP16 trace of a case."""
    path, out = os.path.join(work, f"{name}.json"), os.path.join(work, f"{name}.st")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(case, f)
    oracle = os.path.join(TOP, "golden", "oracle.py")
    run(sys.executable, "-B", oracle, "half", path, golden(case["case"] + ".safetensors"), out)
    return out


def shares(kvref, case, trace, rule):
    """{tap: (share, limit as a share of the largest)}; None for an infinite share."""
    text = run(kvref, "compare", golden(case["case"] + ".safetensors"), trace, "--rule", rule, "--json")
    out = {}
    for t in json.loads(text)["taps"]:
        if t["rule"] == "T2" and "used" in t:
            tap = ".".join(p for p in t["tensor"].split(".") if p[0] != "L")
            used = float("inf") if t["used"] is None else t["used"]
            out[tap] = max(out.get(tap, (0, 0)), (used, t["rel"]))
    return out


def worst(found):
    return max(used for used, _ in found.values())


def measure(kvref, work, cases, rule):
    make = (lambda c, n: trace_kvref(kvref, work, c, n)) if rule == "f32" else (lambda c, n: trace_f16(work, c, n))
    good = {c["case"]: shares(kvref, c, make(c, rule + c["case"]), rule) for c in cases}
    print(f"\n## Used in {rule}\n\n| tap | limit | {' | '.join(good)} |\n|---|---|{'---|' * len(good)}")
    taps = sorted({t for g in good.values() for t in g}, key=lambda t: (t[:4] != "slow", t))
    for tap in taps:
        cells = [f"{g[tap][0]:.3f}" if tap in g else "" for g in good.values()]
        limit = next(g[tap][1] for g in good.values() if tap in g)
        print(f"| {tap} | {limit:.2g} | {' | '.join(cells)} |")
    print(f"\n| fault | {' | '.join(good)} |\n|---|{'---|' * len(good)}")
    for i, fault in enumerate(FAULTS):
        cells = []
        for case in cases:
            trace = make(spoiled(case, fault), f"{rule}{case['case']}{i}")
            cells.append(f"{worst(shares(kvref, case, trace, rule)):.3g}")
        print(f"| {fault[0]} | {' | '.join(cells)} |")


def main(kvref):
    cases = []
    for name in CASES:
        with open(golden(name + ".json"), encoding="utf-8") as f:
            cases.append(json.load(f))
    with tempfile.TemporaryDirectory() as work:
        for rule in ("f32", "f16"):
            measure(os.path.abspath(kvref), work, cases, rule)
        print("\nWorst share of the CUDA kernels, executed on the CPU:", end=" ")
        for case in cases:
            trace = trace_kvref(os.path.abspath(kvref), work, case, f"gpu{case['case']}", "cudacpu")
            print(f"{case['case']} {worst(shares(kvref, case, trace, 'f16')):.3f}", end=" ")
        print()


if __name__ == "__main__":
    main(sys.argv[1])
