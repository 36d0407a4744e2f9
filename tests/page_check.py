# SPDX-License-Identifier: MIT
"""Whether a page is self-contained and can be read by everybody: page_check.py PAGE [TEXT...]

Nothing is fetched or executed, tags nest, tables have captions and headings with a scope, ids are
unique, text contrasts with its ground by 4.5 in the light and the dark colours. Every TEXT must
stand in the page as text."""

import html.parser
import re
import sys

VOID = {"meta", "br", "img", "link", "input", "hr"}
GROUNDS = [("fg", "bg"), ("soft", "bg"), ("badfg", "bad"), ("good", "bg"), ("bad", "bg")]
GROUNDS += [("fg", f"h{i}") for i in range(5)]


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen, self.ids, self.text, self.bad = [], [], [], "", []
        self.tables, self.captions, self.refs = 0, 0, []

    def handle_starttag(self, tag, attrs):
        a = dict(attrs)
        self.seen.append(tag)
        if tag in ("script", "link", "img", "iframe", "object", "base", "form"):
            self.bad.append(f"<{tag}> in a page that fetches and executes nothing")
        for key in a:
            if key.startswith("on") or key in ("src", "href", "style"):
                self.bad.append(f"attribute {key} of <{tag}>")
        if "id" in a:
            self.ids.append(a["id"])
        self.refs += a.get("aria-labelledby", "").split()
        if tag == "th" and a.get("scope") not in ("col", "row"):
            self.bad.append("<th> without a scope")
        if tag == "html" and not a.get("lang"):
            self.bad.append("<html> without a language")
        if a.get("class") == "wide" and (a.get("role"), a.get("tabindex")) != ("region", "0"):
            self.bad.append("a region that scrolls and cannot be reached by keyboard")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.bad.append(f"</{tag}> closes nothing")

    def handle_data(self, data):
        if "style" not in self.open:
            self.text += data


def luminance(colour):
    if len(colour) == 4:
        colour = "#" + "".join(c + c for c in colour[1:])
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrasts(css):
    """One (scheme, pair, figure) for each pair of colours; the dark ones come second."""
    schemes = re.findall(r":root\{([^}]*--bg[^}]*)\}", css)
    for scheme in schemes:
        value = dict(re.findall(r"--(\w+):(#\w+)", scheme))
        for text, ground in GROUNDS:
            pair = sorted((luminance(value[text]), luminance(value[ground])))
            yield len(schemes), f"{text} on {ground}", (pair[1] + 0.05) / (pair[0] + 0.05)


def main(path, wanted):
    with open(path, encoding="utf-8") as f:
        source = f.read()
    page = Page()
    page.feed(source)
    page.close()
    bad = page.bad + [f"<{t}> is never closed" for t in page.open]
    for tag in ("title", "main", "h1", "caption"):
        if tag not in page.seen:
            bad.append(f"no <{tag}>")
    if len(set(page.ids)) != len(page.ids) or not set(page.refs) <= set(page.ids):
        bad.append("ids that are not unique, or not there")
    figures = list(contrasts(source))
    if not figures or figures[0][0] != 2:
        bad.append("no light and dark colours")
    bad += [f"{pair}: contrast {c:.2f}" for _, pair, c in figures if not c >= 4.5]
    if re.search(r"url\(|@import|https?:", source):
        bad.append("an address")
    text = " ".join(page.text.split())
    bad += [f"no text {w!r}" for w in wanted if w not in text]
    for line in bad:
        print(line)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
