#!/usr/bin/env python3
"""Prints the summary at the end of quickstart.sh, from the files of its folder.

quickstart_summary.py --words DIR    the score in words
quickstart_summary.py DIR ADDRESS    one line of JSON
"""

from __future__ import annotations

import json
import pathlib
import sys


def stage_minutes(timings: str) -> dict[str, float]:
    """Minutes by stage, summed over runs that were interrupted, from lines "NAME SECONDS"."""
    seconds: dict[str, float] = {}
    for line in timings.splitlines():
        name, spent = line.split()
        seconds[name] = seconds.get(name, 0.0) + float(spent)
    return {name: round(spent / 60, 2) for name, spent in seconds.items()}


def summary(folder: pathlib.Path, address: str) -> dict[str, object]:
    evaluation = json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))
    return {
        "sacrebleu": evaluation["sacrebleu"],
        "signature": evaluation["signature"],
        "updates": evaluation["update"],
        "minutes": stage_minutes((folder / "stamps" / "timings").read_text(encoding="utf-8")),
        "dashboard": address,
    }


def words(folder: pathlib.Path) -> str:
    """The score as a sentence."""
    evaluation = json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))
    return (
        f'sacreBLEU {evaluation["sacrebleu"]:.1f} on {evaluation["sentences"]:,} held-out sentences, with the model of update '
        f'{evaluation["update"]:,}'
    )


def main() -> int:
    if sys.argv[1] == "--words":
        print(words(pathlib.Path(sys.argv[2])))
        return 0
    print(json.dumps(summary(pathlib.Path(sys.argv[1]), sys.argv[2]), ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
