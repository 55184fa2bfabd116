"""Sentence pairs: cleaning, filters, and a split without leakage. Shared by the corpus scripts."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import json
import os
import pathlib
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterable

Pair = tuple[str, str]

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028\u2029\ufeff\xad]+")


class CorpusError(Exception):
    """An error that the user can act on; its text is the whole message."""


@dataclasses.dataclass
class Limits:
    """Limits for pairs: words per side (inclusive) and source words / target words."""

    min_words: int = 3
    max_words: int = 80
    min_ratio: float = 0.4
    max_ratio: float = 2.5


def normalise(text: str) -> str:
    """NFC, control and invisible characters to spaces, runs of space to one, no space at the ends."""
    return " ".join(_CONTROL.sub(" ", unicodedata.normalize("NFC", text)).split())


def rejection(pair: Pair, limits: Limits) -> str | None:
    """Returns the reason why a normalised pair is dropped, or None if it is kept."""
    source, target = pair
    if not source or not target:
        return "empty"
    if source == target:
        return "identical"
    words = len(source.split()), len(target.split())
    if min(words) < limits.min_words:
        return "too_short"
    if max(words) > limits.max_words:
        return "too_long"
    if not limits.min_ratio <= words[0] / words[1] <= limits.max_ratio:
        return "length_ratio"
    return None


def clean(pairs: Iterable[Pair], limits: Limits) -> tuple[list[Pair], Counter[str]]:
    """The pairs to keep, in order and without duplicates, and the number of dropped pairs by reason."""
    kept: dict[Pair, None] = {}
    dropped: Counter[str] = Counter()
    for raw in pairs:
        pair = normalise(raw[0]), normalise(raw[1])
        reason = rejection(pair, limits) or ("duplicate" if pair in kept else None)
        if reason:
            dropped[reason] += 1
        else:
            kept[pair] = None
    return list(kept), dropped


def sentence_key(text: str) -> str:
    """Returns a key that is equal for sentences that differ only in case and punctuation."""
    return "".join(c for c in text.casefold() if c.isalnum()) or text


def _groups(pairs: list[Pair]) -> list[list[int]]:
    """Indices of pairs that share a sentence on either side, directly or through others."""
    parent = list(range(len(pairs)))

    def find(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    seen: dict[tuple[int, str], int] = {}
    for i, pair in enumerate(pairs):
        for side, text in enumerate(pair):
            first = seen.setdefault((side, sentence_key(text)), i)
            a, b = find(first), find(i)
            parent[max(a, b)] = min(a, b)
    groups: dict[int, list[int]] = {}
    for i in range(len(pairs)):
        groups.setdefault(find(i), []).append(i)
    return list(groups.values())


def split(pairs: list[Pair], valid: int, test: int) -> dict[str, list[Pair]]:
    """Holds out `valid` and `test` pairs of which neither sentence occurs in training, ignoring case and punctuation.

    Deterministic and independent of the order of the input: groups of pairs that share a sentence are ranked by the
    digest of their first source sentence. Each held-out group gives its first pair; its others are left out of training.
    """
    groups = [[pairs[i] for i in sorted(group, key=lambda i: pairs[i])] for group in _groups(pairs)]
    # Groups of many pairs are stock phrases: they stay in training, where nothing is lost by them.
    small = [group for group in groups if len(group) <= 4]
    if len(small) < 2 * (valid + test):
        raise CorpusError(
            f"{len(pairs)} pairs with {len(small)} distinct sentences are too few to hold out "
            f"{valid} + {test} of them; lower --valid and --test"
        )
    small.sort(key=lambda group: hashlib.sha256("\t".join(group[0]).encode()).digest())
    held_out = {pair for group in small[: valid + test] for pair in group}
    return {
        "train": [pair for pair in pairs if pair not in held_out],
        "valid": [group[0] for group in small[:valid]],
        "test": [group[0] for group in small[valid : valid + test]],
    }


def read_lines(path: pathlib.Path) -> list[str]:
    """The lines of a plain or gzipped UTF-8 file, without their line ends. Raises CorpusError naming file and line."""
    try:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise CorpusError(f"{path}: {error}") from error
    lines = data.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    out: list[str] = []
    for number, line in enumerate(lines, 1):
        try:
            out.append(line.decode("utf-8").removesuffix("\r"))
        except UnicodeDecodeError as error:
            raise CorpusError(f"{path}:{number}: not UTF-8 at byte {error.start + 1} of the line") from error
    return out


def read_pairs(source: pathlib.Path, target: pathlib.Path) -> list[Pair]:
    """Line N of one file with line N of the other. Raises CorpusError when they have unequal numbers of lines."""
    sides = read_lines(source), read_lines(target)
    if len(sides[0]) != len(sides[1]):
        raise CorpusError(f"{source} has {len(sides[0])} lines, {target} has {len(sides[1])}: expected as many")
    return list(zip(*sides))


def write_atomically(path: pathlib.Path, text: str) -> None:
    """Writes a temporary file and renames it, so a reader never sees half of the text."""
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(text, encoding="utf-8", newline="\n")
    os.replace(temporary, path)


def write_corpus(
    parts: dict[str, list[Pair]], languages: tuple[str, str], output: pathlib.Path, report: dict[str, object]
) -> dict[str, object]:
    """Writes PART.LANGUAGE for every part and side, and finally report.json, whose presence means that the corpus is complete."""
    output.mkdir(parents=True, exist_ok=True)
    counts: dict[str, object] = {}
    for name, pairs in parts.items():
        counts[name] = {"pairs": len(pairs)}
        for side, language in enumerate(languages):
            text = "".join(pair[side] + "\n" for pair in pairs)
            write_atomically(output / f"{name}.{language}", text)
            counts[name][f"{language}_words"] = len(text.split())  # type: ignore[index]
    report = {**report, "source": languages[0], "target": languages[1], "parts": counts}
    write_atomically(output / "report.json", json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    return report
