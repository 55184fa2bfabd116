#!/usr/bin/env python3
"""Checks the size limits: 400 lines per file (600 for tests and CUDA sources), 60 lines per function of C++, Python,
TypeScript and JavaScript. C++ functions are found by universal-ctags; without it they are skipped with a message. Functions of
TypeScript are found by the indentation that Prettier gives them. And holds the whole of the C++ product to the density that it
has reached (LIMITS). Prints one line per violation and exits 1 if there is any.

  scripts/check_sizes.py [ROOT]
"""

from __future__ import annotations

import ast
import json
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

from lib import check

FOLDERS = "base insight nmt lab client cli capi python worker server tests scripts cmake".split()
SUFFIXES = {".h", ".cc", ".cu", ".cuh", ".py", ".sh", ".ts", ".mjs", ".cmake"}
CPP = {".h", ".cc", ".cu", ".cuh"}
TYPESCRIPT = {".ts", ".mjs"}
GENERATED = ".d.ts"
MAX_FILE_LINES = 400
MAX_LONG_FILE_LINES = 600
MAX_FUNCTION_LINES = 60
PRODUCT = ("base", "insight", "nmt", "lab", "client", "cli", "worker", "server")
TINY_HEADER_LINES = 40
#: The headers of this repository that a source sees, directly or not, which are what one has to know to read it.
READERS = {
    "an update": "nmt/train/update/update_runner.cc",
    "the job": "worker/job.cc",
    "a route": "server/api/runs.cc",
}
#: What the product had when this was last set: only a change that adds a capability may raise a number, and says so.
LIMITS = {
    "files": 968,
    f"headers under {TINY_HEADER_LINES} lines": 89,
    "lines in 1,000 that are includes, guards or namespaces": 94,
    "headers seen by an update": 55,
    "headers seen by the job": 129,
    "headers seen by a route": 69,
}
_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
_OVERHEAD = re.compile(r"^(?:#include\b|#pragma once|namespace .*\{$|\}  // namespace)", re.MULTILINE)
#: A named function, an arrow function with a name, or a method, on the line where its parameters begin.
_TS_FUNCTION = re.compile(
    r"^(?P<indent> *)(?:export )?(?:default )?(?:(?:public|private|protected|static|override|async|get|set) )*"
    r"(?:function\*? *(?P<function>\w+)"
    r"|(?:const|let) (?P<arrow>\w+)(?:: [^=]+)? = (?:async )?(?:<.*>)?(?:\w+|\([^()]*\)(?:: [^=]+)?) =>"
    r"|(?:const|let) (?P<long_arrow>\w+) = (?:async )?\($"
    r"|(?P<method>(?!if\b|for\b|while\b|switch\b|catch\b|return\b)[#\w]+)(?:<.*>)?\([^()]*\)(?:: .+)? \{$)"
)


def file_limit(path: pathlib.PurePath) -> int:
    """The most lines that a file, named from the root, may have."""
    is_test = "tests" in path.parts or path.stem.endswith("_test")
    return MAX_LONG_FILE_LINES if is_test or path.suffix == ".cu" else MAX_FILE_LINES


def python_functions(path: pathlib.Path) -> Iterator[tuple[str, int, int]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno or node.lineno


def cpp_functions(paths: list[pathlib.Path]) -> Iterator[tuple[pathlib.Path, str, int, int]]:
    """Every function of C++ files with its first and last line."""
    command = [
        "ctags",
        "--output-format=json",
        "--fields=+ne",
        "--languages=C++",
        "--kinds-C++=f",
        "--map-C++=+.h",
        "--map-C++=+.cu",
        "-f",
        "-",
        "-L",
        "-",
    ]
    done = subprocess.run(command, input="\n".join(map(str, paths)), capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        tag = json.loads(line)
        if tag.get("_type") == "tag" and "end" in tag:
            yield pathlib.Path(tag["path"]), tag["name"], tag["line"], tag["end"]


def typescript_functions(path: pathlib.Path) -> Iterator[tuple[str, int, int]]:
    """Every named function of a file that Prettier has formatted: it ends before the next line that is indented no deeper,
    apart from lines that close its parameters or its body."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for first, line in enumerate(lines):
        start = _TS_FUNCTION.match(line)
        if start is None:
            continue
        indent, last = len(start["indent"]), first
        for at in range(first + 1, len(lines)):
            text = lines[at].lstrip()
            depth = len(lines[at]) - len(text)
            if text and (depth < indent or depth == indent and text[0] not in ")]}"):
                break
            last = at if text else last
            if depth == indent and text and not text.endswith("{"):
                break
        yield start["function"] or start["arrow"] or start["long_arrow"] or start["method"], first + 1, last + 1


def functions(paths: list[pathlib.Path]) -> Iterator[tuple[pathlib.Path, str, int, int]]:
    for path in paths:
        if path.suffix == ".py":
            yield from ((path, *function) for function in python_functions(path))
        elif path.suffix in TYPESCRIPT:
            yield from ((path, *function) for function in typescript_functions(path))
    cpp = [path for path in paths if path.suffix in CPP]
    if cpp and shutil.which("ctags"):
        yield from cpp_functions(cpp)
    elif cpp:
        print("check_sizes: no universal-ctags, C++ functions are not measured", file=sys.stderr)


def headers_seen(root: pathlib.Path, source: str) -> int:
    """The number of the repository's headers that a source includes, directly or not; generated ones are left out."""
    seen: set[str] = set()
    waiting = [source]
    while waiting:
        path = root / waiting.pop()
        for header in _INCLUDE.findall(path.read_text(encoding="utf-8")):
            if header not in seen and (root / header).is_file():
                seen.add(header)
                waiting.append(header)
    return len(seen)


def density(root: pathlib.Path) -> dict[str, int]:
    """The measures that LIMITS bounds, by the same names."""
    texts = {path: (root / path).read_text(encoding="utf-8") for path in check.files(root, PRODUCT, CPP)}
    lines = sum(text.count("\n") for text in texts.values())
    overhead = sum(len(_OVERHEAD.findall(text)) for text in texts.values())
    tiny = [path for path, text in texts.items() if path.suffix == ".h" and text.count("\n") < TINY_HEADER_LINES]
    values = [len(texts), len(tiny), round(1000 * overhead / max(lines, 1))]
    values += [headers_seen(root, source) if (root / source).is_file() else 0 for source in READERS.values()]
    return dict(zip(LIMITS, values, strict=True))


def violations(root: pathlib.Path) -> list[str]:
    """One line for each file and function over its limit, as path:line: what."""
    out: list[str] = []
    names = [name for name in check.files(root, FOLDERS, SUFFIXES) if not name.name.endswith(GENERATED)]
    for name in names:
        lines = (root / name).read_bytes().count(b"\n")
        if lines > file_limit(name):
            out.append(f"{name}:1: {lines} lines, at most {file_limit(name)}")
    for path, function, first, last in functions([root / name for name in names]):
        if last - first + 1 > MAX_FUNCTION_LINES:
            out.append(
                f"{path.relative_to(root)}:{first}: {function} has {last - first + 1} lines, at most {MAX_FUNCTION_LINES}"
            )
    for name, value in density(root).items():
        if value > LIMITS[name]:
            out.append(f"{name}: {value:,}, at most {LIMITS[name]:,}: join what has one user (CONTRIBUTING.md, Style)")
    return out


if __name__ == "__main__":
    sys.exit(check.main("check_sizes", violations))
