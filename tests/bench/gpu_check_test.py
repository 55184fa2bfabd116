#!/usr/bin/env python3
"""Runs scripts/gpu_check.sh on the processor with a build's programs, on a little text made here: every part that needs
no GPU, in small. No figure is judged.

    gpu_check_test.py BIN"""

from __future__ import annotations

import json
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORDS = "one two three four five six seven eight nine ten".split()
# Without those that run test programs: these run by themselves.
PARTS = "start updates products hot_ops test_cuda determinism graphs meter exchange multi30k ops backends decode all_reduce".split()


def prepare(programs: pathlib.Path, folder: pathlib.Path, name: str) -> None:
    lines = [
        [" ".join(random.Random(seed).choices(WORDS, k=4 + seed % 5)) for seed in range(first, first + many)]
        for first, many in ((0, 300), (1000, 12), (2000, 12))
    ]
    words: list[str | pathlib.Path] = []
    for which, texts in zip(("train", "valid", "test"), lines):
        for side, change in (("source", str), ("target", str.upper)):
            (folder / f"{which}.{side}").write_text("".join(change(text) + "\n" for text in texts), encoding="utf-8")
        words += [f"--{which}", folder / f"{which}.source", folder / f"{which}.target"]
    subprocess.run(
        [programs / "nmt", "prepare", *words, "--output", folder / "data" / name, "--vocabulary-size", "60"],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def main() -> None:
    programs = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prepare(programs, folder, "multi30k")
        places = ["--bin", programs, "--data", folder / "data", "--out", folder / "out"]
        command = [ROOT / "scripts" / "gpu_check.sh", "--device", "cpu", *places, "--only", *PARTS]
        done = subprocess.run(command, check=False)
        parts = json.loads((folder / "out" / "gpu_check.json").read_text(encoding="utf-8"))["parts"]
        wrong = [part for part in parts if part["status"] != "passed"]
        if done.returncode != 0 or wrong or len(parts) != len(PARTS):
            sys.stderr.write((folder / "out" / "gpu_check.log").read_text(encoding="utf-8")[-8000:])
            raise SystemExit(f"exit code {done.returncode}; not passed: {wrong}")


if __name__ == "__main__":
    main()
