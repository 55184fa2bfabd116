"""Parts that measure: each op against the card's peak, updates beside PyTorch's, beam search."""

from __future__ import annotations

import json
import statistics

import machine
from stage import Failed, Figures, Late, Missing, Stage, in_parallel

MAX_ERROR = {"bf16": 2e-2, "f32": 1e-4}  # of an op, relative to the largest expected value
# Preset, its text, target tokens of an update. The most telling first.
CASES = (("base", "wmt", 25000), ("big", "wmt", 25000), ("tiny", "multi30k", 25000))
SMALL_CASES = (("tiny", "multi30k", 300),)
# Products are timed in the warm-up, when their shapes first come.
UPDATES, WARM_UP = 20, 20
LOSS_APART = 0.35  # first losses of two implementations, whose random weights differ


def peaks_of(result: Figures) -> Figures:
    return {"bf16_tflop_per_s": result["peaks"]["bf16_gflop_per_s"] / 1e3, "f32_tflop_per_s":
            result["peaks"]["f32_gflop_per_s"] / 1e3, "copy_gb_per_s": result["peaks"]["triad_gb_per_s"],
            "read_gb_per_s": result["peaks"]["read_gb_per_s"]}


def threads(stage: Stage) -> int:
    """Of what the processor computes: in small one, for others may be at work."""
    return 1 if stage.setting.quick else 8


class Ops:
    """Rows of bench_ops. Each is in a file of the results as soon as it is measured, and in the part's figures once the
    program has ended, however that was."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.figures, self.problems = stage, {"rows": []}, []
        self.late: Late | None = None

    def measure(self, suffix: str, *words: object, environment: dict[str, str] | None = None) -> None:
        """`suffix` tells the names of these rows from others."""
        if self.late is not None:
            return
        setting = self.stage.setting
        file = setting.out / "rows" / f"{self.stage.name}{suffix.replace(' ', '-')}.jsonl"
        file.parent.mkdir(exist_ok=True)
        file.unlink(missing_ok=True)
        sizes = ["--tokens", 64, "--repeats", 1] if setting.quick else ["--tokens", 25600, "--repeats", 5]
        seconds = max(self.stage.left() - 10, 1)  # the last op begun takes some
        try:
            done = self.stage.run(setting.program("bench_ops"), "--device", setting.device, "--threads", threads(self.stage), *sizes,
                                  "--rows", file, "--seconds", seconds, *words, environment=environment).json()
            self.figures.setdefault("backend", done["backend"])
            self.figures.setdefault("peaks", peaks_of(done))
            if done["left_out"] > 0:
                self.late = Late(f"{done['left_out']} ops were left out for want of time")
        except Late as late:
            self.late = late
        except Failed as failed:
            self.problems.append(f"bench_ops{suffix}: {failed}")
        if file.exists():
            rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
            self.figures["rows"] += [row | {"op": row["op"] + suffix} for row in rows]
        self.stage.keep(self.figures)

    def judge(self) -> tuple[str, Figures]:
        rows, peak = self.figures["rows"], self.figures.get("peaks", {})
        crashed = [f"{row['op']}: {row['failure']}" for row in rows if "failure" in row]
        wrong = [f"{row['op']} ({row['error']})" for row in rows
                 if "failure" not in row and not (row["error"] is not None and row["error"] <= MAX_ERROR[row["type"]])]
        problems = [*self.problems, *crashed]
        if wrong:
            problems.append(f"{len(wrong)} of {len(rows)} ops are off by more than {MAX_ERROR}: {', '.join(wrong[:3])}")
        if problems:
            raise Failed("; ".join(problems)[:500], self.figures)
        if self.late is not None:
            raise Late(f"{len(rows)} ops right; {self.late}", self.figures)
        if not rows:
            raise Failed("no op was measured", self.figures)
        return (f"{len(rows)} ops right; peaks {peak['bf16_tflop_per_s']:.0f} TFLOP/s in bf16, {peak['f32_tflop_per_s']:.0f} in f32, "
                f"{peak['copy_gb_per_s'] / 1e3:.2f} TB/s"), self.figures


def hot_ops(stage: Stage) -> tuple[str, Figures]:
    """The ops of base whose time is the least certain: attention by length, the embedding's gradient, cross-entropy."""
    found = Ops(stage)
    preset = "tiny" if stage.setting.quick else "base"
    found.measure("", "--preset", preset, "--only", "embedding_backward bf16", "cross_entropy bf16", "attention_forward bf16",
                  "attention_backward bf16")
    return found.judge()


