"""Parts that measure: each op against the card's peak, updates beside PyTorch's, beam search."""

from __future__ import annotations

import statistics

import machine
from stage import Failed, Figures, Missing, Stage, in_parallel

MOST_ERROR = {"bf16": 2e-2, "f32": 1e-4}  # of an op, relative to the largest expected value
# Preset, its text, target tokens of an update, turns.
CASES = (("tiny", "multi30k", 25000, 1), ("base", "wmt", 25000, 2), ("big", "wmt", 25000, 2))
SMALL_CASES = (("tiny", "multi30k", 300, 1),)
UPDATES, WARM_UP = 20, 6
LOSS_APART = 0.35  # first losses of two implementations, whose random weights differ


def peaks_of(result: Figures) -> Figures:
    return {"bf16_tflop_per_s": result["peaks"]["bf16_gflop_per_s"] / 1e3, "f32_tflop_per_s":
            result["peaks"]["f32_gflop_per_s"] / 1e3, "copy_gb_per_s": result["peaks"]["triad_gb_per_s"],
            "read_gb_per_s": result["peaks"]["read_gb_per_s"]}


def threads(stage: Stage) -> int:
    """Of what the processor computes: in small one, for others may be at work."""
    return 1 if stage.setting.quick else 8


def ops(stage: Stage) -> tuple[str, Figures]:
    """Every op at the shapes of base and big; attention by each route."""
    setting = stage.setting
    program = [setting.program("bench_ops"), "--device", setting.device, "--threads", threads(stage)]
    if setting.quick:
        runs = {"": stage.run(*program, "--preset", "tiny", "--tokens", 64, "--repeats", 1, "--only", "layer_norm").json()}
    else:
        sizes = ["--tokens", 25600, "--repeats", 5]
        runs = {"": stage.run(*program, *sizes, "--preset", "base", "big", "--only", "bf16").json(),
                " f32": stage.run(*program, *sizes, "--preset", "base", "--only", "f32").json()}
        for route in ("products", "short", "cudnn"):
            runs[f" by {route}"] = stage.run(*program, *sizes, "--preset", "base", "--only", "attention_forward bf16",
                                             environment={"BABELRING_CUDA_ATTENTION": route}).json()
            back = stage.run(*program, *sizes, "--preset", "base", "--only", "attention_backward bf16",
                             environment={"BABELRING_CUDA_ATTENTION": route}).json()
            runs[f" by {route}"]["rows"] += back["rows"]
    rows = [row | {"op": row["op"] + suffix} for suffix, run in runs.items() for row in run["rows"]]
    figures: Figures = {"backend": runs[""]["backend"], "peaks": peaks_of(runs[""]), "rows": rows}
    wrong = [row for row in rows if not (row["error"] is not None and row["error"] <= MOST_ERROR[row["type"]])]
    if wrong or not rows:
        names = ", ".join(f"{row['op']} ({row['error']})" for row in wrong[:3])
        raise Failed(f"{len(wrong)} of {len(rows)} ops are off by more than {MOST_ERROR}: {names}", figures)
    peak = figures["peaks"]
    return (f"{len(rows)} ops right; peaks {peak['bf16_tflop_per_s']:.0f} TFLOP/s in bf16, {peak['f32_tflop_per_s']:.0f} in f32, "
            f"{peak['copy_gb_per_s'] / 1e3:.2f} TB/s"), figures


def all_reduce(stage: Stage) -> tuple[str, Figures]:
    """A gradient summed over ranks, each with a GPU of its own: by NCCL and by way of the host's memory."""
    many = 2 if stage.setting.quick else min(machine.count_gpus()[0], 8)
    if many < 2:
        raise Missing("skipped: there is one GPU, and each rank needs its own")
    words = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", many, stage.setting.program("bench_all_reduce"), "--device",
             stage.setting.device, "--repeats", 2 if stage.setting.quick else 5, "--largest-mb", 1 if stage.setting.quick else 100]
    figures = stage.run(*words).json()
    best: dict[str, float] = {}
    for row in figures["rows"]:
        best[row["algorithm"]] = max(best.get(row["algorithm"], 0.0), row["bus_gb_per_s"])
    if not best:
        raise Failed("no row of figures", figures)
    return f"{many} ranks, GB/s of a bus: " + ", ".join(f"{name} {rate:.2f}" for name, rate in best.items()), figures


def cases(stage: Stage) -> tuple[tuple[str, str, int, int], ...]:
    return SMALL_CASES if stage.setting.quick else CASES


def sizes(stage: Stage) -> tuple[int, int]:
    """Timed updates, and those before them."""
    return (2, 1) if stage.setting.quick else (UPDATES, WARM_UP)


