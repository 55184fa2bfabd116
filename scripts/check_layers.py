#!/usr/bin/env python3
"""Holds every #include, and every import of the page, against the plan of the house: rooms see only the rooms below
them, and a library from outside is seen only in its own room. Finds comments and documents that name a source file that
is gone. Prints one line a violation and exits 1 when there is any.

  scripts/check_layers.py [ROOT]
"""

from __future__ import annotations

import pathlib
import posixpath
import re
import sys

from lib import check

#: The rooms that each room may include directly; it may also include theirs. The longest prefix of a path is its room.
ROOMS: dict[str, list[str]] = {
    "base": [],
    "base/records": ["base"],
    "base/options": ["base"],
    "insight": ["base/records"],
    "insight/predict": ["base/records", "base/options"],
    "insight/what_if": ["insight", "insight/predict"],
    "insight/verdict": ["insight/what_if"],
    "insight/report": ["insight/verdict"],
    "insight/tables": ["insight/report"],
    "nmt/core": ["base/records", "base/options"],
    "nmt/ops": ["nmt/core"],
    "nmt/layers": ["nmt/ops"],
    "nmt/model": ["nmt/layers"],
    "nmt/optim": ["nmt/model"],
    "nmt/comm": ["nmt/core"],
    "nmt/comm/schedule": ["nmt/comm"],
    "nmt/comm/shared": ["nmt/comm"],
    "nmt/comm/mpi": ["nmt/comm/schedule", "nmt/comm/shared"],
    "nmt/comm/nccl": ["nmt/comm"],
    "nmt/parallel": ["nmt/optim", "nmt/comm/mpi", "nmt/comm/nccl"],
    "nmt/metering": ["nmt/layers"],
    "nmt/data": ["nmt/core"],
    "nmt/metrics": ["base/records", "base/options"],
    "nmt/decode": ["nmt/checkpoint", "nmt/data", "nmt/metrics"],
    "nmt/checkpoint": ["nmt/model", "nmt/optim"],
    "nmt/train/setup": ["nmt/decode", "nmt/metrics", "nmt/parallel", "nmt/metering", "nmt/checkpoint"],
    "nmt/train/update": ["nmt/train/setup"],
    "nmt/train/evaluation": ["nmt/train/setup"],
    "nmt/train/checkpointing": ["nmt/train/update", "nmt/train/evaluation"],
    "nmt/train": ["nmt/train/checkpointing"],
    "nmt/interop": ["nmt/train/checkpointing"],
    "lab": ["nmt/train/update", "insight/tables"],
    "lab/graph": ["lab"],
    "lab/memory": ["lab"],
    "lab/parameters": ["lab"],
    "lab/timeline": ["lab"],
    "lab/probe": ["lab", "nmt/train/checkpointing"],
    "lab/record": ["lab/probe", "nmt/train"],
    "lab/tools": ["lab/memory", "lab/parameters", "lab/timeline", "lab/record"],
    "capi": ["cli"],
    "client": ["base/records", "base/options"],
    "cli/runs": ["client"],
    "cli": ["lab/tools", "lab/graph", "nmt/interop", "cli/runs"],
    "worker": ["lab/tools", "client"],
    "server/http": ["base/records"],
    "server/store": ["base/records"],
    "server/launch": ["server/store", "base/options"],
    "server/translate": ["base/records"],
    "server/verdict": ["server/launch", "insight/report"],
    "server/alerts": ["server/store"],
    "server/webhooks": ["server/store", "client"],
    "server/access": ["server/http", "server/store"],
    "server/artifacts": ["server/access", "server/translate"],
    "server/events": ["server/http"],
    "server/telemetry": ["server/artifacts", "server/events", "server/launch", "server/translate"],
    "server/api": ["server/telemetry", "server/verdict", "server/alerts", "server/webhooks"],
    "server": ["server/api", "nmt/core"],
    "server/dashboard/src/styles": [],
    "server/dashboard/src/lib": [],
    "server/dashboard/src/api": ["server/dashboard/src/lib"],
    "server/dashboard/src/data": ["server/dashboard/src/api"],
    "server/dashboard/src/charts": ["server/dashboard/src/data"],
    "server/dashboard/src/views": ["server/dashboard/src/charts", "server/dashboard/src/styles"],
    "server/dashboard/src/views/runs": ["server/dashboard/src/views"],
    "server/dashboard/src": ["server/dashboard/src/views/runs"],
}