def ops(stage: Stage) -> tuple[str, Figures]:
    """Every op at the shapes of base and big; attention by each route."""
    found = Ops(stage)
    if stage.setting.quick:
        found.measure("", "--preset", "tiny", "--only", "layer_norm")
        return found.judge()
    found.measure("", "--preset", "base", "--only", "bf16", "adam_update", "squared_norm")
    found.measure(" of big", "--preset", "big", "--only", "bf16")
    for route in ("products", "short", "cudnn"):
        found.measure(f" by {route}", "--preset", "base", "--only", "attention_forward bf16", "attention_backward bf16",
                      environment={"BABELRING_CUDA_ATTENTION": route})
    found.measure(" in f32", "--preset", "base", "--only", "f32")
    return found.judge()


def products(stage: Stage) -> tuple[str, Figures]:
    """Each product of base and big: whether cuBLASLt has its epilogue, its first proposal beside the best of 8."""
    setting = stage.setting
    file = setting.out / "rows" / "products.jsonl"
    file.parent.mkdir(exist_ok=True)
    file.unlink(missing_ok=True)
    figures: Figures = {"rows": []}
    tokens = 64 if setting.quick else 25600
    words = [setting.program("bench_ops"), "--products", "--device", setting.device, "--threads", threads(stage), "--tokens", tokens,
             "--rows", file, "--preset", *(["tiny"] if setting.quick else ["base", "big"])]
    try:
        stage.run(*words).require()
    finally:
        if file.exists():
            figures["rows"] = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
            stage.keep(figures)
    rows = [row for row in figures["rows"] if "failure" not in row]
    crashed = [f"{row['layer']} of {row['preset']}: {row['failure']}" for row in figures["rows"] if "failure" in row]
    if crashed:
        raise Failed("; ".join(crashed)[:500], figures)
    if not rows and setting.quick:
        return "the processor's products leave no choice", figures
    if not rows:
        raise Failed("no product was reported", figures)
    without = [row for row in rows if not row["found"]]
    first, best = (sum(row[key] for row in rows) for key in ("first_ms", "chosen_ms"))
    return (f"{len(rows)} products, each once: {best:.2f} ms, by cuBLASLt's first proposals {first:.2f} ms; {len(without)} without "
            f"their epilogue" + (f": {', '.join(sorted({row['epilogue'] or 'none' for row in without}))}" if without else "")), figures


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


def cases(stage: Stage) -> tuple[tuple[str, str, int], ...]:
    return SMALL_CASES if stage.setting.quick else CASES


def sizes(stage: Stage) -> tuple[int, int]:
    """Timed updates, and those before them."""
    return (2, 1) if stage.setting.quick else (UPDATES, WARM_UP)


def step_words(stage: Stage, preset: str, text: str, tokens: int, warm_up: int | None = None) -> list[object]:
    timed, before = sizes(stage)
    if warm_up is not None:
        before = warm_up
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


def torch_words(stage: Stage, case: tuple[str, str, int], modes: tuple[str, ...]) -> list[object]:
    """`modes`: ways of compiling."""
    setting = stage.setting
    timed, before = sizes(stage)
    return [setting.torch_python, setting.root / "scripts" / "bench" / "torch_gpu_step.py", "--batches", batches(stage, *case),
            "--preset", case[0], "--dropout", 0.1, "--updates", timed, "--warmup", before, "--device", setting.device, "--modes",
            *(("eager",) if setting.quick else modes)]


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
    """Has PyTorch compile, beside the tests and behind them, what the part torch times."""
    version = require_torch(stage)
    figures: Figures = {}

    def one(case: tuple[str, str, int], mode: str) -> None:
        name = f"{case[0]} {mode}"
        try:
            figures[name] = stage.run("nice", "-n", 10, *torch_words(stage, case, (mode,)), environment=cache(stage)).require().seconds
        except Failed as failed:
            figures[name] = str(failed)
        stage.keep(figures)

    for case in {case for case, _ in torch_runs(stage)}:
        batches(stage, *case)
    in_parallel([lambda case=case, mode=mode: one(case, mode) for case, mode in torch_runs(stage)], 3)
    if not any(isinstance(result, float) for result in figures.values()):
        raise Failed(f"PyTorch {version} compiled nothing: {next(iter(figures.values()), 'no time')}", figures)
    return f"PyTorch {version} compiled in {', '.join(f'{name}: {took}' for name, took in figures.items())} s", figures


