#!/usr/bin/env python3
"""Holds files and functions against the size limits of the house: 400 lines a file (600 for tests and CUDA sources),
60 lines a function. Functions of C++ are found by universal-ctags and skipped, saying so, where it is absent.
Prints one line a violation and exits 1 when there is any.

  scripts/check_sizes.py [ROOT]
"""

from __future__ import annotations

import ast
import json
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator

from lib import check

FOLDERS = ("base", "nmt", "client", "cli", "worker", "server", "tests", "scripts", "cmake")
SUFFIXES = {".h", ".cc", ".cu", ".cuh", ".py", ".sh", ".ts", ".cmake"}
CPP = {".h", ".cc", ".cu", ".cuh"}
GENERATED = ".d.ts"
MAX_FILE_LINES = 400
MAX_LONG_FILE_LINES = 600
MAX_FUNCTION_LINES = 60


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
    command = ["ctags", "--output-format=json", "--fields=+ne", "--languages=C++", "--kinds-C++=f", "--map-C++=+.h", "--map-C++=+.cu",
               "-f", "-", "-L", "-"]
    done = subprocess.run(command, input="\n".join(map(str, paths)), capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        tag = json.loads(line)
        if tag.get("_type") == "tag" and "end" in tag:
            yield pathlib.Path(tag["path"]), tag["name"], tag["line"], tag["end"]


def functions(paths: list[pathlib.Path]) -> Iterator[tuple[pathlib.Path, str, int, int]]:
    for path in paths:
        if path.suffix == ".py":
            yield from ((path, *function) for function in python_functions(path))
    cpp = [path for path in paths if path.suffix in CPP]
    if cpp and shutil.which("ctags"):
        yield from cpp_functions(cpp)
    elif cpp:
        print("check_sizes: no universal-ctags, C++ functions are not measured", file=sys.stderr)


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
            out.append(f"{path.relative_to(root)}:{first}: {function} has {last - first + 1} lines, at most {MAX_FUNCTION_LINES}")
    return out


if __name__ == "__main__":
    sys.exit(check.main("check_sizes", violations))
