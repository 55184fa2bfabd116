"""Parts that measure host work in an update: launches with and without CUDA graphs, and polling NVML."""

from __future__ import annotations

import statistics

from op_speed import threads
from speed import cases, step_words
from stage import Failed, Figures, Missing, Stage, flags
from training import SHORT, Run, small, train


def small_models(stage: Stage) -> list[tuple[str, str, int]]:
    """Returns the cases with available text in which launches may dominate; tiny also in small updates."""
    found: list[tuple[str, str, int]] = []
    for preset, text, tokens in cases(stage):
        if preset == "big" or not (stage.setting.data / text / "manifest.json").is_file():
            continue
        found += (
            [(preset, text, tokens)]
            if preset == "base" or stage.setting.quick
            else [(preset, text, 2048), (preset, text, tokens)]
        )
    return found


def train_on_text(stage: Stage, preset: str, tokens: int, with_graphs: bool) -> float:
    """Trains 1,200 updates of Multi30k. Returns the median ms of an update in the second half, when most shapes have been
    recorded."""
    run = Run(stage.folder / f"{preset}-{tokens}-{'with' if with_graphs else 'without'}")
    train(
        stage,
        run,
        "multi30k-tiny.yaml",
        "multi30k",
        *SHORT,
        *(small(stage) or (f"data.tokens_per_update={tokens}",)),
        f"training.cuda_graphs={str(with_graphs).lower()}",
        f"training.stop_after={4 if stage.setting.quick else 1200}u",
        preset=f"transformer-{preset}",
    )
    times = [step["step_ms"] for step in run.records("step")]
    if not times:
        raise Failed(f"{run.folder}: no step records")
    return statistics.median(times[len(times) // 2 :])


def with_and_without(stage: Stage, words: list[object]) -> tuple[Figures, Figures]:
    """Returns the figures of an update with CUDA graphs and without."""
    words = [*words, "--observed", 0, "--peak-seconds", 0.01, "--device", stage.setting.device]
    return stage.run(*words, "--cuda-graphs").json(), stage.run(*words).json()


def one_shape(stage: Stage, figures: Figures) -> list[str]:
    """Repeats updates of one shape, with dropout. Returns a line per case whose losses are not bit-equal."""
    quick, different = stage.setting.quick, []
    for preset, sentences in (("tiny", 16),) if quick else (("tiny", 64), ("tiny", 512), ("base", 64), ("base", 768)):
        words = [
            stage.setting.program("bench_train_step"),
            *flags(
                preset=preset,
                sentences=sentences,
                dropout=0.1,
                attention_dropout=0.1,
                updates=2 if quick else 40,
                warmup=1 if quick else 8,
                threads=threads(stage),
                products=stage.folder / f"{preset}-{sentences}.jsonl",
            ),
        ]  # the same algorithms, so the same bits
        on, off = with_and_without(stage, words)
        same = (on["first_loss"], on["last_loss"]) == (off["first_loss"], off["last_loss"])
        figures["rows"].append(
            {
                "preset": preset,
                "of": "one shape",
                "target_tokens": sentences * 32,
                "with_ms": on["step_ms"],
                "without_ms": off["step_ms"],
                "same_losses": same,
            }
        )
        stage.keep(figures)
        if not same:
            different.append(
                f"{preset}: with CUDA graphs the loss ends at {on['last_loss']}, without at {off['last_loss']}"
            )
    return different


def graphs(stage: Stage) -> tuple[str, Figures]:
    """Measures updates with and without CUDA graphs: of one shape, with bit-equal losses, and trainings on text, whose batches
    graphs pad."""
    figures: Figures = {"rows": []}
    different = one_shape(stage, figures)
    if different:
        raise Failed("; ".join(different), figures)
    for preset, tokens in (("tiny", 256),) if stage.setting.quick else (("tiny", 2048), ("tiny", 4096), ("base", 2048)):
        with_ms, without_ms = (train_on_text(stage, preset, tokens, on) for on in (True, False))
        figures["rows"].append(
            {"preset": preset, "of": "multi30k", "target_tokens": tokens, "with_ms": with_ms, "without_ms": without_ms}
        )
        stage.keep(figures)
    return (
        ", ".join(
            f"{row['preset']} {row['with_ms'] / row['without_ms']:.2f} of the time without" for row in figures["rows"]
        ),
        figures,
    )


def meter(stage: Stage) -> tuple[str, Figures]:
    """Measures updates while a thread polls NVML, as in training, and without it, in the order without, with, with, without."""
    figures: Figures = {"rows": []}
    for preset, text, tokens in small_models(stage):
        words = [
            *step_words(stage, preset, text, tokens),
            *flags(observed=0, peak_seconds=0.01, device=stage.setting.device),
        ]
        rates = [
            stage.run(*words, *more).json()["target_tokens_per_s"]
            for more in ([], ["--gpu-meter"], ["--gpu-meter"], [])
        ]
        figures["rows"].append(
            {
                "preset": preset,
                "without_tokens_per_s": (rates[0] + rates[3]) / 2,
                "with_tokens_per_s": (rates[1] + rates[2]) / 2,
            }
        )
        stage.keep(figures)
    if not figures["rows"]:
        raise Missing("no prepared text")
    return (
        "tokens/s with NVML read by those without: "
        + ", ".join(
            f"{row['preset']} {row['with_tokens_per_s'] / row['without_tokens_per_s']:.3f}" for row in figures["rows"]
        ),
        figures,
    )
