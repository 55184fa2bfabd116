#!/usr/bin/env python3
"""Prints the scores of the seeds in FOLDER/seed-K, K from 1 to SEEDS: a table to standard error, one line of JSON to standard output.

seed_scores.py FOLDER SEEDS
"""

from __future__ import annotations

import json
import math
import pathlib
import statistics
import sys

#: The 97.5 % quantiles of Student's t distribution for 1 to 29 degrees of freedom (Gosset 1908), and beyond them that of the
#: normal distribution.
_T = (
    12.706,
    4.303,
    3.182,
    2.776,
    2.571,
    2.447,
    2.365,
    2.306,
    2.262,
    2.228,
    2.201,
    2.179,
    2.160,
    2.145,
    2.131,
    2.120,
    2.110,
)
_T += (2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045)


def half_interval(values: list[float]) -> float | None:
    """Half of the 95 % interval of the mean, by Student's t; None for a single value."""
    if len(values) < 2:
        return None
    quantile = _T[len(values) - 2] if len(values) - 2 < len(_T) else 1.960
    return quantile * statistics.stdev(values) / math.sqrt(len(values))


def scores_of(folder: pathlib.Path) -> dict[str, float]:
    """The scores of a seed by name."""
    cased = json.loads((folder / "cased.json").read_text(encoding="utf-8"))
    lowercased = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    return {"bleu": cased["sacrebleu"], "chrf": cased["chrf"], "lowercased_bleu": lowercased["scores"][0]["score"]}


def main(folder: pathlib.Path, seeds: int) -> None:
    by_seed = [scores_of(folder / f"seed-{seed}") for seed in range(1, seeds + 1)]
    summary: dict[str, object] = {"seeds": by_seed, "mean": {}, "half_interval_95": {}}
    for name in by_seed[0]:
        values = [scores[name] for scores in by_seed]
        mean, half = statistics.fmean(values), half_interval(values)
        summary["mean"][name] = round(mean, 3)  # type: ignore[index]
        summary["half_interval_95"][name] = None if half is None else round(half, 3)  # type: ignore[index]
        spread = "" if half is None else f" ± {half:.2f}"
        print(f"{name:16} {mean:6.2f}{spread:8}  {' '.join(f'{value:.2f}' for value in values)}", file=sys.stderr)
    print(json.dumps(summary))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), int(sys.argv[2]))
