"""Sentence pairs: cleaning, filters, and a split without leakage. Shared by the corpus scripts."""

from __future__ import annotations

import bz2
import dataclasses
import gzip
import hashlib
import json
import lzma
import os
import pathlib
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterable

Pair = tuple[str, str]

#: How data begins that is no text.
_NO_TEXT = {
    b"\x28\xb5\x2f\xfd": "zstd data",
    b"PK\x03\x04": "a zip archive",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"\x04\x22\x4d\x18": "lz4 data",
    b"\x1f\x8b": "gzip data inside compressed data",
    b"\xfd7zXZ\0": "xz data inside compressed data",
    b"BZh": "bzip2 data inside compressed data",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
    b"%PDF-": "a PDF document",
}
_MARKUP = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(<(?:srcset|refset|tstset|mteval|\?xml|!doctype|tmx|xliff|doc |html|cesdoc|cesalign|corpus|tei))",
    re.I,
)

#: Control characters and separators of lines, which become spaces.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
#: Characters that nobody sees and that change no letter beside them: soft hyphen, zero-width space, direction marks, byte
#: order mark. (Joiners change Persian and Indic letters, so they stay.)
_INVISIBLE = re.compile(r"[\xad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]+")
#: Unicode's default-ignorable characters that are not of category Cf.
_IGNORABLE = re.compile(r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]+")
#: SentencePiece's mark of a space, and the blank Braille pattern.
_BLANK = re.compile("[\u2581\u2800]")

#: Blocks of scripts that do not separate words by spaces, and what a letter of them counts as, in twelfths of a word: Han and
#: Yi; Kana and Bopomofo; Thai, Lao, Tibetan, Burmese, Khmer and other Tai scripts. As nmt/data/text.h counts, which names the source.
_PARTS = {
    8: re.compile(
        "[\u3005\u3007\u3021-\u3029\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\uf900-\ufaff\U00020000-\U000323af]"
    ),
    4: re.compile("[\u3041-\u30ff\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff\uff66-\uff9f\U0001b000-\U0001b16f]"),
    3: re.compile("[\u0e00-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\ua9e0-\ua9ff\uaa60-\uaadf]"),
}
_PARTS_PER_WORD = 12
_WITHOUT_SPACES = re.compile("|".join(block.pattern for block in _PARTS.values()))
_RUN = re.compile(r"[^\W_]+")


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
    """NFC, without invisible characters; control characters to spaces, runs of space to one, no space at the ends."""
    return " ".join(_CONTROL.sub(" ", _INVISIBLE.sub("", unicodedata.normalize("NFC", text))).split())


def comparable(text: str) -> str:
    """The form in which texts are compared: NFKC, without any character that cannot be seen, single spaces."""
    if text.isascii():
        return normalise(text)
    seen = "".join(c for c in _IGNORABLE.sub("", _BLANK.sub(" ", text)) if unicodedata.category(c) != "Cf")
    return " ".join(_CONTROL.sub(" ", unicodedata.normalize("NFKC", seen)).split())


def has_words_without_spaces(text: str) -> bool:
    """Whether the text has letters of a script that does not separate words by spaces."""
    return not text.isascii() and _WITHOUT_SPACES.search(text) is not None


def word_count(text: str) -> int:
    """Words: separated by spaces, or in scripts without spaces an estimate by the number of letters, rounded up."""
    if not has_words_without_spaces(text):
        return len(text.split())
    words = parts = 0
    for token in text.split():
        here = sum(part * sum(c.isalnum() for c in block.findall(token)) for part, block in _PARTS.items())
        parts += here
        words += len(_RUN.findall(_WITHOUT_SPACES.sub(" ", token))) if here else 1
    return words - -parts // _PARTS_PER_WORD


def rejection(pair: Pair, limits: Limits) -> str | None:
    """Returns the reason why a normalised pair is dropped, or None if it is kept."""
    source, target = (comparable(side) for side in pair)
    if not source or not target:
        return "empty"
    if source == target:
        return "identical"
    words = word_count(source), word_count(target)
    if min(words) < limits.min_words:
        return "too_short"
    if max(words) > limits.max_words:
        return "too_long"
    if not limits.min_ratio <= words[0] / words[1] <= limits.max_ratio:
        return "length_ratio"
    return None


def clean(pairs: Iterable[Pair], limits: Limits) -> tuple[list[Pair], Counter[str]]:
    """The pairs to keep, in order and without duplicates, and the number of dropped pairs by reason."""
    kept: list[Pair] = []
    seen: set[Pair] = set()
    dropped: Counter[str] = Counter()
    for raw in pairs:
        pair = normalise(raw[0]), normalise(raw[1])
        reason = rejection(pair, limits)
        key = comparable(pair[0]), comparable(pair[1])
        if reason is None and key in seen:
            reason = "duplicate"
        if reason:
            dropped[reason] += 1
        else:
            seen.add(key)
            kept.append(pair)
    return kept, dropped


def sentence_key(text: str) -> str:
    """Returns a key that is equal for sentences that differ only in case and punctuation."""
    key = comparable(text).casefold()
    # Marks are kept: in Thai, Khmer or Hindi they are the vowels.
    return "".join(c for c in key if c.isalnum() or unicodedata.category(c)[0] == "M") or key or text


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


def _decompressed(data: bytes) -> bytes:
    """The data, decompressed if it is gzip, xz or bzip2 by its first bytes. Unlike lzma.decompress() and bz2.decompress(),
    reads all of it, so that what is behind the last stream is an error."""
    if data.startswith(b"\x1f\x8b"):
        return gzip.decompress(data)
    if data.startswith(b"\xfd7zXZ\0"):
        begin = lzma.LZMADecompressor
    elif data.startswith(b"BZh"):
        begin = bz2.BZ2Decompressor
    else:
        return data
    parts: list[bytes] = []
    while data:
        stream = begin()
        parts.append(stream.decompress(data))
        if not stream.eof:
            raise EOFError("the compressed data ends in the middle")
        data = stream.unused_data.lstrip(b"\0")  # xz pads its streams with zeros
    return b"".join(parts)


def read_lines(path: pathlib.Path) -> list[str]:
    """The lines of a UTF-8 file, plain or compressed by gzip, xz or bzip2, without their line ends. Raises CorpusError naming
    file and line."""
    raw = b""
    try:
        raw = path.read_bytes()
        data = _decompressed(raw)
    except (gzip.BadGzipFile, lzma.LZMAError, OSError) as error:
        if not raw:
            raise CorpusError(f"{path}: {error}") from error
        raise CorpusError(f"{path}: damaged compressed data, or something else after it: {error}") from error
    except (EOFError, zlib.error) as error:
        raise CorpusError(f"{path}: {error}") from error
    if kind := next((name for magic, name in _NO_TEXT.items() if data.startswith(magic)), None):
        raise CorpusError(f"{path} is {kind}, expected UTF-8 text, plain or compressed by gzip, xz or bzip2")
    if markup := _MARKUP.match(data):
        raise CorpusError(
            f"{path} begins with '{markup[1].decode()}', so it is SGML or XML, expected a sentence on each line"
        )
    data = data.removeprefix(b"\xef\xbb\xbf")
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
    """Writes a temporary file of this process and renames it, so a reader never sees half of the text."""
    temporary = path.with_name(f"{path.name}.part.{os.getpid()}")
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
            counts[name][f"{language}_words"] = sum(word_count(pair[side]) for pair in pairs)  # type: ignore[index]
    report = {**report, "source": languages[0], "target": languages[1], "parts": counts}
    write_atomically(output / "report.json", json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    return report