def step_words(stage: Stage, preset: str, text: str, tokens: int) -> list[object]:
    timed, before = sizes(stage)
    return [stage.setting.program("bench_train_step"), "--preset", preset, "--data", stage.setting.prepared(text), "--tokens",
            tokens, "--dropout", 0.1, "--updates", timed, "--warmup", before, "--threads", threads(stage)]


def batches(stage: Stage, preset: str, text: str, tokens: int) -> str:
    """The file with what both sides are trained on."""
    file = stage.setting.work / f"batches-{preset}.jsonl"
    if not file.exists():
        fresh = file.with_suffix(f".{stage.name}")
        stage.run(*step_words(stage, preset, text, tokens), "--write-batches", fresh).require()
        fresh.rename(file)
    return str(file)


def torch_words(stage: Stage, preset: str, file: str, best: str = "") -> list[object]:
    """`best`: the way of compiling that was the fastest before. Of base all are tried, of others one that works."""
    setting = stage.setting
    timed, before = sizes(stage)
    modes = ["--modes", "eager" if setting.quick else best] if setting.quick or best else []
    modes += [] if preset == "base" else ["--first"]
    return [setting.torch_python, setting.root / "scripts" / "bench" / "torch_gpu_step.py", "--batches", file, "--preset", preset,
            "--dropout", 0.1, "--updates", timed, "--warmup", before, "--device", setting.device, *modes]


def require_torch(stage: Stage) -> str:
    version = machine.torch_version(stage.setting.torch_python)
    if not version:
        raise Missing(f"{stage.setting.torch_python} has no PyTorch")
    if int(version.split(".")[0]) < 2:
        raise Missing(f"{stage.setting.torch_python} has PyTorch {version}, 2.0 or newer is needed")
    return version


