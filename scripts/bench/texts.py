"""Prepares parallel text for training."""

from __future__ import annotations

import hashlib
import pathlib
import subprocess
import sys

from runs import program

WORK = pathlib.Path(__file__).resolve().parents[2] / "build" / "bench-data"


def pair_of(text: str) -> tuple[pathlib.Path, pathlib.Path]:
    """Returns the two files of SRC,TGT. Ends this program for any other argument."""
    parts = text.split(",")
    if len(parts) != 2 or not all(pathlib.Path(part).is_file() for part in parts):
        sys.exit(f"bench: --text: found '{text}', expected two files SRC,TGT or a folder of nmt prepare")
    return pathlib.Path(parts[0]).resolve(), pathlib.Path(parts[1]).resolve()


def folder_for(files: tuple[pathlib.Path, pathlib.Path], pieces: int) -> pathlib.Path:
    """One folder for each pair of files, as they are now, and number of pieces."""
    digest = hashlib.sha256()
    for file in files:
        state = file.stat()
        digest.update(f"{file}\0{state.st_size}\0{state.st_mtime_ns}\0".encode())
    return WORK / f"{files[0].name.split('.')[0]}-{pieces}-{digest.hexdigest()[:12]}"


def prepared(programs: pathlib.Path, text: str, pieces: int) -> pathlib.Path:
    """The folder that `text` names, or that of `nmt prepare` for SRC,TGT, made once: the text as training set, and the
    same text as test set."""
    if (pathlib.Path(text) / "manifest.json").is_file():
        return pathlib.Path(text)
    files = pair_of(text)
    folder = folder_for(files, pieces)
    if not (folder / "manifest.json").exists():
        names = [str(file) for file in files]
        command = [
            program(programs, "nmt"),
            "prepare",
            "--train",
            *names,
            "--test",
            *names,
            "--keep-held-out",
            "--output",
            folder,
            "--vocabulary-size",
            str(pieces),
        ]
        done = subprocess.run(command, stdout=sys.stderr, check=False)
        if done.returncode != 0:
            sys.exit(f"bench: nmt prepare: exit code {done.returncode}")
    return folder
