"""Arithmetic of comparisons: medians with spread, ratios of neighbours, and the share of other processes."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Sequence


def spread(values: Sequence[float]) -> dict[str, float]:
    """Returns median, min and max."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def percentile(values: Sequence[float], share: float) -> float:
    """Returns the quantile of the values at `fraction`; 0 without values."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else 0.0


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Returns the ratio of each run to its neighbour, for runs in turns."""
    return [a / b for a, b in zip(ours, theirs, strict=True)]


@dataclasses.dataclass(frozen=True)
class ProcessorTimes:
    """Clock ticks of all processors since the machine started."""

    busy: int
    stolen: int
    all: int

    @staticmethod
    def of(proc_stat: str) -> ProcessorTimes:
        """Parses /proc/stat. User time includes the time of guests."""
        user, nice, system, idle, iowait, irq, softirq, stolen = (
            int(x) for x in proc_stat.split("\n", 1)[0].split()[1:9]
        )
        busy = user + nice + system + irq + softirq
        return ProcessorTimes(busy, stolen, busy + idle + iowait + stolen)


def disturbance(
    before: ProcessorTimes, after: ProcessorTimes, others_seconds: float, ticks_per_second: float
) -> dict[str, float]:
    """Shares of the machine that other processes, whose time is given, and other machines on the same host took."""
    everything = max(after.all - before.all, 1)
    others = others_seconds * ticks_per_second / everything
    return {"others_busy": max(others, 0), "steal": (after.stolen - before.stolen) / everything}


def last_json(output: str) -> dict[str, object]:
    """Returns the JSON object on the last line. Raises ValueError with the line."""
    lines = output.rstrip("\n").split("\n")
    try:
        result = json.loads(lines[-1])
    except json.JSONDecodeError:
        result = None
    if not isinstance(result, dict):
        raise ValueError(f"expected a JSON object on the last line, found {lines[-1][:200]!r}")
    return result


def same_length(tokens_per_update: float, sentences: int) -> int:
    """Returns the length of `sentences` equal sentences that have about `tokens_per_update` tokens together."""
    return max(1, round(tokens_per_update / sentences))
