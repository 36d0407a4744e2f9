#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The program being replaced, as plain PyTorch operations on the CPU in float32: two slow layers
of true width, capacity 32768, one decode step after a prompt of 234. Both forms of attention:
full capacity (expand K and V to 32 heads, mask, softmax over all positions) and active prefix
(slice first). Prints a Markdown table; without torch a message, and exit status 0.

usage: tools/bench_pytorch.py [--threads N] [--steps N] [--capacity N] [--prompt N]"""
import argparse
import statistics
import sys
import time

try:
    import torch
except ImportError:
    print("skipped: this Python has no torch (python3 -m pip install torch, or KVREF_TORCH_PYTHON for tools/measure)")
    sys.exit(0)

D, H, G, E, F, LAYERS = 2560, 32, 8, 128, 9728, 2
EPS, BASE = 1e-6, 1e6


def norm(x, w):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + EPS) * w


def rotate(x, table):
    """Neighbours of x [T, head, E] are a pair; table [T, E/2, 2]."""
    pair = x.reshape(*x.shape[:-1], -1, 2)
    c, s = table[:, None, :, 0], table[:, None, :, 1]
    first, second = pair[..., 0], pair[..., 1]
    return torch.stack((first * c - second * s, second * c + first * s), -1).reshape(x.shape)


class Layer:
    def __init__(self, capacity, generator):
        def weight(*shape):
            return torch.randn(*shape, generator=generator) * 0.02

        self.norm1, self.norm2 = torch.ones(D), torch.ones(D)
        self.q_norm, self.k_norm = torch.ones(E), torch.ones(E)
        self.qkv, self.out = weight((H + 2 * G) * E, D), weight(D, H * E)
        self.gate, self.up, self.down = weight(F, D), weight(F, D), weight(D, F)
        self.k, self.v = torch.zeros(G, capacity, E), torch.zeros(G, capacity, E)

    def step(self, x, past, table, mask):
        """x [T, D] at positions past..past+T-1. mask [T, capacity]: full; None: prefix."""
        n = x.shape[0]
        q, k, v = (norm(x, self.norm1) @ self.qkv.T).split((H * E, G * E, G * E), -1)
        q = rotate(norm(q.view(n, H, E), self.q_norm), table)
        k = rotate(norm(k.view(n, G, E), self.k_norm), table)
        self.k[:, past : past + n] = k.transpose(0, 1)
        self.v[:, past : past + n] = v.view(n, G, E).transpose(0, 1)
        live = self.k.shape[1] if mask is not None else past + n
        if mask is None:
            mask = torch.ones(n, live, dtype=torch.bool).tril(past)
        keys = self.k[:, :live].repeat_interleave(H // G, 0)
        values = self.v[:, :live].repeat_interleave(H // G, 0)
        score = q.transpose(0, 1) @ keys.transpose(1, 2) / E**0.5
        weight = torch.softmax(score.masked_fill(~mask, float("-inf")), -1)
        x = x + (weight @ values).transpose(0, 1).reshape(n, H * E) @ self.out.T
        y = norm(x, self.norm2)
        return x + (torch.nn.functional.silu(y @ self.gate.T) * (y @ self.up.T)) @ self.down.T


def tables(capacity):
    angle = torch.outer(torch.arange(capacity).float(), 1.0 / BASE ** (torch.arange(0, E, 2).float() / E))
    return torch.stack((angle.cos(), angle.sin()), -1).bfloat16().float()


def run(layers, x, past, table, capacity, full):
    n = x.shape[0]
    mask = None
    if full:
        mask = torch.arange(capacity)[None, :] <= torch.arange(past, past + n)[:, None]
    for layer in layers:
        x = layer.step(x, past, table[past : past + n], mask)
    return x


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("threads", 2), ("steps", 5), ("capacity", 32768), ("prompt", 234)):
        parser.add_argument("--" + name, type=int, default=value)
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    generator = torch.Generator().manual_seed(42)
    layers = [Layer(a.capacity, generator) for _ in range(LAYERS)]
    table = tables(a.capacity)
    prompt = torch.randn(a.prompt, D, generator=generator)
    run(layers, prompt, 0, table, a.capacity, False)
    times, last = {"full": [], "prefix": []}, {}
    for i in range(a.steps + 1):  # step 0 warms up; both forms make the same position in turns
        x = torch.randn(1, D, generator=generator)
        for form in times:
            start = time.perf_counter()
            last[form] = run(layers, x, a.prompt + i, table, a.capacity, form == "full")
            times[form].append(time.perf_counter() - start)
        error = ((last["full"] - last["prefix"]).abs().max() / last["prefix"].abs().max()).item()
        if not error <= 1e-5:
            sys.exit(f"bench_pytorch: full and prefix differ by {error}")
    median = {form: statistics.median(t[1:]) for form, t in times.items()}
    print(f"torch {torch.__version__}, {a.threads} threads, capacity {a.capacity}, prompt {a.prompt}, "
          f"{LAYERS} layers, float32, median of {a.steps} steps\n")
    print("| full capacity | active prefix | ratio |\n|---|---|---|")
    print(f"| {1e3 * median['full']:.1f} ms | {1e3 * median['prefix']:.1f} ms | {median['full'] / median['prefix']:.2f} |")


if __name__ == "__main__":
    main()