#: Headers from outside that only some paths may include: (header pattern, prefixes of paths, description).
RESERVED: list[tuple[str, tuple[str, ...], str]] = [
    (r"mpi(-ext)?\.h$", ("nmt/comm/mpi",), "MPI"),
    (r"(oneapi/)?dnnl", ("nmt/ops/cpu/",), "oneDNN"),
    (r"sqlite3", ("server/store/",), "SQLite"),
    (r"zstd", ("server/store/", "nmt/data/byte_source"), "Zstandard"),
    (r"cld2/", ("nmt/data/pair_filter",), "CLD2"),
    (r"expat\.h$", ("nmt/data/xml_pairs",), "Expat"),
    (r"(lzma|bzlib)\.h$", ("nmt/data/byte_source",), "liblzma and bzip2"),
    (r"prometheus/", ("server/telemetry/prometheus",), "prometheus-cpp"),
    (r"boost/beast", ("server/http/", "client/"), "Beast"),
    (r"boost/asio", ("server/", "client/"), "Asio"),
    (r"(cuda|cublas|curand|nvml|nvtx)", ("nmt/ops/cuda/", "nmt/comm/nccl"), "CUDA"),
    (r"nccl", ("nmt/comm/nccl",), "NCCL"),
    (r"sentencepiece", ("nmt/data/", "nmt/metrics/segmenter"), "SentencePiece"),
    (r"zip\.h$", ("nmt/interop/",), "libzip"),
    (r"yaml-cpp", ("base/", "cli/sweep/grid", "server/api/openapi", "server/launch/profile"), "yaml-cpp"),
]

FOLDERS = ("base", "insight", "nmt", "lab", "client", "cli", "capi", "worker", "server", "tests")
SOURCES = {".h", ".cc", ".cu", ".cuh"}
#: Headers from outside that comments name.
OUTSIDE = ("linux/", "mpi.h", "nccl.h")
_NAMED_FILE = re.compile(r"(?<![\w/.*])[a-z][a-z0-9_/]*\.(?:h|cc|cu|cuh)\b")
_COMMENT = re.compile(r"//.*")
#: A relative import of TypeScript, for its values or its types alone.
_IMPORT = re.compile(r"""(?:from|import|import\() *'(\.[^']+)'""")
_INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)


def room_of(path: str) -> str | None:
    """The innermost room that a path lies in, or None outside of all."""
    return max((room for room in ROOMS if path.startswith(room + "/")), key=len, default=None)


def visible(room: str) -> set[str]:
    """The room itself and all below it."""
    seen: set[str] = set()
    waiting = [room]
    while waiting:
        current = waiting.pop()
        if current not in seen:
            seen.add(current)
            waiting.extend(ROOMS[current])
    return seen


def is_generated(root: pathlib.Path, header: str) -> bool:
    """A header that CMake makes: its name occurs in the CMakeLists.txt of the folder that it claims to be in."""
    recipe = root / pathlib.PurePosixPath(header).parent / "CMakeLists.txt"
    return recipe.is_file() and pathlib.PurePosixPath(header).stem in recipe.read_text(encoding="utf-8")


def include_fault(root: pathlib.Path, path: str, quoted: bool, header: str) -> str | None:
    """The violation of one include of one file, or None."""
    in_tests = path.startswith("tests/")
    for pattern, allowed, name in RESERVED:
        if re.match(pattern, header) and not path.startswith(allowed) and not in_tests:
            return f"{name} header <{header}> outside {' and '.join(allowed)}"
    if not quoted:
        return None
    if not (root / header).is_file() and not is_generated(root, header):
        return f'"{header}" is no file of the repository; includes start at its root'
    room = room_of(path)
    if room and header.startswith("tests/"):
        return f'"{header}": {room} includes a test'
    return sight_fault(path, header)


def sight_fault(path: str, header: str) -> str | None:
    """The violation of a source that sees another one, or None."""
    room, target = room_of(path), room_of(header)
    if room and target and target not in visible(room):
        return f'"{header}": {room} must not see {target}; it sees {", ".join(sorted(visible(room) - {room})) or "nothing"}'
    return None


def dead_names(root: pathlib.Path) -> list[str]:
    """One line for each source file that a comment or a document names, but that is not there."""
    sources = check.files(root, FOLDERS, SOURCES)
    known = {path.name for path in sources}
    out: list[str] = []
    documents = [pathlib.PurePosixPath(path.name) for path in root.glob("*.md")] + check.files(
        root, ("docs", "deploy"), {".md"}
    )
    for path in [*sources, *documents]:
        for number, line in enumerate((root / path).read_text(encoding="utf-8").splitlines(), start=1):
            text = line if path.suffix == ".md" else " ".join(_COMMENT.findall(line))
            for name in _NAMED_FILE.findall(text):
                if name.rsplit("/", 1)[-1] not in known and not name.startswith(OUTSIDE):
                    out.append(f"{path}:{number}: names {name}, which is no file of the repository")
    return out


def violations(root: pathlib.Path) -> list[str]:
    """One line for each include that breaks the plan, as path:line: what."""
    out: list[str] = []
    for path in check.files(root, FOLDERS, SOURCES):
        text = (root / path).read_text(encoding="utf-8")
        for match in _INCLUDE.finditer(text):
            fault = include_fault(root, str(path), match[1] == '"', match[2])
            if fault:
                out.append(f"{path}:{text.count(chr(10), 0, match.start(2)) + 1}: {fault}")
    for path in check.files(root, ("server/dashboard/src",), {".ts"}):
        text = (root / path).read_text(encoding="utf-8")
        for match in _IMPORT.finditer(text):
            fault = sight_fault(str(path), posixpath.normpath(f"{path.parent}/{match[1]}"))
            if fault:
                out.append(f"{path}:{text.count(chr(10), 0, match.start(1)) + 1}: {fault}")
    return out + dead_names(root)


if __name__ == "__main__":
    sys.exit(check.main("check_layers", violations))
