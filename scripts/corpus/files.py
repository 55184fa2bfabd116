#!/usr/bin/env python3
"""Makes a corpus with held-out parts of any two text files, plain or compressed, line N of one translating line N of the other.

Writes {train,valid,test}.{src,tgt} and report.json, which names the normalization for `nmt prepare` and the tokenizer of BLEU that
suit the scripts of the text, and its number of distinct characters.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys

import parallel


def held_out_default(pairs: int) -> int:
    """A twentieth of a small corpus, at most 1,000 pairs."""
    return max(1, min(1000, pairs // 20))


def advice(pairs: list[parallel.Pair]) -> dict[str, object]:
    """Options that suit the scripts of the pairs, a side by what most of its lines are written in.

    Without spaces, BLEU over words of tokenizer 13a compares whole sentences; and NFKC would turn full-width punctuation of the target
    into other characters, which no translation then has.
    """
    unspaced = [2 * sum(map(parallel.has_words_without_spaces, side)) > len(side) for side in zip(*pairs)]
    return {
        "tokenizer": "char" if unspaced[1] else "13a",
        "normalization": "identity" if any(unspaced) else "nmt_nfkc",
        "characters": len({c for pair in pairs for side in pair for c in side}),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("target", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path, help="folder for the corpus")
    parser.add_argument("--valid", type=int, help="pairs held out for validation (default: 5 %%, at most 1000)")
    parser.add_argument("--test", type=int, help="pairs held out for testing (default: 5 %%, at most 1000)")
    arguments = parser.parse_args()
    try:
        pairs = parallel.read_pairs(arguments.source, arguments.target)
        kept, dropped = parallel.clean(pairs, parallel.Limits(min_words=1))
        why = ", ".join(f"{reason} {count:,}" for reason, count in sorted(dropped.items()))
        if not kept:
            raise parallel.CorpusError(f"none of {len(pairs):,} pairs is left: {why or 'the files are empty'}")
        if dropped.total() * 10 > len(pairs):
            print(f"files.py: warning: {dropped.total():,} of {len(pairs):,} pairs dropped: {why}", file=sys.stderr)
        size = held_out_default(len(kept))
        valid, test = (size if given is None else given for given in (arguments.valid, arguments.test))
        parts = parallel.split(kept, valid, test)
        report = {
            "corpus": f"{arguments.source.name}, {arguments.target.name}",
            "sentence_pairs": len(pairs),
            "kept": len(kept),
            "dropped": dict(sorted(dropped.items())),
            **advice(kept),
        }
        print(json.dumps(parallel.write_corpus(parts, ("src", "tgt"), arguments.output, report), ensure_ascii=False))
    except parallel.CorpusError as error:
        print(f"files.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
