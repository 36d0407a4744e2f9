#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes small.json, a byte-level BPE tokenizer, and small-vectors.json, texts with their ids.

The ids come from the slow encoder below, which shares nothing with base/: it searches the split
pattern with Python's re in a text where every character is replaced by a stand-in of its class,
and merges by looking at every pair again after every merge.

  make_small.py [FOLDER]              write both files, beside this script unless told
  make_small.py --check TOK VECTORS   try the slow encoder on another tokenizer and its vectors
"""
import collections
import json
import os
import random
import re
import sys
import unicodedata

SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| "
         r"?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
# The same for stand-ins: a letter of a short form in lower case, A for any other letter, 1 for
# a number, space, CR, LF and the apostrophe themselves, tab for other white space, - for the rest.
STAND_IN = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d|[^\r\n1a-zA]?[a-zA]+|1| "
                      r"?[^\s1a-zA]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
WHITE = set([*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029,
             0x202F, 0x205F, 0x3000])

TRAINING = """the first voice speaks and the second voice answers. convert the provided text to speech
reference to the following: Text: Speech: system user assistant speaker and then there were other
words that the reader would hear when it was their turn to listen; she says that he's here, we're
there, I'll go, they've been, don't. Good morning. Good evening. Hello world, hello there!

The whole is more than the sum of its parts.\n\n\nAnd so on ...  --  (see above) [laughs] <|speaker:0|>
aaaaaaaaaaaaaaaa aaaaaaaa bbbb        four    two  \t\ttabs\t\n \n caf\u00e9 na\u00efve \u00fcber
\u4f60\u597d\u4e16\u754c \u4f60\u597d \u3053\u3093\u306b\u3061\u306f \u043f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440 \u0645\u0631\u062d\u0628\u0627
\U0001f600\U0001f600 \U0001f469\u200d\U0001f4bb "quoted" 'single' http://a.b/c?d=e&f=g x=y+z; {a:1} #tag @at 100% $5
""" * 2
N_MERGE = 330


def byte_alphabet():
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    other = [b for b in range(256) if b not in plain]
    return {**{b: chr(b) for b in plain}, **{b: chr(256 + i) for i, b in enumerate(other)}}


ALPHABET = byte_alphabet()


def stand_in(c):
    if ord(c) in WHITE:
        return c if c in " \r\n" else "\t"
    kind = unicodedata.category(c)[0]
    if kind == "L":
        folded = "s" if c == "\u017f" else c.lower()
        return folded if folded in set("strevmld") else "A"
    return "1" if kind == "N" else c if c == "'" else "-"


def pieces(text):
    classes = "".join(map(stand_in, text))
    at = 0
    for m in STAND_IN.finditer(classes):
        assert m.start() == at and m.end() > at
        yield text[m.start():m.end()]
        at = m.end()
    assert at == len(text)


def symbols(piece):
    return [ALPHABET[b] for b in piece.encode()]


def merge_slowly(parts, rank):
    while True:
        best = min(((rank.get(pair, len(rank)), i) for i, pair in enumerate(zip(parts, parts[1:]))),
                   default=(len(rank), 0))
        if best[0] == len(rank):
            return parts
        i = best[1]
        parts = parts[:i] + [parts[i] + parts[i + 1]] + parts[i + 2:]


class Encoder:
    def __init__(self, tokenizer):
        model = tokenizer["model"]
        self.vocab = model["vocab"]
        pairs = [m.split(" ") if isinstance(m, str) else m for m in model["merges"]]
        self.rank = {tuple(p): i for i, p in enumerate(pairs)}
        self.added = {t["content"]: t["id"] for t in tokenizer["added_tokens"]}
        self.sizes = sorted({len(c) for c in self.added}, reverse=True)

    def plain(self, text):
        text = unicodedata.normalize("NFC", text)
        return [self.vocab[s] for p in pieces(text) for s in merge_slowly(symbols(p), self.rank)]

    def encode(self, text):
        ids, at, start = [], 0, 0
        while at < len(text):
            size = next((n for n in self.sizes if text[at:at + n] in self.added
                         and at + n <= len(text)), 0)
            if not size:
                at += 1
                continue
            ids += self.plain(text[start:at]) + [self.added[text[at:at + size]]]
            at = start = at + size
        return ids + self.plain(text[start:])


def train():
    words = collections.Counter(pieces(unicodedata.normalize("NFC", TRAINING)))
    split = {w: symbols(w) for w in words}
    merges = []
    for _ in range(N_MERGE):
        count = collections.Counter()
        for w, parts in split.items():
            for pair in zip(parts, parts[1:]):
                count[pair] += words[w]
        pair = min(count, key=lambda p: (-count[p], p))
        merges.append(pair)
        for w, parts in split.items():
            split[w] = merge_slowly(parts, {pair: 0})
    # Never reached inside a piece: they would show a split that was missed.
    return merges + [("1", "2"), ("\u0120", "1"), ("\u010a", "x"), ("\u0120\u0120", "x")]


def added_tokens(first):
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>", "<|text|>", "<|voice|>",
             "<think>", "</think>", "<tool", "<tool_call>", "<|a", "<|a|>", "\u2039\u00e9\u203a",
             "e\u0301", "  "]
    names += [f"<|semantic:{i}|>" for i in range(32)]
    return [{"id": first + i, "content": n, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": n.startswith("<|")} for i, n in enumerate(names)]


def small_tokenizer():
    merges = train()
    names = [ALPHABET[b] for b in sorted(ALPHABET, key=lambda b: ALPHABET[b])]
    names += [a + b for a, b in merges]
    vocab = {n: i for i, n in enumerate(dict.fromkeys(names))}
    half = len(merges) // 2
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": added_tokens(600),
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": SPLIT}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False,
             "use_regex": False}]},
        "post_processor": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False,
                           "use_regex": False},
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False,
                    "use_regex": False},
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "continuing_subword_prefix": "", "end_of_word_suffix": "", "fuse_unk": False,
                  "byte_fallback": False, "ignore_merges": False, "vocab": vocab,
                  "merges": [f"{a} {b}" for a, b in merges[:half]] + [list(m) for m in merges[half:]]},
    }


FIXED = [
    "", "a", "Hee", ".", " ", "  ", "   ", "0", "1", "12", "123", "1234", "12345", "0 12 345 6789",
    "\t", "\t\ttabs\t and\tmore\t", "trailing  ", "trailing \t \n ", "one\r\ntwo\r\n\r\nthree\r", "\n\n \n x",
    "\u00bd", "3\u00bd cups", "\u2155\u2460\u0663\u096a", "e\u0301", "\u00e9", "cafe\u0301 caf\u00e9", "\u212b",
    "\u1e9b\u0323", "a\u0323\u0301 a\u0301\u0323", "q\u0307\u0323q\u0323\u0307", "\u0301alone \u0301x",
    "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7", "\U0001f469\u200d\U0001f4bb\U0001f469\U0001f3fd\u200d\U0001f680",
    "\U0001f600!", "\u4f60\u597d\uff0c\u4e16\u754c\u3002", "\u3053\u3093\u306b\u3061\u306f\u4e16\u754c",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645", "\u05e9\u05c1\u05bc",
    "\ud55c\uad6d\uc5b4 \u1112\u1161\u11ab", "a\u2029b \u2028 c", "nul\0inside\0", "\0", "a" * 5000,
    "I'll we'RE DON'T it'S they'Ve 'm 'D 'x '", "'\u017f '\u017fa", "x'\u212a", "\u180e a\u180e", "\u001c\u001d x\u001f",
    "\u200b zero\u200bwidth", "\ufeffbom", "\u00a0nbsp\u00a0\u00a0x", "\u3000\u3000full", "\u0085next\u0085",
    "<|im_end|>", "<|im_start|>user\nhi<|im_end|>\n", "<|semantic:5|>", "a<|semantic:31|>b",
    "<|semantic:32|>", "<|semantic:05|>", "<|speaker:0|>Hello world.", "<|speaker:12|> there\n",
    "<tool_call", "<tool_call>", "<tool>", "<tool<tool_call>", "<|a|", "<|a|>", "<|a<|a|>", "<|", "<think></think>",
    "<|im_end|", "<|im_end", "<|im_end|>>", "\u2039\u00e9\u203a", "\u2039e\u0301\u203a", "  two  spaces  ",
    "e<|voice|>\u0301", "convert the provided text to speech", "\n\nSpeech:\n",
    "convert the provided text to speech reference to the following:\n\nText:\n",
    "[angry] stop! (laughs)", "x=y+z; {a:1} #tag @at 100% $5", "\U0001f600" * 50, "\u0301" * 40, "'" * 64,
    "\u0301\u0323" * 30, " " * 100, "\u0378\U000e0fff\uffff", "\U0010ffff\ue000",
    " ".join(str(i) for i in range(60)),
]


def random_texts(n):
    draw = random.Random(5)
    pool = (list("  aabest'lv re\n\r\t.,!?-<|>0159") + ["the", " and", "Hello", "<|im_end|>", "<|semantic:3|>",
            "<tool", "_call>", "'S", "\u00e9", "e\u0301", "\u0301", "\u0323", "\u00bd", "\u4f60\u597d", "\u3000",
            "\u00a0", "\u2029", "\U0001f600", "\u200d", "\u0645", "\ud55c", "\u1161", "\u11ab", "\u017f", "\0"])
    return ["".join(draw.choices(pool, k=draw.randint(1, 24))) for _ in range(n)]


def check(tok_path, vectors_path):
    with open(tok_path, encoding="utf-8") as f:
        encoder = Encoder(json.load(f))
    with open(vectors_path, encoding="utf-8") as f:
        vectors = json.load(f)
    bad = [v["text"] for v in vectors if encoder.encode(v["text"]) != v["ids"]]
    print(f"{len(vectors) - len(bad)} of {len(vectors)} agree", *map(ascii, bad[:5]), sep="\n")
    return 1 if bad else 0


def dump(path, value):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, ensure_ascii=True, separators=(",", ":"))
        f.write("\n")


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--check":
        return check(*sys.argv[2:])
    here = sys.argv[1] if len(sys.argv) == 2 else os.path.dirname(os.path.abspath(__file__))
    tokenizer = small_tokenizer()
    encoder = Encoder(tokenizer)
    vectors = []
    for text in FIXED + random_texts(150):
        vectors.append({"text": text, "ids": encoder.encode(text), "plain": encoder.plain(text)})
        if vectors[-1]["plain"] == vectors[-1]["ids"]:
            del vectors[-1]["plain"]
    dump(os.path.join(here, "small.json"), tokenizer)
    dump(os.path.join(here, "small-vectors.json"), vectors)
    return 0


if __name__ == "__main__":
    sys.exit(main())
