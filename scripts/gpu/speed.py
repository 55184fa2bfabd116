"""Parts that measure updates, compare them with PyTorch's, and measure beam search."""

from __future__ import annotations

import pathlib
import statistics

import machine
from op_speed import threads
from stage import Failed, Figures, Late, Missing, Stage, flags, in_parallel

# Preset, its text, target tokens of an update. The most telling first.
Case = tuple[str, str, int]
CASES = (("base", "wmt", 25000), ("big", "wmt", 25000), ("tiny", "multi30k", 25000))
SMALL_CASES = (("tiny", "multi30k", 300),)
Run = tuple[Case, str]  # of PyTorch: a case and a mode of torch.compile
# Matmuls are timed in the warm-up, when their shapes first occur.
UPDATES, WARM_UP = 20, 20
LOSS_APART = 0.35  # first losses of two implementations, whose random weights differ


def cases(stage: Stage) -> tuple[Case, ...]:
    return SMALL_CASES if stage.setting.quick else CASES


def sizes(stage: Stage) -> tuple[int, int]:
    """Returns the numbers of timed updates and of warm-up updates."""
    return (2, 1) if stage.setting.quick else (UPDATES, WARM_UP)


def step_words(stage: Stage, preset: str, text: str, tokens: int) -> list[object]:
    timed, before = sizes(stage)
    return [
        stage.setting.program("bench_train_step"),
        *flags(
            preset=preset,
            data=stage.setting.prepared(text),
            tokens=tokens,
            dropout=0.1,
            updates=timed,
            warmup=before,
            threads=threads(stage),
        ),
    ]


def batches(stage: Stage, preset: str, text: str, tokens: int) -> str:
    """Returns the file with the batches that both Babelring and PyTorch train on; writes it if it does not exist."""
    file = stage.setting.work / f"batches-{preset}.jsonl"
    if not file.exists():
        fresh = file.with_suffix(f".{stage.name}")
        stage.run(*step_words(stage, preset, text, tokens), "--write-batches", fresh).require()
        fresh.rename(file)
    return str(file)


def torch_words(stage: Stage, case: Case, modes: tuple[str, ...]) -> list[object]:
    """Returns the command line of PyTorch's side; `modes`: modes of torch.compile."""
    setting = stage.setting
    timed, before = sizes(stage)
    return [
        setting.torch_python,
        setting.root / "scripts" / "bench" / "torch_gpu_step.py",
        *flags(
            batches=batches(stage, *case),
            preset=case[0],
            dropout=0.1,
            updates=timed,
            warmup=before,
            device=setting.device,
        ),
        "--modes",
        *(("eager",) if setting.quick else modes),
    ]


def require_torch(stage: Stage) -> str:
    version = machine.torch_version(stage.setting.torch_python)
    if not version:
        raise Missing(f"{stage.setting.torch_python} has no PyTorch")
    if int(version.split(".")[0]) < 2:
        raise Missing(f"{stage.setting.torch_python} has PyTorch {version}, 2.0 or newer is needed")
    return version


