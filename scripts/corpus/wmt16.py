#!/usr/bin/env python3
"""Makes the WMT16 English-German corpus of the official archives that fetch_corpus.sh downloaded.

Training: Europarl v7, Common Crawl, News Commentary v11. Validation: newstest2013. Test: newstest2014 in full (3,003 lines), which
papers quote, and newstest2016. Only the training text is cleaned: scores of references that were changed compare with nobody's.
Writes {train,valid,test,newstest2016}.{en,de} and report.json. Archives are read as streams: nothing is unpacked to disk.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import sys
import tarfile
from collections.abc import Iterator
from xml.sax import saxutils

import parallel

#: (archive, basename of the member without its language) of each training set.
TRAINING = [
    ("training-parallel-europarl-v7.tgz", "europarl-v7.de-en."),
    ("training-parallel-commoncrawl.tgz", "commoncrawl.de-en."),
    ("training-parallel-nc-v11.tgz", "news-commentary-v11.de-en."),
]
#: Of each held-out set: (archive, source, target).
HELD_OUT = {
    "valid": ("dev.tgz", "newstest2013.en", "newstest2013.de"),
    "test": ("test-full.tgz", "newstest2014-deen-src.en.sgm", "newstest2014-deen-ref.de.sgm"),
    "newstest2016": ("test.tgz", "newstest2016-ende-src.en.sgm", "newstest2016-ende-ref.de.sgm"),
}
_SEGMENT = re.compile(r"<seg\b[^>]*>(.*?)</seg>", re.DOTALL)


def members(archive: pathlib.Path, names: tuple[str, str]) -> list[str]:
    """The texts of two members, found by basename, of a .tgz."""
    texts: dict[str, str] = {}
    try:
        with tarfile.open(archive, "r|*") as tar:
            for member in tar:
                name = pathlib.PurePath(member.name).name
                if name in names and member.isfile() and (stream := tar.extractfile(member)):
                    texts[name] = stream.read().decode("utf-8")
                if len(texts) == len(names):
                    break
    except (OSError, EOFError, tarfile.TarError, UnicodeDecodeError) as error:
        raise parallel.CorpusError(f"{archive}: {error}") from error
    for name in names:
        if name not in texts:
            raise parallel.CorpusError(f"{archive}: no member {name}; expected {names[0]} and {names[1]}")
    return [texts[name] for name in names]


def lines(text: str, name: str) -> list[str]:
    """The sentences of a plain file, or of an SGML one with <seg> elements, as they stand there."""
    if name.endswith(".sgm"):
        # The four entities that BLEU's tokeniser 13a decodes, so that scores are those of sacreBLEU.
        return [saxutils.unescape(segment, {"&quot;": '"'}).replace("\n", " ") for segment in _SEGMENT.findall(text)]
    return text.removesuffix("\n").split("\n")


def pairs_of(archive: pathlib.Path, names: tuple[str, str]) -> list[parallel.Pair]:
    """The sentence pairs of two members, which must have the same number of lines."""
    sides = [lines(text, name) for text, name in zip(members(archive, names), names)]
    if len(sides[0]) != len(sides[1]):
        raise parallel.CorpusError(
            f"{archive}: {names[0]} has {len(sides[0])} sentences, {names[1]} has {len(sides[1])}: " "expected as many"
        )
    return list(zip(*sides))


def training_pairs(archives: pathlib.Path) -> Iterator[parallel.Pair]:
    """The pairs of all training sets; one archive's text is in memory at a time."""
    for archive, stem in TRAINING:
        yield from pairs_of(archives / archive, (stem + "en", stem + "de"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archives", type=pathlib.Path, help="folder of the downloaded archives")
    parser.add_argument("output", type=pathlib.Path, help="folder for the corpus")
    arguments = parser.parse_args()
    try:
        held_out_sets = {
            name: pairs_of(arguments.archives / archive, (source, target))
            for name, (archive, source, target) in HELD_OUT.items()
        }
        held_out = {
            parallel.sentence_key(parallel.normalise(target)) for pairs in held_out_sets.values() for _, target in pairs
        }
        kept, dropped = parallel.clean(training_pairs(arguments.archives), parallel.Limits(min_words=1))
        train = [pair for pair in kept if parallel.sentence_key(pair[1]) not in held_out]
        dropped["held_out"] = len(kept) - len(train)
        report = {
            "corpus": "WMT16 English-German",
            "sentence_pairs": len(kept) + dropped.total() - dropped["held_out"],
            "dropped": dict(sorted(dropped.items())),
        }
        parts = {"train": train, **held_out_sets}
        print(json.dumps(parallel.write_corpus(parts, ("en", "de"), arguments.output, report), ensure_ascii=False))
    except parallel.CorpusError as error:
        print(f"wmt16.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
