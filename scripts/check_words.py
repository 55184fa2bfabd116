#!/usr/bin/env python3
"""Holds names and prose against the glossary in CONTRIBUTING.md: the words of its column "never" may stand nowhere in the
tree. An entry that ends with _ is the beginning of a name; any other entry is a word or a phrase, in any case. A comment
must also name the thing that it describes: it may not begin with "What", "Those", "The one" or "Of". Prints one line a
violation and exits 1 when there is any.

  scripts/check_words.py [ROOT]
"""

from __future__ import annotations

import pathlib
import re
import sys

from lib import check

FOLDERS = (
    "base",
    "insight",
    "nmt",
    "lab",
    "client",
    "cli",
    "capi",
    "python",
    "worker",
    "server",
    "tests",
    "scripts",
    "cmake",
    "docs",
    "configs",
    "deploy",
)
SUFFIXES = {".h", ".cc", ".cu", ".cuh", ".py", ".sh", ".ts", ".mjs", ".cmake", ".md", ".yaml", ".css", ".html", ".txt"}
CPP = {".h", ".cc", ".cu", ".cuh"}
GENERATED = (".d.ts", "tests/fuzz/corpus/", "tests/golden/")
GLOSSARY = "CONTRIBUTING.md"
#: Public names that older programs and files use; they are read for as long as those are about.
PUBLIC = ("most_ranks", "most_running", "most_pieces")
_ROW = re.compile(r"^\|(?:[^|]*\|){2}([^|]*)\|\s*$")
#: A comment that describes a thing without its name; "Of `started`: …" names a kind of record.
_COMMENT = re.compile(r'[ \t]*(?:///?|#|""")')
_NAMELESS = re.compile(r'[ \t]*(?:///?|#|""") ?(What|Those|The ones?|Of)\b(?! `)')
#: A parameter called `of`, a test whose name does not begin with a verb or an adjective, and a share of the product: it
#: is a shard, a fraction, an assignment or a part.
_UNNAMED = re.compile(r"[&*>\w] (of)[,)=;]|\bTEST(?:_F|_P)?\(\w+, ((?:Of|What)[A-Z]\w*)\)|\b(shares?)\b")
_ENTRY = re.compile(r"`([^`]+)`")


def forbidden(glossary: str) -> list[str]:
    """The entries of the last column of the table with the heading `never`."""
    entries: list[str] = []
    inside = False
    for line in glossary.splitlines():
        row = _ROW.match(line)
        if row is None:
            inside = False
        elif row[1].strip() == "never":
            inside = True
        elif inside:
            entries += _ENTRY.findall(row[1])
    return entries


def pattern_of(entry: str) -> str:
    words = re.escape(entry).replace(r"\ ", r"\s+(?:(?://+|#|\*)\s+)?")  # also where a comment's line breaks
    return rf"(?<![A-Za-z0-9_]){words}\w+" if entry.endswith("_") else rf"(?<![\w-]){words}(?![\w-])"


def nameless(text: str) -> list[tuple[int, str]]:
    """The line and the first words of each comment that describes a thing without its name."""
    found = []
    before = ""
    for number, line in enumerate(text.splitlines(), start=1):
        match = _NAMELESS.match(line)
        if match and not _COMMENT.match(before):
            found.append((number, match[1]))
        before = line
    return found


def violations(root: pathlib.Path) -> list[str]:
    """One line for each forbidden word or nameless comment, as path:line: word."""
    entries = forbidden((root / GLOSSARY).read_text(encoding="utf-8"))
    if not entries:
        return [f"{GLOSSARY}:1: found no table with a column 'never', expected the glossary"]
    pattern = re.compile("|".join(pattern_of(entry) for entry in entries), re.IGNORECASE)
    out: list[str] = []
    for path in check.files(root, FOLDERS, SUFFIXES):
        if any(part in str(path) for part in GENERATED) or path.name == pathlib.Path(__file__).name:
            continue
        text = (root / path).read_text(encoding="utf-8")
        if path.suffix != ".md":
            out += [
                f"{path}:{line}: '{words}': name the thing that the comment describes" for line, words in nameless(text)
            ]
        if path.suffix in CPP:
            code = re.sub(r'//.*|"(?:[^"\\\n]|\\.)*"', "", text)
            out += [
                f"{path}:{code.count(chr(10), 0, match.start()) + 1}: '{match[1] or match[2] or match[3]}': name the thing itself"
                for match in _UNNAMED.finditer(code)
                if not (match[3] and path.parts[0] == "tests")
            ]
        for match in pattern.finditer(text):
            if match[0] not in PUBLIC:
                word = " ".join(re.sub(r"[/#*]", " ", match[0]).split())
                out.append(
                    f"{path}:{text.count(chr(10), 0, match.start()) + 1}: '{word}': the glossary ({GLOSSARY}) has another word"
                )
    return out


if __name__ == "__main__":
    sys.exit(check.main("check_words", violations))
