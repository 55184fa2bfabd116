"""Compares two sides that run in turns; prints a table and JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import figures
from runs import Run


@dataclasses.dataclass(frozen=True)
class Side:
    """One side of a comparison. `rate` is compared, larger is better; equal `loss` shows equal computation."""

    name: str
    run: Callable[[], Run]
    rate: Callable[[Run], float]
    memory: Callable[[Run], float]
    loss: Callable[[Run], tuple[float, float]] = lambda run: (run.number("first_loss"), run.number("last_loss"))


def table(ours: Side, theirs: Side, pairs: list[tuple[Run, Run]], unit: str) -> str:
    lines = [
        f"{'pair':>4} {ours.name + ' ' + unit:>28} {theirs.name + ' ' + unit:>28} {'ratio':>7} {'others busy':>13} "
        f"{'steal':>13} {'losses':>33}"
    ]
    for number, (a, b) in enumerate(pairs, 1):
        losses = " ".join(f"{loss:.3f}" for loss in (*ours.loss(a), *theirs.loss(b)))
        lines.append(
            f"{number:>4} {ours.rate(a):>28,.1f} {theirs.rate(b):>28,.1f} {ours.rate(a) / theirs.rate(b):>7.3f} "
            f"{a.others_busy:>6.1%} {b.others_busy:>6.1%} {a.steal:>6.1%} {b.steal:>6.1%} {losses:>33}"
        )
    return "\n".join(lines)


def summary(ours: Side, theirs: Side, pairs: list[tuple[Run, Run]], left_out: int) -> dict[str, object]:
    def side(which: Side, runs: list[Run]) -> dict[str, object]:
        return {
            "name": which.name,
            "rate": figures.spread([which.rate(run) for run in runs]),
            "peak_memory_bytes": max(which.memory(run) for run in runs),
            "first_and_last_loss": which.loss(runs[-1]),
            "others_busy": max(run.others_busy for run in runs),
            "steal": max(run.steal for run in runs),
        }

    ours_runs, theirs_runs = [list(runs) for runs in zip(*pairs, strict=True)]
    ratios = figures.ratios([ours.rate(run) for run in ours_runs], [theirs.rate(run) for run in theirs_runs])
    return {
        "ratio": figures.spread(ratios),
        "ratios": ratios,
        "pairs": len(pairs),
        "disturbed_pairs_left_out": left_out,
        "disturbed_pairs_kept": sum(a.disturbed or b.disturbed for a, b in pairs),
        "ours": side(ours, ours_runs),
        "theirs": side(theirs, theirs_runs),
    }
