"""Emulated runs beside real ones: the times of an update and its parts, and the bytes on the hosts' interfaces."""

from __future__ import annotations

import json
import pathlib
import statistics
from collections.abc import Iterable, Iterator

WARM_UP = 3  # updates that do not count
PARTS = ("data_ms", "forward_ms", "backward_ms", "exposed_communication_ms", "optimizer_ms", "other_ms")
LARGE = 0.1  # of the step: a part that counts


def steps(run: pathlib.Path) -> Iterator[dict[str, float]]:
    """The step records of all ranks of a run folder."""
    for spool in sorted(run.glob("spool/attempt-*/rank-*.jsonl")):
        for line in spool.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            if record["kind"] == "step" and record["update"] > WARM_UP:
                yield record


def medians(runs: Iterable[pathlib.Path]) -> dict[str, float]:
    """The median step of these runs and its parts in ms, over all updates and ranks, and the bytes that a host sent."""
    found = [record for run in runs for record in steps(run)]
    if not found:
        raise ValueError("no step records after the first updates")
    names = ("step_ms", *PARTS)
    sent = [record["network_tx_bytes"] for record in found if record["network_tx_bytes"] > 0]  # by one rank of a host
    return {name: statistics.median(record[name] for record in found) for name in names} | {
        "sent_bytes": statistics.median(sent) if sent else 0.0
    }


def verdict(run: pathlib.Path) -> str:
    """The first words of the verdict that the run's report quotes, as "network-bound"; "" if it has none."""
    for answer in json.loads((run / "report.json").read_text(encoding="utf-8"))["answers"]:
        if answer["key"] == "network_bottleneck":
            _, found, rest = answer["answer"].partition("The verdict on the last updates: ")
            return rest.split(":")[0] if found else ""
    return ""


def compare(real: list[pathlib.Path], emulated: list[pathlib.Path]) -> dict[str, object]:
    """The medians of both sides, and the emulated ones' relative errors: of the step, of each part above a tenth of the
    real step, and of the bytes."""
    sides = {"real": medians(real), "emulated": medians(emulated)}
    truth, found = sides["real"], sides["emulated"]
    counted = ["step_ms", *(part for part in PARTS if truth[part] > LARGE * truth["step_ms"]), "sent_bytes"]
    errors = {name: found[name] / truth[name] - 1 for name in counted if truth[name] > 0}
    verdicts = {side: [verdict(run) for run in runs] for side, runs in (("real", real), ("emulated", emulated))}
    return sides | {"errors": errors, "verdicts": verdicts}


def print_comparison(name: str, found: dict[str, object]) -> None:
    real, emulated, errors = found["real"], found["emulated"], found["errors"]
    print(f"{name}: verdicts {found['verdicts']}")
    for key, error in errors.items():
        scale, unit = (1e-6, "MB") if key == "sent_bytes" else (1, "ms")
        print(f"  {key:<26} {real[key] * scale:>10,.1f} {emulated[key] * scale:>10,.1f} {unit} {error:>+7.1%}")
