"""Shared by the checks of the tree: the list of files, and the output of violations."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable, Iterable

#: Third-party and generated files.
FOREIGN = {"node_modules", "dist"}


def files(root: pathlib.Path, folders: Iterable[str], suffixes: Iterable[str]) -> list[pathlib.PurePosixPath]:
    """Returns our own files below the folders, relative to the root, sorted."""
    wanted = set(suffixes)
    found = (
        path.relative_to(root) for folder in folders for path in (root / folder).rglob("*") if path.suffix in wanted
    )
    return sorted(pathlib.PurePosixPath(path.as_posix()) for path in found if not FOREIGN & set(path.parts))


def main(name: str, violations: Callable[[pathlib.Path], list[str]]) -> int:
    """Checks the tree named on the command line, by default this tree; prints a line for each fault. Returns the exit code."""
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2]
    found = violations(root)
    print("\n".join(found + [f"{name}: {len(found)} violations"]))
    return 1 if found else 0
