#!/usr/bin/env python3
"""Makes an English-German corpus of LibreOffice's help pages (MPL-2.0), as Debian packages them.

Both languages have the same pages, and a paragraph has the same id in both, so pairs need no aligner.
Reads ROOT/usr/share/libreoffice/help/{en-US,de}/text, writes {train,valid,test}.{en,de} and report.json.
"""

from __future__ import annotations

import argparse
import html.parser
import json
import pathlib
import re
import sys

import parallel

HELP = pathlib.PurePath("usr/share/libreoffice/help")
HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
#: Their text is no prose: it would put program code or styles into a sentence.
OPAQUE = {"script", "style", "pre"}
#: An end of sentence, with quotes and brackets that close after it, before something that may start one.
_BOUNDARY = re.compile(r"(?<=[.!?])([\"'”“«»)\]]*) +(?=[\"'„“»«(\[]*[A-ZÄÖÜ0-9])")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:e\.g|i\.e|etc|vs|z\. ?B|d\. ?h|u\. ?a|bzw|ca|Nr|No|Abb|Fig|usw|ggf|evtl|inkl|max|min|Std|Mr|Dr|\w|\d+)\.$"
)


class Paragraphs(html.parser.HTMLParser):
    """Collects the text of every <p id=…> and <h1..h6 id=…> of a page into `texts`, by id."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: dict[str, str] = {}
        self._tag = ""
        self._id = ""
        self._parts: list[str] = []
        self._opaque = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in OPAQUE:
            self._opaque += 1
        elif tag == "p" or tag in HEADINGS:
            self._finish()
            self._id = dict(attrs).get("id") or ""
            self._tag = tag if self._id else ""
        elif tag == "br":
            self._parts.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag in OPAQUE:
            self._opaque = max(0, self._opaque - 1)
        elif tag == self._tag:
            self._finish()

    def handle_data(self, data: str) -> None:
        if self._tag and not self._opaque:
            self._parts.append(data)

    def close(self) -> None:
        super().close()
        self._finish()

    def _finish(self) -> None:
        if self._tag:
            # An id that occurs twice is ambiguous across languages only if its texts differ: keep the first.
            self.texts.setdefault(self._id, parallel.normalise("".join(self._parts)))
        self._tag, self._id, self._parts = "", "", []


def paragraphs(page: str) -> dict[str, str]:
    """Text by id of one HTML page, entities decoded and spaces normalised."""
    parser = Paragraphs()
    parser.feed(page)
    parser.close()
    return parser.texts


def sentences(text: str) -> list[str]:
    """Splits at ., ! and ? before a capital or a digit, but not after abbreviations, single letters and numbers."""
    out: list[str] = []
    start = 0
    for match in _BOUNDARY.finditer(text):
        if not _ABBREVIATION.search(text[start : match.start()]):
            out.append(text[start : match.end(1)])
            start = match.end()
    out.append(text[start:])
    return [sentence for sentence in out if sentence]


def split_pair(source: str, target: str) -> list[parallel.Pair]:
    """Sentence by sentence where both sides have equally many, the whole paragraph elsewhere."""
    sides = sentences(source), sentences(target)
    return list(zip(*sides)) if len(sides[0]) == len(sides[1]) else [(source, target)]


def page_pairs(root: pathlib.Path) -> tuple[list[parallel.Pair], dict[str, int]]:
    """All sentence pairs of an unpacked tree in the order of its pages, and counts of the files and texts read."""
    english, german = (root / HELP / language / "text" for language in ("en-US", "de"))
    pages = sorted(
        path.relative_to(english) for path in english.rglob("*.html") if (german / path.relative_to(english)).is_file()
    )
    if not pages:
        raise parallel.CorpusError(
            f"{english} and {german} have no page in common: expected the two unpacked help packages"
        )
    pairs: list[parallel.Pair] = []
    paragraph_pairs = 0
    for page in pages:
        sides = [paragraphs((folder / page).read_text(encoding="utf-8")) for folder in (english, german)]
        for key, source in sides[0].items():
            target = sides[1].get(key, "")
            if source and target and source != target:
                paragraph_pairs += 1
                pairs.extend(split_pair(source, target))
    return pairs, {"pages": len(pages), "paragraph_pairs": paragraph_pairs, "sentence_pairs": len(pairs)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=pathlib.Path, help="folder into which both packages were unpacked")
    parser.add_argument("output", type=pathlib.Path, help="folder for the corpus")
    parser.add_argument("--valid", type=int, default=1000, help="pairs held out for validation (default %(default)s)")
    parser.add_argument("--test", type=int, default=1000, help="pairs held out for testing (default %(default)s)")
    arguments = parser.parse_args()
    try:
        pairs, counts = page_pairs(arguments.root)
        kept, dropped = parallel.clean(pairs, parallel.Limits())
        parts = parallel.split(kept, arguments.valid, arguments.test)
        report = {
            "corpus": "LibreOffice help (MPL-2.0)",
            **counts,
            "kept": len(kept),
            "dropped": dict(sorted(dropped.items())),
        }
        print(json.dumps(parallel.write_corpus(parts, ("en", "de"), arguments.output, report), ensure_ascii=False))
    except parallel.CorpusError as error:
        print(f"libreoffice.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