def cache(stage: Stage) -> dict[str, str]:
    """Returns environment variables that keep PyTorch's compiled code for later parts."""
    folder = stage.setting.work / "torch-cache"
    return {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"), "TRITON_CACHE_DIR": str(folder / "triton")}


def compile_base(stage: Stage) -> tuple[str, Figures]:
    """Compiles the model of the part torch_base in parallel with the ops' tests."""
    return compile_models(stage, base_runs(stage))


def compile_torch(stage: Stage) -> tuple[str, Figures]:
    """Compiles the models of the part torch in parallel with the tests."""
    return compile_models(stage, torch_runs(stage))


def compile_models(stage: Stage, runs: list[Run]) -> tuple[str, Figures]:
    version = require_torch(stage)
    figures: Figures = {}

    def one(case: Case, mode: str) -> None:
        name = f"{case[0]} {mode}"
        try:
            figures[name] = (
                stage.run("nice", "-n", 10, *torch_words(stage, case, (mode,)), environment=cache(stage))
                .require()
                .seconds
            )
        except Failed as failed:
            figures[name] = str(failed)
        stage.keep(figures)

    for case in {case for case, _ in runs}:
        batches(stage, *case)
    in_parallel([lambda case=case, mode=mode: one(case, mode) for case, mode in runs], 3)
    if not any(isinstance(result, float) for result in figures.values()):
        raise Failed(f"PyTorch {version} compiled nothing: {next(iter(figures.values()), 'no time')}", figures)
    times = ", ".join(
        f"{name}: {took:.0f} s" if isinstance(took, float) else f"{name}: {took}" for name, took in figures.items()
    )
    return f"PyTorch {version} compiled {times}", figures


def base_runs(stage: Stage) -> list[Run]:
    return [(cases(stage)[0], "eager" if stage.setting.quick else "default")]


def torch_runs(stage: Stage) -> list[Run]:
    """Returns the models and modes of the part torch. The part torch_base runs base in the default mode."""
    if stage.setting.quick:
        return [(SMALL_CASES[0], "eager")]
    base, big, tiny = CASES
    return [(big, "default"), (base, "reduce-overhead"), (tiny, "reduce-overhead"), (big, "reduce-overhead")]


def ours(stage: Stage, case: Case, observed: int = 0) -> Figures:
    """Measures Babelring's updates; `observed`: updates whose ops are timed one by one."""
    return stage.run(
        *step_words(stage, *case), "--device", stage.setting.device, "--peak-seconds", 0.05, "--observed", observed
    ).json()


def updates(stage: Stage) -> tuple[str, Figures]:
    """Measures Babelring's updates of real text, with a table of ops."""
    figures: Figures = {"rows": []}
    problems: list[str] = []
    absent: list[str] = []
    late: Late | None = None
    for case in cases(stage):
        try:
            run = ours(stage, case, 1)
        except Late as why:
            late = why
            break
        except Missing as missing:
            absent.append(f"{case[0]}: {missing}")
            continue
        except Failed as failed:
            problems.append(f"{case[0]}: {failed}")
            continue
        figures["rows"].append({"preset": case[0], "ours": summary([run]), "ops": run.get("ops", [])})
        stage.keep(figures)
        if not run["last_loss"] < run["first_loss"] + 0.05:
            problems.append(f"{case[0]}: the loss went from {run['first_loss']:.3f} to {run['last_loss']:.3f}")
    if absent and not figures["rows"] and not problems:
        raise Missing("; ".join(absent))
    found = "; ".join([*(say(row) for row in figures["rows"]), *absent])
    if problems:
        raise Failed(f"{'; '.join(problems)[:400]} ({found})", figures)
    if late is not None:
        raise Late(f"{found or 'nothing was measured'}; {late}", figures)
    return found, figures


def torch_base(stage: Stage) -> tuple[str, Figures]:
    """Measures PyTorch's updates of base (in quick mode: tiny), compiled in the default mode, between two runs of Babelring."""
    return beside_torch(stage, base_runs(stage))


def torch(stage: Stage) -> tuple[str, Figures]:
    """Measures PyTorch's updates of other models, and of base in other modes, each between two runs of Babelring."""
    return beside_torch(stage, torch_runs(stage))


def beside_torch(stage: Stage, runs: list[Run]) -> tuple[str, Figures]:
    """Runs each model and mode; a PyTorch run that fails or exceeds its time loses no result of the others."""
    figures: Figures = {"torch": require_torch(stage), "rows": []}
    problems: list[str] = []
    late: Late | None = None
    for case, mode in runs:
        before = ours(stage, case)
        try:
            theirs = stage.run(*torch_words(stage, case, (mode,)), environment=cache(stage), most=150).json()
            figures["rows"].append(compare(case[0], before, theirs, ours(stage, case), problems))
            stage.keep(figures)
        except Late as why:
            late = why
        except Failed as failed:
            problems.append(f"PyTorch, {case[0]}, {mode}: {failed}")
    found = "; ".join(
        f"{row['preset']} {row['ratio']:.2f} of PyTorch ({row['torch']['compile']})" for row in figures["rows"]
    )
    if problems:
        raise Failed(f"{'; '.join(problems)[:400]} ({found})", figures)
    if late is not None:
        raise Late(f"{found or 'nothing was measured'}; {late}", figures)
    return found, figures


def compare(preset: str, before: Figures, theirs: Figures, after: Figures, problems: list[str]) -> Figures:
    row: Figures = {
        "preset": preset,
        "ours": summary([before, after]),
        "torch": summary([theirs]) | {key: theirs[key] for key in ("attention", "compile", "padding", "failed")},
    }
    row["ratio"] = row["ours"]["target_tokens_per_s"] / row["torch"]["target_tokens_per_s"]
    row["torch"]["flop_utilisation"] = row["ours"]["flop_utilisation"] / row["ratio"]
    apart = abs(before["first_loss"] - theirs["first_loss"])
    if before["parameters"] != theirs["parameters"] or apart > LOSS_APART:
        problems.append(
            f"{preset}: the models differ: {before['parameters']} and {theirs['parameters']} parameters, "
            f"first losses {before['first_loss']:.3f} and {theirs['first_loss']:.3f}"
        )
    return row


def summary(runs: list[Figures]) -> Figures:
    """Returns medians over runs, and the max of memory."""
    keys = (
        "target_tokens_per_s",
        "step_ms",
        "flop_utilisation",
        "first_loss",
        "last_loss",
        "matmul_gflop_per_s",
        "forward_ms",
        "backward_ms",
        "optimizer_ms",
        "roofline_fraction",
    )
    found = {key: statistics.median(run[key] for run in runs) for key in keys if key in runs[0]}
    for key in ("device_used_bytes", "peak_memory_bytes", "reserved_bytes"):
        if key in runs[0]:
            found[key] = max(run[key] for run in runs)
    return found


def say(row: Figures) -> str:
    ours = row["ours"]
    text = f"{row['preset']} {ours['target_tokens_per_s']:,.0f} target tokens/s, {ours['flop_utilisation']:.1%} of the peak"
    return text


def search(stage: Stage, data: str, test_set: str, checkpoint: pathlib.Path, figures: Figures) -> None:
    """Adds a row per batch size: speed, and the difference between the f32 scores of GPU and CPU."""
    setting = stage.setting
    words = [
        setting.program("bench_decode"),
        *flags(data=setting.prepared(data), set=test_set, checkpoint=checkpoint, threads=threads(stage)),
    ]
    few = 8 if setting.quick else 64
    there, here = (
        stage.run(*words, "--device", device, "--precision", "f32", "--sentences", few, "--repeats", 1).json()[
            "mean_log_probability"
        ]
        for device in (setting.device, "cpu")
    )
    keys = (
        "beam",
        "sentences",
        "sentences_per_s",
        "target_tokens_per_s",
        "roofline_fraction",
        "mean_log_probability",
        "parameters",
    )
    for batch in (8,) if setting.quick else (64, 256):
        more = ["--sentences", few] if setting.quick else []
        run = stage.run(
            *words, *flags(device=setting.device, batch_sentences=batch, repeats=1 if setting.quick else 3), *more
        ).json()
        error = abs(there - here) / max(abs(here), 1e-9)
        figures["rows"].append(
            {"data": data, "batch_sentences": batch, "error": error} | {key: run[key] for key in keys}
        )
        stage.keep(figures)


def decode(stage: Stage) -> tuple[str, Figures]:
    """Measures beam search with the checkpoints of earlier parts, and compares its f32 scores with the CPU's."""
    figures: Figures = {"rows": []}
    for data, test_set in (("multi30k", "test"), ("tatoeba", "valid")):
        checkpoint = stage.setting.work / data / "average"
        if checkpoint.is_dir():
            search(stage, data, test_set, checkpoint, figures)
    if not figures["rows"]:
        raise Missing("no checkpoint of the parts multi30k and tatoeba")
    worst = max(row["error"] for row in figures["rows"])
    fastest = max(figures["rows"], key=lambda row: row["sentences_per_s"])
    found = (
        f"{fastest['sentences_per_s']:,.0f} sentences/s ({fastest['data']}, beam {fastest['beam']}); scores differ by "
        f"{worst:.1e} from the processor's"
    )
    if worst > 1e-3:
        raise Failed(f"{found}, expected 1e-3", figures)
    return found, figures
