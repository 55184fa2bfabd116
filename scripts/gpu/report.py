"""Writes the results as a JSON file and as tables."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Iterable, Sequence

from stage import Figures


def all_passed(whole: Figures) -> bool:
    """Returns whether no part failed and at least one passed. A part that is missing or was cut short has not failed."""
    states = [part["status"] for part in whole["parts"]]
    return "passed" in states and "failed" not in states


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
    rows = [
        (
            (
                row["op"],
                number(1e3 * row["ms"], ",.1f"),
                f"{number(row['rate'])} {row['unit']}",
                number(row["share_of_peak"], ".0%"),
                number(row["error"], ".1e"),
            )
            if "failure" not in row
            else (row["op"], "-", row["failure"], "-", "-")
        )
        for row in figures.get("rows", [])
    ]
    if not rows:
        return []
    peaks = ", ".join(f"{name} {value:,.1f}" for name, value in figures.get("peaks", {}).items())
    return [f"Peaks measured: {peaks}", "", *table(("op", "us", "rate", "of the peak", "error"), rows)]


def attention_table(figures: Figures) -> list[str]:
    rows = [
        (
            (
                row["length"],
                row["kernel"],
                number(1e3 * row["forward_ms"], ",.1f"),
                number(1e3 * row["backward_ms"], ",.1f"),
                number(max(row[name] for name in ("out", "dq", "dk", "dv")), ".1e"),
            )
            if "failed" not in row
            else (row["length"], row["kernel"], row["failed"], "-", "-")
        )
        for row in figures.get("rows", [])
    ]
    return table(("sentences of", "kernel", "forward, us", "backward, us", "error"), rows) if rows else []


def products_table(figures: Figures) -> list[str]:
    """Returns a table of epilogue, algorithm and times of each matmul."""
    rows = [
        (
            (
                row["preset"],
                row["layer"],
                row["product"],
                (row["epilogue"] or "none") + ("" if row["found"] else ": MISSING"),
                number(row["waves"], ".2f"),
                number(1e3 * row["first_ms"], ",.1f"),
                number(1e3 * row["chosen_ms"], ",.1f"),
                row["algorithm"],
            )
            if "failure" not in row
            else (row["preset"], row["layer"], row["failure"], "-", "-", "-", "-", "-")
        )
        for row in figures.get("rows", [])
    ]
    head = ("model", "layer", "product", "epilogue", "waves", "first, us", "chosen, us", "settings")
    return table(head, rows) if rows else []


def updates_table(figures: Figures) -> list[str]:
    """Returns a table for the parts updates, torch_base and torch."""
    rows = []
    for row in figures.get("rows", []):
        for name in ("ours", "torch"):
            if name not in row:
                continue
            one = row[name]
            how = f"PyTorch {figures.get('torch')}, {one['attention']}, {one['compile']}" if name == "torch" else "ours"
            rows.append(
                (
                    row["preset"],
                    how,
                    number(one["target_tokens_per_s"]),
                    number(one["step_ms"], ".2f"),
                    number(one["flop_utilisation"], ".1%"),
                    gigabytes(one.get("device_used_bytes")),
                    f"{one['first_loss']:.3f} to {one['last_loss']:.3f}",
                    number(row.get("ratio"), ".2f") if name == "ours" else "",
                )
            )
    return (
        table(
            (
                "model",
                "by",
                "target tokens/s",
                "update, ms",
                "FLOP utilisation",
                "memory, GB",
                "loss",
                "ours / PyTorch",
            ),
            rows,
        )
        if rows
        else []
    )


def graphs_table(figures: Figures) -> list[str]:
    rows = [
        (
            row["preset"],
            row["of"],
            row["target_tokens"],
            number(row["with_ms"], ".2f"),
            number(row["without_ms"], ".2f"),
            {True: "the same", False: "DIFFERENT", None: ""}[row.get("same_losses")],
        )
        for row in figures.get("rows", [])
    ]
    return (
        table(("model", "updates of", "target tokens", "with graphs, ms", "without, ms", "losses"), rows)
        if rows
        else []
    )


def meter_table(figures: Figures) -> list[str]:
    rows = [
        (row["preset"], number(row["with_tokens_per_s"]), number(row["without_tokens_per_s"]))
        for row in figures.get("rows", [])
    ]
    return table(("model", "target tokens/s while NVML is read", "without"), rows) if rows else []


def update_ops_table(figures: Figures) -> list[str]:
    """Returns a table of the time of each op in an update."""
    rows = [
        (row["preset"], op["op"], op["calls"], number(op["ms"], ",.3f"), number(op.get("floor_ms"), ",.3f"))
        for row in figures.get("rows", [])
        for op in row.get("ops", [])
    ]
    return table(("model", "op", "calls", "ms", "floor, ms"), rows) if rows else []


def decode_table(figures: Figures) -> list[str]:
    rows = [
        (
            row["data"],
            number(row["parameters"]),
            row["beam"],
            row["batch_sentences"],
            number(row["sentences_per_s"], ",.1f"),
            number(row["target_tokens_per_s"]),
            number(row["error"], ".1e"),
        )
        for row in figures.get("rows", [])
    ]
    head = (
        "text",
        "parameters",
        "beam",
        "sentences a batch",
        "sentences/s",
        "target tokens/s",
        "scores from the processor's",
    )
    return table(head, rows) if rows else []


def all_reduce_table(figures: Figures) -> list[str]:
    rows = [
        (
            row["algorithm"] + (f", {row['hosts']} hosts, {row['ranks']} GPUs" if "hosts" in row else ""),
            number(row["payload_bytes"] / 1e6, ",.2f"),
            number(row["bucket_bytes"] / 1e6, ",.2f"),
            number(row["median_ms"], ".3f"),
            number(row["bus_gb_per_s"], ".2f"),
            number(row["error"], ".1e"),
        )
        for row in figures.get("rows", [])
    ]
    return table(("all-reduce by", "MB", "in buckets of, MB", "ms", "bus, GB/s", "error"), rows) if rows else []


def scaling_table(figures: Figures) -> list[str]:
    rows = [
        (
            row["hosts"],
            row["ranks"],
            number(row["target_tokens_per_s"]),
            number(row["efficiency"], ".1%"),
            number(row["step_ms"], ".2f"),
            number(row["split"]["exposed_communication_ms"], ".1%"),
            number(row["hidden"], ".0%"),
            f"{row['first_loss']:.3f} to {row['last_loss']:.3f}",
        )
        for row in figures.get("rows", [])
    ]
    head = ("hosts", "GPUs", "target tokens/s", "efficiency", "update, ms", "waiting for sums", "sums hidden", "loss")
    return table(head, rows) if rows else []


def bars(whole: Figures) -> list[tuple[str, str, str, str]]:
    """Compares results with the goals for one H200 (docs/design/cuda.md)."""
    found: list[tuple[str, str, str, str]] = []

    def bar(what: str, value: float | None, wanted: float, form: str, reached: Callable[[float, float], bool]) -> None:
        if value is not None:
            found.append((what, format(value, form), format(wanted, form), "yes" if reached(value, wanted) else "no"))

    def at_least(value: float, wanted: float) -> bool:
        return value >= wanted

    def at_most(value: float, wanted: float) -> bool:
        return value <= wanted

    models = {row["preset"]: row["ours"] for row in figures_of(whole, "updates").get("rows", [])}
    if "base" in models:
        bar("transformer-base, target tokens/s", models["base"]["target_tokens_per_s"], 1e6, ",.0f", at_least)
    compared = [
        row["ratio"]
        for part in ("torch_base", "torch")
        for row in figures_of(whole, part).get("rows", [])
        if row["preset"] == "base"
    ]
    if compared:  # beside PyTorch's fastest mode
        bar("transformer-base, beside PyTorch compiled", min(compared), 1.2, ".2f", at_least)
    if "big" in models:
        bar("transformer-big, share of the measured peak", models["big"]["flop_utilisation"], 0.5, ".1%", at_least)
    for row in figures_of(whole, "hot_ops").get("rows", []):
        if row["op"].startswith("embedding_backward") and "ms" in row:
            bar(f"{row['op']}, ms", row["ms"], 0.1, ".3f", at_most)
    bar("an update's time that no part has", figures_of(whole, "tatoeba").get("unexplained"), 0.02, ".1%", at_most)
    return found


def text_of(whole: Figures, brief: bool) -> str:
    """Returns the report as Markdown; `brief`: without the long tables."""
    gpus = "; ".join(whole["machine"]["gpus"]) or "none"
    backend = figures_of(whole, "hot_ops").get("backend", "")
    lines = [
        f"# GPU check, {whole['date']}",
        "",
        f"GPU: {gpus}. {backend}",
        "",
        *table(
            ("part", "result", "s", "found"),
            [(part["part"], part["status"], part["seconds"], part["found"]) for part in whole["parts"]],
        ),
    ]
    for title, part, make, is_long in (
        ("Updates", "updates", updates_table, False),
        ("Ops of an update", "updates", update_ops_table, True),
        ("Products", "products", products_table, False),
        ("Beside PyTorch: base", "torch_base", updates_table, False),
        ("Beside PyTorch", "torch", updates_table, False),
        ("CUDA graphs", "graphs", graphs_table, False),
        ("NVML", "meter", meter_table, False),
        ("Ops that decide", "hot_ops", ops_table, False),
        ("PyTorch's attention", "torch_attention", attention_table, False),
        ("Ops", "ops", ops_table, True),
        ("All-reduces", "all_reduce", all_reduce_table, True),
        ("Sums of gradients", "cluster_sums", all_reduce_table, True),
        ("Weak scaling", "cluster_scaling", scaling_table, False),
        ("Beam search", "decode", decode_table, False),
    ):
        if brief and is_long:
            continue
        body = make(figures_of(whole, part))
        if body:
            lines += ["", f"## {title}", "", *body]
    if whole["device"] == "cuda" and bars(whole):
        title = f"## Goals for one H200, found on {gpus}"
        lines += ["", title, "", *table(("what", "found", "goal", "reached"), bars(whole))]
    states = [part["status"] for part in whole["parts"]]
    counts = ", ".join(f"{states.count(state)} {state}" for state in ("passed", "failed", "cut short", "missing"))
    return "\n".join([*lines, "", f"{counts}, in {whole['seconds']:.0f} s", ""])


def replace_file(path: pathlib.Path, text: str) -> None:
    """Replaces a file atomically: a reader sees the old text or the new text, even after a kill."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)


def write(whole: Figures, folder: pathlib.Path) -> str:
    """Writes gpu_check.json and gpu_check.md; returns the short report. Raises OSError."""
    whole["bars"] = [dict(zip(("what", "found", "bar", "reached"), row)) for row in bars(whole)]
    replace_file(folder / "gpu_check.json", json.dumps(whole, indent=1) + "\n")
    replace_file(folder / "gpu_check.md", text_of(whole, False))
    return text_of(whole, True)
