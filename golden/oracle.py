# SPDX-License-Identifier: MIT
"""An independent float64 evaluation of the decoder, written from the formulas.

It shares no code with the C library: what both get right, both got from the specification.
Every intermediate result is kept under the name and with the axes of README.md. Only the
rotation table, the noise and the sampling rule are float32, because they are defined so.

    oracle.py check CASE.json CASE.safetensors    compare with stored numbers, forced codes
    oracle.py free CASE.json CASE.safetensors     the same, drawing the codes as well
    oracle.py make CASE.json OUT.safetensors      draw codes, write the numbers
    oracle.py runs GOLDEN-LM.json                 its runs: frames, logits, hidden state
    oracle.py diff OLD.safetensors NEW.safetensors  equal, but for float32 rounding
    oracle.py half CASE.json CASE.safetensors OUT.safetensors
        the same codes with every stored value rounded to float16: a plain FP16 decoder; writes
        its numbers, and prints for each tap the error against float64 over the largest magnitude
"""

import json
import sys

import numpy as np

import formula

F32 = np.float32


def bf16(x):
    """Float32 values rounded to bfloat16, ties to even."""
    bits = np.asarray(x, F32).view(np.uint32)
    bits = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return bits.view(F32)


def half(x):
    """Values rounded to float16, as an FP16 program stores them."""
    with np.errstate(over="ignore"):
        return np.asarray(x, np.float64).astype(np.float16).astype(np.float64)


def whole(x):
    """Nothing is rounded."""
    return x