def torch_runs(stage: Stage) -> list[tuple[tuple[str, str, int], str]]:
    """The models and modes that the part torch runs. The part torch_base runs base in the default mode."""
    if stage.setting.quick:
        return [(SMALL_CASES[0], "eager")]
    base, big, tiny = CASES
    return [(big, "default"), (base, "reduce-overhead"), (tiny, "reduce-overhead"), (big, "reduce-overhead")]


def ours(stage: Stage, case: tuple[str, str, int], observed: int = 0) -> Figures:
    """An update of ours; `observed`: how many to take apart by op."""
    return stage.run(*step_words(stage, *case), "--device", stage.setting.device, "--peak-seconds", 0.05, "--observed",
                     observed).json()


def updates(stage: Stage) -> tuple[str, Figures]:
    """Our updates of real text, with a table of their ops."""
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
    """PyTorch's update of base, or in small of tiny, compiled in its default mode, between two of ours."""
    return beside_torch(stage, [(cases(stage)[0], "default")])


def torch(stage: Stage) -> tuple[str, Figures]:
    """PyTorch's updates of the other models, and of base in other modes, each between two of ours."""
    return beside_torch(stage, torch_runs(stage))


def beside_torch(stage: Stage, runs: list[tuple[tuple[str, str, int], str]]) -> tuple[str, Figures]:
    """A run of PyTorch's that fails or takes too long loses nothing of the others."""
    figures: Figures = {"torch": require_torch(stage), "rows": []}
    problems: list[str] = []
    late: Late | None = None
    for case, mode in runs:
        before = ours(stage, case)
        try:
            theirs = stage.run(*torch_words(stage, case, (mode,)), environment=cache(stage), most=80).json()
            figures["rows"].append(compare(case[0], before, theirs, ours(stage, case), problems))
            stage.keep(figures)
        except Late as why:
            late = why
        except Failed as failed:
            problems.append(f"PyTorch, {case[0]}, {mode}: {failed}")
    found = "; ".join(f"{row['preset']} {row['ratio']:.2f} of PyTorch ({row['torch']['compile']})" for row in figures["rows"])
    if problems:
        raise Failed(f"{'; '.join(problems)[:400]} ({found})", figures)
    if late is not None:
        raise Late(f"{found or 'nothing was measured'}; {late}", figures)
    return found, figures


def compare(preset: str, before: Figures, theirs: Figures, after: Figures, problems: list[str]) -> Figures:
    row: Figures = {"preset": preset, "ours": summary([before, after]),
                    "torch": summary([theirs]) | {key: theirs[key] for key in ("attention", "compile", "padding", "failed")}}
    row["ratio"] = row["ours"]["target_tokens_per_s"] / row["torch"]["target_tokens_per_s"]
    row["torch"]["flop_utilisation"] = row["ours"]["flop_utilisation"] / row["ratio"]
    apart = abs(before["first_loss"] - theirs["first_loss"])
    if before["parameters"] != theirs["parameters"] or apart > LOSS_APART:
        problems.append(f"{preset}: the models differ: {before['parameters']} and {theirs['parameters']} parameters, "
                        f"first losses {before['first_loss']:.3f} and {theirs['first_loss']:.3f}")
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
    return text


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
            stage.keep(figures)
    if not figures["rows"]:
        raise Missing("no checkpoint of the parts multi30k and tatoeba")
    worst = max(row["error"] for row in figures["rows"])
    fastest = max(figures["rows"], key=lambda row: row["sentences_per_s"])
    found = (f"{fastest['sentences_per_s']:,.0f} sentences/s ({fastest['data']}, beam {fastest['beam']}); scores differ by "
             f"{worst:.1e} from the processor's")
    if worst > 1e-3:
        raise Failed(f"{found}, expected 1e-3", figures)
    return found, figures