def cache(stage: Stage) -> dict[str, str]:
    """What PyTorch compiles is kept for the other part."""
    folder = stage.setting.work / "torch-cache"
    return {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"), "TRITON_CACHE_DIR": str(folder / "triton")}


def compile_torch(stage: Stage) -> tuple[str, Figures]:
    """Has PyTorch compile, beside the tests, what is timed later."""
    version = require_torch(stage)

    def one(preset: str, text: str, tokens: int) -> float:
        return stage.run(*torch_words(stage, preset, batches(stage, preset, text, tokens)),
                         environment=cache(stage)).require().seconds

    results = in_parallel([lambda case=case: one(*case[:3]) for case in cases(stage)], 3)
    figures = {case[0]: result if isinstance(result, float) else str(result) for case, result in zip(cases(stage), results)}
    if all(isinstance(result, Exception) for result in results):
        raise results[0]
    return f"PyTorch {version} compiled in {', '.join(f'{name}: {took}' for name, took in figures.items())} s", figures


def updates(stage: Stage) -> tuple[str, Figures]:
    """Updates of real text, in turns with PyTorch."""
    figures: Figures = {"rows": []}
    try:
        figures["torch"] = require_torch(stage)
    except Missing as why:
        figures["without_torch"] = str(why)
    problems: list[str] = []
    for case in cases(stage):
        row = compare(stage, case, "torch" in figures, problems)
        figures["rows"].append(row)
    figures["graphs"] = graphs(stage, problems)
    found = "; ".join(say(row) for row in figures["rows"])
    if problems:
        raise Failed(f"{'; '.join(problems)[:400]} ({found})", figures)
    return found, figures


def compare(stage: Stage, case: tuple[str, str, int, int], with_torch: bool, problems: list[str]) -> Figures:
    preset, text, tokens, turns = case
    ours: list[Figures] = []
    theirs: list[Figures] = []
    for turn in range(turns):
        observed = 0 if turn + 1 < turns else 1
        ours.append(stage.run(*step_words(stage, preset, text, tokens), "--device", stage.setting.device, "--peak-seconds", 0.05,
                              "--observed", observed).json())
        if with_torch:
            best = theirs[0]["compile"] if theirs else ""
            done = stage.run(*torch_words(stage, preset, batches(stage, preset, text, tokens), best), environment=cache(stage))
            try:
                theirs.append(done.json())
            except Failed as failure:
                problems.append(f"PyTorch, {preset}: {failure}")
                with_torch = False
    row: Figures = {"preset": preset, "ours": summary(ours), "ops": ours[-1].get("ops", [])}
    for one in ours:
        if not one["last_loss"] < one["first_loss"] + 0.05:
            problems.append(f"{preset}: the loss went from {one['first_loss']:.3f} to {one['last_loss']:.3f}")
    if theirs:
        row["torch"] = summary(theirs) | {key: theirs[0][key] for key in ("attention", "compile", "padding", "tried", "failed")}
        row["torch"]["flop_utilisation"] = (row["ours"]["flop_utilisation"] * row["torch"]["target_tokens_per_s"]
                                            / row["ours"]["target_tokens_per_s"])
        row["ratios"] = [a["target_tokens_per_s"] / b["target_tokens_per_s"] for a, b in zip(ours, theirs)]
        apart = abs(ours[0]["first_loss"] - theirs[0]["first_loss"])
        if ours[0]["parameters"] != theirs[0]["parameters"] or apart > LOSS_APART:
            problems.append(f"{preset}: the models differ: {ours[0]['parameters']} and {theirs[0]['parameters']} parameters, "
                            f"first losses {ours[0]['first_loss']:.3f} and {theirs[0]['first_loss']:.3f}")
    return row


def summary(runs: list[Figures]) -> Figures:
    """Medians of runs; the memory is the largest."""
    keys = ("target_tokens_per_s", "step_ms", "flop_utilisation", "first_loss", "last_loss", "matmul_gflop_per_s", "forward_ms",
            "backward_ms", "optimizer_ms", "roofline_fraction")
    found = {key: statistics.median(run[key] for run in runs) for key in keys if key in runs[0]}
    for key in ("device_used_bytes", "peak_memory_bytes", "reserved_bytes"):
        if key in runs[0]:
            found[key] = max(run[key] for run in runs)
    return found


def say(row: Figures) -> str:
    ours = row["ours"]
    text = f"{row['preset']} {ours['target_tokens_per_s']:,.0f} target tokens/s, {ours['flop_utilisation']:.1%} of the peak"
    if "ratios" in row:
        text += f", {statistics.median(row['ratios']):.2f} of PyTorch"
    return text


def graphs(stage: Stage, problems: list[str]) -> list[Figures]:
    """An update of one shape without dropout, again and again, as CUDA graphs and without: the same losses to the last bit."""
    rows = []
    for preset, sentences in (("tiny", 16),) if stage.setting.quick else (("tiny", 64), ("tiny", 512), ("base", 64), ("base", 768)):
        words = [stage.setting.program("bench_train_step"), "--preset", preset, "--sentences", sentences, "--dropout", 0,
                 "--updates", 2 if stage.setting.quick else 40, "--warmup", 1 if stage.setting.quick else 8, "--observed", 0,
                 "--peak-seconds", 0.01, "--device", stage.setting.device, "--threads", threads(stage)]
        on, off = (stage.run(*words, *more).json() for more in (["--cuda-graphs"], []))
        same = (on["first_loss"], on["last_loss"]) == (off["first_loss"], off["last_loss"])
        rows.append({"preset": preset, "target_tokens": sentences * 32, "with_ms": on["step_ms"], "without_ms": off["step_ms"],
                     "same_losses": same})
        if not same:
            problems.append(f"{preset}: with CUDA graphs the loss ends at {on['last_loss']}, without at {off['last_loss']}")
    return rows


def decode(stage: Stage) -> tuple[str, Figures]:
    """Beam search with what was trained before: its speed, and its scores beside the processor's in f32."""
    setting = stage.setting
    figures: Figures = {"rows": []}
    for data, test_set in (("multi30k", "test"), ("tatoeba", "valid")):
        checkpoint = setting.work / data / "average"
        if not checkpoint.is_dir():
            continue
        words = [setting.program("bench_decode"), "--data", setting.prepared(data), "--set", test_set, "--checkpoint", checkpoint,
                 "--threads", threads(stage)]
        few = 8 if setting.quick else 64
        there, here = (stage.run(*words, "--device", device, "--precision", "f32", "--sentences", few, "--repeats",
                                 1).json()["mean_log_probability"] for device in (setting.device, "cpu"))
        for batch in (8,) if setting.quick else (64, 256):
            more = ["--sentences", few] if setting.quick else []
            run = stage.run(*words, "--device", setting.device, "--batch-sentences", batch, "--repeats", 1 if setting.quick else 3,
                            *more).json()
            figures["rows"].append({"data": data, "batch_sentences": batch, "error": abs(there - here) / max(abs(here), 1e-9)} | {
                key: run[key] for key in ("beam", "sentences", "sentences_per_s", "target_tokens_per_s", "roofline_fraction",
                                          "mean_log_probability", "parameters")})
    if not figures["rows"]:
        raise Missing("no checkpoint of the parts multi30k and tatoeba")
    worst = max(row["error"] for row in figures["rows"])
    fastest = max(figures["rows"], key=lambda row: row["sentences_per_s"])
    found = (f"{fastest['sentences_per_s']:,.0f} sentences/s ({fastest['data']}, beam {fastest['beam']}); scores differ by "
             f"{worst:.1e} from the processor's")
    if worst > 1e-3:
        raise Failed(f"{found}, expected 1e-3", figures)
    return found, figures