def rope_table(base, width, n_pos, table):
    """cos and sin [n_pos, width / 2]; the angle is a float32 product."""
    e = (F32(2) * np.arange(width // 2, dtype=F32)) / F32(width)
    w = (np.float64(F32(base)) ** e.astype(np.float64)).astype(F32)
    angle = np.arange(n_pos, dtype=F32)[:, None] * (F32(1) / w)[None, :]
    cos, sin = (f(angle.astype(np.float64)).astype(F32) for f in (np.cos, np.sin))
    if table == "bf16":
        cos, sin = bf16(cos), bf16(sin)
    return cos.astype(np.float64), sin.astype(np.float64)


def norm(x, weight, eps, store=whole):
    return store(x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)) * weight


def rotate(x, cos, sin):
    """x [T, heads, width], adjacent pairs."""
    out = np.empty_like(x)
    even, odd = x[..., 0::2], x[..., 1::2]
    out[..., 0::2] = even * cos[:, None, :] - odd * sin[:, None, :]
    out[..., 1::2] = odd * cos[:, None, :] + even * sin[:, None, :]
    return out


class Taps(dict):
    """Rows collected under a name."""

    def put(self, name, rows):
        self.setdefault(name, []).append(np.array(rows))


class Stack:
    """One of the two transformers: its sizes, weights and cache. store rounds what a program of
    that precision keeps: results of matrix products and of elementwise steps."""

    def __init__(self, config, fast, table, store):
        self.store = store
        get = lambda key: config[("fast_" if fast else "") + key]
        self.side, self.prefix = ("fast", "fast_") if fast else ("slow", "")
        self.n_layer = config["n_fast_layer" if fast else "n_layer"]
        self.dim, self.head, self.kv = get("dim"), get("n_head"), get("n_local_heads")
        self.width, self.ff = get("head_dim"), get("intermediate_size")
        self.qkv_bias, self.o_bias = get("attention_qkv_bias"), get("attention_o_bias")
        self.qk_norm = get("attention_qk_norm")
        self.eps = float(F32(config["norm_eps"]))
        n_pos = config["num_codebooks"] if fast else config["max_seq_len"]
        self.cos, self.sin = map(store, rope_table(config["rope_base"], self.width, n_pos, table))
        self.layers = [self.load(layer) for layer in range(self.n_layer)]
        self.rewind()

    def rewind(self):
        self.k = [np.zeros((0, self.kv, self.width)) for _ in range(self.n_layer)]
        self.v = [np.zeros((0, self.kv, self.width)) for _ in range(self.n_layer)]

    def load(self, layer):
        rows, out = (self.head + 2 * self.kv) * self.width, self.head * self.width
        shapes = {
            "attention_norm.weight": (self.dim,),
            "attention.wqkv.weight": (rows, self.dim),
            "attention.wo.weight": (self.dim, out),
            "ffn_norm.weight": (self.dim,),
            "feed_forward.w1.weight": (self.ff, self.dim),
            "feed_forward.w3.weight": (self.ff, self.dim),
            "feed_forward.w2.weight": (self.dim, self.ff),
        }
        if self.qkv_bias:
            shapes["attention.wqkv.bias"] = (rows,)
        if self.o_bias:
            shapes["attention.wo.bias"] = (self.dim,)
        if self.qk_norm:
            shapes["attention.q_norm.weight"] = (self.width,)
            shapes["attention.k_norm.weight"] = (self.width,)
        return {n: formula.weight(f"{self.prefix}layers.{layer}.{n}", s) for n, s in shapes.items()}

    def attend(self, layer, q, first):
        """q [T, heads, width] at positions first..; query head h reads key/value head h // group."""
        out = np.empty_like(q)
        group = self.head // self.kv
        for t in range(len(q)):
            seen = first + t + 1
            for h in range(self.head):
                k, v = self.k[layer][:seen, h // group], self.v[layer][:seen, h // group]
                score = k @ q[t, h] / np.sqrt(self.width)
                p = np.exp(score - score.max())
                out[t, h] = p @ v / p.sum()
        return out

    def run(self, x, taps):
        """x [T, dim] at the next positions; returns the residual stream after the last layer."""
        r = self.store
        first, rows = len(self.k[0]), len(x)
        at = slice(first, first + rows)
        taps.put(f"{self.side}.embed", x)
        for layer, w in enumerate(self.layers):
            tap = lambda name, value: taps.put(f"{self.side}.L{layer:02d}.{name}", value)
            n = r(norm(x, w["attention_norm.weight"], self.eps, r))
            tap("attn_norm", n)
            qkv = r(n @ w["attention.wqkv.weight"].T + w.get("attention.wqkv.bias", 0))
            qkv = qkv.reshape(rows, self.head + 2 * self.kv, self.width)
            q, k, v = np.split(qkv, [self.head, self.head + self.kv], axis=1)
            if self.qk_norm:
                q = r(norm(q, w["attention.q_norm.weight"], self.eps))
                k = r(norm(k, w["attention.k_norm.weight"], self.eps))
            q, k = (r(rotate(u, self.cos[at], self.sin[at])) for u in (q, k))
            self.k[layer] = np.concatenate([self.k[layer], k])
            self.v[layer] = np.concatenate([self.v[layer], v])
            attn = r(self.attend(layer, q, first))
            attn_out = r(attn.reshape(rows, -1) @ w["attention.wo.weight"].T + w.get("attention.wo.bias", 0))
            for name, value in (("q", q), ("k", k), ("v", v), ("attn", attn), ("attn_out", attn_out)):
                tap(name, value)
            x = r(x + attn_out)
            n = r(norm(x, w["ffn_norm.weight"], self.eps, r))
            gate = r(n @ w["feed_forward.w1.weight"].T)
            act = r(r(gate / (1 + np.exp(-gate))) * r(n @ w["feed_forward.w3.weight"].T))
            ffn_out = r(act @ w["feed_forward.w2.weight"].T)
            x = r(x + ffn_out)
            for name, value in (("ffn_norm", n), ("ffn_act", act), ("ffn_out", ffn_out), ("out", x)):
                tap(name, value)
        return x


class Model:
    """Both transformers and what lies around them."""

    def __init__(self, config, table="bf16", store=whole):
        self.c, self.store = config, store
        c = config
        self.slow_stack, self.fast_stack = (Stack(c, fast, table, store) for fast in (False, True))
        self.eps = float(F32(c["norm_eps"]))
        w = lambda name, *shape: formula.weight(name, shape)
        n_code, dim, fast_dim = c["codebook_size"], c["dim"], c["fast_dim"]
        self.embed = w("embeddings.weight", c["vocab_size"], dim)
        self.codes = w("codebook_embeddings.weight", n_code * c["num_codebooks"], dim)
        self.norm = w("norm.weight", dim)
        tied = c["tie_word_embeddings"]
        self.head = self.embed if tied else w("output.weight", c["vocab_size"], dim)
        self.project = None
        if fast_dim != dim:
            self.project = (w("fast_project_in.weight", fast_dim, dim), w("fast_project_in.bias", fast_dim))
        self.fast_embed = w("fast_embeddings.weight", n_code, fast_dim)
        self.fast_norm = w("fast_norm.weight", fast_dim)
        self.fast_head = w("fast_output.weight", n_code, fast_dim)

    def embed_frame(self, frame):
        """frame: token id, then one code per book."""
        c, token = self.c, frame[0]
        x = self.embed[token]
        if c["semantic_begin_id"] <= token <= c["semantic_end_id"]:
            at = [book * c["codebook_size"] + code for book, code in enumerate(frame[1:])]
            x = self.store(x + self.store(self.codes[at].sum(axis=0)))
            if c["scale_codebook_embeddings"]:
                x = self.store(x / float(F32(np.sqrt(c["num_codebooks"] + 1))))
        return x

    def slow(self, frames, taps):
        """Feeds frames [T, 1+N]; returns the logits [V] and the hidden state of the last one."""
        x = self.slow_stack.run(np.array([self.embed_frame(f) for f in frames]), taps)[-1]
        z = self.store(norm(x, self.norm, self.eps, self.store))
        logits = self.store(self.head @ z)
        hidden = z if self.c["norm_fastlayer_input"] else x
        if self.project:
            hidden = self.store(self.project[0] @ hidden + self.project[1])
        for name, value in (("norm", z), ("logits", logits), ("hidden", hidden)):
            taps.put(f"slow.{name}", value[None])
        return logits, hidden

    def fast(self, book, x, taps):
        """One codebook position; x is the hidden state (book 0) or a row of fast_embed."""
        if book == 0:
            self.fast_stack.rewind()
        z = self.fast_stack.run(x[None], taps)[0]
        z = self.store(norm(z, self.fast_norm, self.eps, self.store))
        taps.put("fast.norm", z[None])
        return self.store(self.fast_head @ z)


def probabilities(logits, temperature, top_p, top_k):
    """Float32 by definition; the running sum is float64, rounded at every rank."""
    logits = logits.astype(F32)
    order = np.argsort(-logits, kind="stable")
    ranked = logits[order]
    e = np.exp(ranked - ranked[0])
    p = e / e.sum(dtype=F32)
    total = np.cumsum(p.astype(np.float64)).astype(F32)
    rank = np.arange(len(p))
    removed = (total > F32(top_p)) | (rank >= top_k)
    removed[0] = False
    kept = np.full_like(logits, -np.inf)
    kept[order[~removed]] = ranked[~removed] / F32(max(temperature, 1e-5))
    e = np.exp(kept - kept.max())
    return e / e.sum(dtype=F32)


class Noise:
    """torch's CPU generator: MT19937, low 32 bits of the seed, 24 bits of every output."""

    def __init__(self, seed):
        self.bits = np.random.RandomState(seed & 0xFFFFFFFF)._bit_generator

    def uniform(self, n):
        raw = np.asarray(self.bits.random_raw(n), dtype=np.uint64)
        return ((raw & np.uint64(0xFFFFFF)).astype(np.float64) / 2.0**24).astype(F32)


def draw(logits, s, noise, margins, temperature=None, top_p=None):
    p = probabilities(logits, temperature or s["temperature"], top_p or s["top_p"], s["top_k"])
    with np.errstate(divide="ignore"):
        q = -np.log(noise.uniform(len(p)))
        ratio = np.where(p > 0, p / q, -1)
    best, second = np.sort(ratio)[-1], max(np.sort(ratio)[-2], 0)
    margins.append(float((best - second) / best))
    return int(np.argmax(ratio))


class Window:
    """The repetition rule: ten main tokens of decode calls, zeros at first."""

    def __init__(self, config):
        self.last, self.c = [0] * 10, config

    def choose(self, first, fallback, prefill):
        if prefill:
            return first
        semantic = self.c["semantic_begin_id"] <= first <= self.c["semantic_end_id"]
        chosen = fallback if semantic and first in self.last else first
        self.last = self.last[1:] + [chosen]
        return chosen


def generate(model, case, prompt, forced=None):
    """Taps and frames of one run. forced: frames to feed in place of what would be drawn."""
    c, s = model.c, case["sampling"]
    noise, window, taps, frames = Noise(s["seed"]), Window(c), Taps(), []
    margins = []
    limit = s["max_new_tokens"] or c["max_seq_len"]
    limit = len(forced) if forced is not None else min(limit, c["max_seq_len"] - len(prompt))
    bias = np.full(c["vocab_size"], -np.inf)
    bias[c["semantic_begin_id"] : c["semantic_end_id"] + 1] = 0
    bias[case["im_end"]] = 0
    model.slow_stack.rewind()
    feed = prompt
    while len(frames) < limit:
        logits, hidden = model.slow(feed, taps)
        if forced is None:
            first = draw(logits + bias, s, noise, margins)
            fallback = draw(logits + bias, s, noise, [], 1.0, 0.9)
            token = window.choose(first, fallback, not frames)
        else:
            token = forced[len(frames)][0]
        model.fast(0, hidden, taps)
        frame = [token, int(np.clip(token - c["semantic_begin_id"], 0, c["codebook_size"] - 1))]
        for book in range(1, c["num_codebooks"]):
            logits = model.fast(book, model.fast_embed[frame[-1]], taps)
            taps.put("fast.logits", logits[None])
            frame.append(draw(logits, s, noise, margins) if forced is None else forced[len(frames)][book + 1])
        frames.append(frame)
        feed = [frame]
        if len(frames) > 1 and token == case["im_end"] and forced is None:
            break
    return collect(taps, prompt, frames, c["num_codebooks"]), min(margins, default=None)


def collect(taps, prompt, frames, n_book):
    out = {}
    for name, rows in taps.items():
        x = np.concatenate(rows)
        if name.startswith("fast."):
            x = x.reshape(len(frames), n_book - (name == "fast.logits"), *x.shape[1:])
        out[name] = x
    out["prompt"], out["frames"] = np.array(prompt), np.array(frames)
    return out


def worst_of(mine, stored):
    """Largest difference over largest magnitude, per stored tensor; (name, figure) of the worst."""
    worst = ("", 0.0)
    for name, ref in stored.items():
        x = mine[name]
        if x.shape != ref.shape:
            return name, float("inf")
        err = float(np.max(np.abs(x - ref.astype(np.float64)))) / float(np.max(np.abs(ref)) or 1)
        if np.issubdtype(ref.dtype, np.integer) and err:
            err = float("inf")
        if not err <= worst[1]:
            worst = (name, err)
    return worst


def relative(x, ref):
    ref = np.asarray(ref)
    return float(np.max(np.abs(x - ref)) / np.max(np.abs(ref)))


def runs(cases):
    """Every run of golden-lm.json; its matrices are [row][column]."""
    good = True
    for case in cases:
        model, prompt = Model(case["config"]), np.array(case["prompt"]).T.tolist()
        logits, hidden = model.slow(prompt, Taps())
        model.fast(0, hidden, Taps())
        fast = model.fast(1, model.fast_embed[7], Taps())
        keys = ("logits_last", "hidden_last", "fast_logits_pos1_code7")
        err = max(relative(x, case[key]) for x, key in zip((logits, hidden, fast), keys))
        good = good and err <= 1e-6
        for i, run in enumerate(case["runs"], 1):
            out, margin = generate(model, {"sampling": run, "im_end": case["im_end"]}, prompt)
            same = np.array_equal(out["frames"].T, run["frames"])
            good = good and same
            print(
                f"run {case['case']} {i}: {len(out['frames'])} frames "
                f"{'identical' if same else 'DIFFER'}, smallest margin {margin:.1e}"
            )
        print(f"case {case['case']}: logits and hidden state within {err:.1e} of the largest")
    return 0 if good else 1


def emulate(case, stored, path):
    """A run in emulated FP16 to a file, and its errors per tap against the same run in float64."""
    out = []
    for store in (whole, half):
        model = Model(case["config"], case.get("rope_table", "bf16"), store)
        out.append(generate(model, case, stored["prompt"].tolist(), stored["frames"].tolist())[0])
    meta = {"format": "kvref-trace-1", "case": case["case"], "program": "oracle.py half", "stop": "forced"}
    formula.write_safetensors(path, out[1], meta)
    worst = {}
    for name, ref in out[0].items():
        if not np.issubdtype(ref.dtype, np.integer):
            tap = ".".join(part for part in name.split(".") if part[0] != "L")
            worst[tap] = max(worst.get(tap, 0), relative(out[1][name], ref))
    for tap, err in sorted(worst.items()):
        print(f"{case['case']} {tap} {err:.3e}")
    return 0


N_ARG = {"check": 4, "free": 4, "make": 4, "runs": 3, "diff": 4, "half": 5}


def main(argv):
    if len(argv) != N_ARG.get("".join(argv[1:2])):
        print(__doc__, file=sys.stderr)
        return 2
    if argv[1] == "diff":
        (old, _), (new, _) = map(formula.read_safetensors, argv[2:])
        name, err = worst_of(new, old)
        print(f"{argv[3]}: {len(new)} tensors, worst {err:.1e} of the largest in {name or 'none'}")
        return 0 if list(old) == list(new) and err <= 1e-6 else 1
    with open(argv[2], encoding="utf-8") as f:
        case = json.load(f)
    if argv[1] == "runs":
        return runs(case)
    if argv[1] == "half":
        return emulate(case, formula.read_safetensors(argv[3])[0], argv[4])
    model = Model(case["config"], case.get("rope_table", "bf16"))
    if argv[1] == "make":
        tensors, margin = generate(model, case, case["prompt"])
        formula.write_safetensors(argv[3], tensors, {"format": "kvref-trace-1", "case": case["case"]})
        print(f"case {case['case']}: {len(tensors['frames'])} frames, smallest margin {margin:.2e}")
        return 0
    stored, _ = formula.read_safetensors(argv[3])
    forced = stored["frames"].tolist() if argv[1] == "check" else None
    mine, _ = generate(model, case, stored["prompt"].tolist(), forced)
    name, err = worst_of(mine, stored)
    print(f"case {case['case']} {argv[1]}: {len(stored)} tensors, worst {err:.2e} of the largest in {name}")
    return 0 if err <= 1e-5 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
