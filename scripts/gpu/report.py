"""The results as one JSON file and as tables."""

from __future__ import annotations

import json
import pathlib
import statistics
from collections.abc import Callable, Iterable, Sequence

from stage import Figures


def all_passed(whole: Figures) -> bool:
    """What is missing on the machine is no failure, unless it is everything."""
    states = [part["status"] for part in whole["parts"]]
    return "passed" in states and not {"failed", "late"} & set(states)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]


def figures_of(whole: Figures, part: str) -> Figures:
    return next((one["figures"] for one in whole["parts"] if one["part"] == part), {})


def number(value: object, form: str = ",.0f") -> str:
    return format(value, form) if isinstance(value, (int, float)) else "-"


def gigabytes(value: object) -> str:
    return number(value / 1e9, ".2f") if isinstance(value, (int, float)) else "-"


def ops_table(figures: Figures) -> list[str]:
    rows = [(row["op"], number(1e3 * row["ms"], ",.1f"), f"{number(row['rate'])} {row['unit']}", number(row["share_of_peak"], ".0%"),
             number(row["error"], ".1e")) for row in figures.get("rows", [])]
    if not rows:
        return []
    peaks = ", ".join(f"{name} {value:,.1f}" for name, value in figures["peaks"].items())
    return [f"Peaks measured: {peaks}", "", *table(("op", "us", "rate", "of the peak", "error"), rows)]


def updates_table(figures: Figures) -> list[str]:
    rows = []
    for row in figures.get("rows", []):
        for name in ("ours", "torch"):
            if name not in row:
                continue
            one = row[name]
            how = f"PyTorch {figures.get('torch')}, {one['attention']}, {one['compile']}" if name == "torch" else "ours"
            rows.append((row["preset"], how, number(one["target_tokens_per_s"]), number(one["step_ms"], ".2f"),
                         number(one["flop_utilisation"], ".1%"), gigabytes(one.get("device_used_bytes")),
                         f"{one['first_loss']:.3f} to {one['last_loss']:.3f}",
                         number(statistics.median(row["ratios"]), ".2f") if name == "ours" and "ratios" in row else ""))
    lines = table(("model", "by", "target tokens/s", "update, ms", "FLOP utilisation", "memory, GB", "loss", "ours / PyTorch"),
                  rows) if rows else []
    graphs = [(row["preset"], row["target_tokens"], number(row["with_ms"], ".2f"), number(row["without_ms"], ".2f"),
               "the same" if row["same_losses"] else "DIFFERENT") for row in figures.get("graphs", [])]
    if graphs:
        lines += ["", *table(("update of one shape", "target tokens", "with graphs, ms", "without, ms", "losses"), graphs)]
    return lines


def decode_table(figures: Figures) -> list[str]:
    rows = [(row["data"], number(row["parameters"]), row["beam"], row["batch_sentences"], number(row["sentences_per_s"], ",.1f"),
             number(row["target_tokens_per_s"]), number(row["error"], ".1e")) for row in figures.get("rows", [])]
    head = ("text", "parameters", "beam", "sentences a batch", "sentences/s", "target tokens/s", "scores from the processor's")
    return table(head, rows) if rows else []


def all_reduce_table(figures: Figures) -> list[str]:
    rows = [(row["algorithm"], number(row["payload_bytes"] / 1e6, ",.2f"), number(row["bucket_bytes"] / 1e6, ",.2f"),
             number(row["median_ms"], ".3f"), number(row["bus_gb_per_s"], ".2f"), number(row["error"], ".1e"))
            for row in figures.get("rows", [])]
    return table(("all-reduce by", "MB", "in buckets of, MB", "ms", "bus, GB/s", "error"), rows) if rows else []


def bars(whole: Figures) -> list[tuple[str, str, str, str]]:
    """What docs/performance.md wants of one H200: what was found, the bar, whether it is reached."""
    found: list[tuple[str, str, str, str]] = []

    def bar(what: str, value: float | None, wanted: float, form: str, reached: Callable[[float, float], bool]) -> None:
        if value is not None:
            found.append((what, format(value, form), format(wanted, form), "yes" if reached(value, wanted) else "no"))

    def at_least(value: float, wanted: float) -> bool:
        return value >= wanted

    models = {row["preset"]: row for row in figures_of(whole, "updates").get("rows", [])}
    if "base" in models:
        bar("transformer-base, target tokens/s", models["base"]["ours"]["target_tokens_per_s"], 600e3, ",.0f", at_least)
        if "ratios" in models["base"]:
            bar("transformer-base, against PyTorch compiled", statistics.median(models["base"]["ratios"]), 1.3, ".2f", at_least)
    if "big" in models:
        bar("transformer-big, FLOP utilisation", models["big"]["ours"]["flop_utilisation"], 0.45, ".1%", at_least)
    for row in figures_of(whole, "ops").get("rows", []):
        if row["op"].startswith("adam_update"):
            bar(f"{row['op']}, times its floor", 1 / row["share_of_peak"], 1.3, ".2f", lambda value, wanted: value <= wanted)
            break
    unexplained = figures_of(whole, "tatoeba").get("unexplained")
    bar("an update's time that no part has", unexplained, 0.02, ".1%", lambda value, wanted: value <= wanted)
    return found


def text_of(whole: Figures, brief: bool) -> str:
    """`brief`: without the long tables."""
    gpus = "; ".join(whole["machine"]["gpus"]) or "none"
    lines = [f"# GPU check, {whole['date']}", "", f"GPU: {gpus}. {figures_of(whole, 'ops').get('backend', '')}", "",
             *table(("part", "result", "s", "found"), [(part["part"], part["status"], part["seconds"], part["found"])
                                                      for part in whole["parts"]])]
    for title, part, make in (("Ops", "ops", ops_table), ("Updates", "updates", updates_table),
                              ("All-reduces", "all_reduce", all_reduce_table), ("Beam search", "decode", decode_table)):
        if brief and part in ("ops", "all_reduce"):
            continue
        body = make(figures_of(whole, part))
        if body:
            lines += ["", f"## {title}", "", *body]
    if whole["device"] == "cuda" and bars(whole):
        lines += ["", "## Bars for one H200", "", *table(("what", "found", "bar", "reached"), bars(whole))]
    states = [part["status"] for part in whole["parts"]]
    counts = ", ".join(f"{states.count(state)} {state}" for state in ("passed", "failed", "late", "missing"))
    return "\n".join([*lines, "", f"{counts}, in {whole['seconds']:.0f} s", ""])


def write(whole: Figures, folder: pathlib.Path) -> str:
    """Leaves gpu_check.json and gpu_check.md; returns the latter's text in brief."""
    whole["bars"] = [dict(zip(("what", "found", "bar", "reached"), row)) for row in bars(whole)]
    (folder / "gpu_check.json").write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    (folder / "gpu_check.md").write_text(text_of(whole, False), encoding="utf-8")
    return text_of(whole, True)
