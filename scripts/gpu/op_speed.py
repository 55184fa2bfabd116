"""Parts that measure ops against the card's peaks, matmuls, and all-reduces."""

from __future__ import annotations

import json

import machine
from stage import MPIRUN, Failed, Figures, Late, Missing, Stage, flags

MAX_ERROR = {"bf16": 2e-2, "f32": 1e-4}  # of an op, relative to the largest expected value
SUMS_OF_BF16 = ("linear_backward_data.dbias f32",)  # results in f32 that sum what the op has stored in bf16


def peaks_of(result: Figures) -> Figures:
    return {
        "bf16_tflop_per_s": result["peaks"]["bf16_gflop_per_s"] / 1e3,
        "f32_tflop_per_s": result["peaks"]["f32_gflop_per_s"] / 1e3,
        "copy_gb_per_s": result["peaks"]["triad_gb_per_s"],
        "read_gb_per_s": result["peaks"]["read_gb_per_s"],
    }


def threads(stage: Stage) -> int:
    """Returns the number of CPU threads: 1 in quick mode, because other programs may run."""
    return 1 if stage.setting.quick else 8


class Ops:
    """Rows of bench_ops. Each is written to a file as soon as it is measured, and is in the figures of the part when the
    program has ended, also after a failure."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.figures, self.problems = stage, {"rows": []}, []
        self.late: Late | None = None

    def measure(self, suffix: str, *words: object, environment: dict[str, str] | None = None) -> None:
        """Runs bench_ops; `suffix` is appended to the names of the rows."""
        if self.late is not None:
            return
        setting = self.stage.setting
        file = setting.out / "rows" / f"{self.stage.name}{suffix.replace(' ', '-')}.jsonl"
        file.parent.mkdir(exist_ok=True)
        file.unlink(missing_ok=True)
        sizes = ["--tokens", 64, "--repeats", 1] if setting.quick else ["--tokens", 25600, "--repeats", 5]
        seconds = max(self.stage.left() - 10, 1)  # the last op begun takes some
        try:
            done = self.stage.run(
                setting.program("bench_ops"),
                "--device",
                setting.device,
                "--threads",
                threads(self.stage),
                *sizes,
                "--rows",
                file,
                "--seconds",
                seconds,
                *words,
                environment=environment,
            ).json()
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
        wrong = [
            f"{row['op']} ({row['error']})"
            for row in rows
            if "failure" not in row and not (row["error"] is not None and row["error"] <= MAX_ERROR[row["type"]])
        ]
        problems = [*self.problems, *crashed]
        if wrong:
            problems.append(f"{len(wrong)} of {len(rows)} ops are off by more than {MAX_ERROR}: {', '.join(wrong[:3])}")
        if problems:
            raise Failed("; ".join(problems)[:500], self.figures)
        if self.late is not None:
            raise Late(f"{len(rows)} ops right; {self.late}", self.figures)
        if not rows:
            raise Failed("no op was measured", self.figures)
        return (
            f"{len(rows)} ops right; peaks {peak['bf16_tflop_per_s']:.0f} TFLOP/s in bf16, {peak['f32_tflop_per_s']:.0f} in f32, "
            f"{peak['copy_gb_per_s'] / 1e3:.2f} TB/s"
        ), self.figures


def compare_backends(stage: Stage, a: str, b: str, preset: str) -> list[Figures]:
    """Returns the rows of `nmt probe backends`, which compares the results of each op by two backends from the same inputs."""
    words = ["--a", a, "--b", b, "--preset", preset, "--batch", "random:16x24/24", "--json"]
    words += ["--precision", "f32"] if stage.setting.quick else []
    return stage.run(stage.setting.program("nmt"), "probe", "backends", *words).json()[preset]["ops"]


def name_of(row: Figures) -> str:
    return f"{row['op']}.{row['member']} {row['dtype']}"


def max_error(row: Figures) -> float:
    """Returns the max relative error of a row: 0 for integers."""
    return MAX_ERROR["bf16"] if name_of(row) in SUMS_OF_BF16 else MAX_ERROR.get(row["dtype"], 0)


def backends(stage: Stage) -> tuple[str, Figures]:
    """Compares GPU with CPU in every op of an update, of decoding and of sums, from the same inputs; then GPU with GPU."""
    figures: Figures = {}
    device, preset = ("cpu", "transformer-tiny") if stage.setting.quick else ("cuda", "transformer-base")
    figures["rows"] = compare_backends(stage, device, "cpu", preset)
    stage.keep(figures)
    wrong = [
        f"{name_of(row)} ({row['relative']})"
        for row in figures["rows"]
        if row["relative"] is None or row["relative"] > max_error(row)
    ]
    if wrong:
        raise Failed(f"{len(wrong)} results are off by more than {MAX_ERROR}: {', '.join(wrong[:3])}", figures)
    figures["twice"] = compare_backends(stage, device, device, preset)
    differing = [name_of(row) for row in figures["twice"] if row["different"] > 0]
    if differing:
        raise Failed(f"two {device} backends differ from the same inputs: {', '.join(differing[:5])}", figures)
    worst = max(figures["rows"], key=lambda row: row["ulp"])
    count = len({row["op"] for row in figures["rows"]})
    return f"{count} ops agree with the CPU, and with themselves; most ULP: {name_of(worst)} {worst['ulp']}", figures


def hot_ops(stage: Stage) -> tuple[str, Figures]:
    """Measures the ops of base whose predicted time is least certain: attention by length, embedding gradient, cross-entropy."""
    found = Ops(stage)
    preset = "tiny" if stage.setting.quick else "base"
    found.measure(
        "",
        "--preset",
        preset,
        "--only",
        "embedding_backward bf16",
        "cross_entropy bf16",
        "attention_forward bf16",
        "attention_backward bf16",
    )
    return found.judge()


def torch_attention(stage: Stage) -> tuple[str, Figures]:
    """Measures PyTorch's attention kernels at lengths of the part hot_ops."""
    setting = stage.setting
    if setting.quick:
        raise Missing("PyTorch's attention kernels are for a GPU")
    if not machine.torch_version(setting.torch_python):
        raise Missing(f"{setting.torch_python} has no PyTorch")
    figures = stage.run(setting.torch_python, setting.root / "scripts" / "bench" / "torch_attention.py").json()
    stage.keep(figures)
    worked = [row for row in figures["rows"] if "failed" not in row]
    if not worked:
        raise Failed(figures["rows"][0]["failed"], figures)
    longest = max(row["length"] for row in worked)
    found = ", ".join(
        f"{row['kernel']} {row['forward_ms']:.2f} and {row['backward_ms']:.2f}"
        for row in worked
        if row["length"] == longest
    )
    return f"ms of forward and backward of sentences of {longest}: {found}", figures


def ops(stage: Stage) -> tuple[str, Figures]:
    """Measures every op at the shapes of base and big, and attention by each route."""
    found = Ops(stage)
    if stage.setting.quick:
        found.measure("", "--preset", "tiny", "--only", "layer_norm")
        return found.judge()
    found.measure("", "--preset", "base", "--only", "bf16", "adam_update", "squared_norm")
    found.measure(" of big", "--preset", "big", "--only", "bf16")
    for route in ("matmuls",):
        found.measure(
            f" by {route}",
            "--preset",
            "base",
            "--only",
            "attention_forward bf16",
            "attention_backward bf16",
            environment={"BABELRING_CUDA_ATTENTION": route},
        )
    found.measure(" in f32", "--preset", "base", "--only", "f32")
    return found.judge()


def products(stage: Stage) -> tuple[str, Figures]:
    """Measures each matmul of base and big: the first proposal of cuBLASLt and the best of 8, and whether it has the epilogue."""
    setting = stage.setting
    file = setting.out / "rows" / "products.jsonl"
    file.parent.mkdir(exist_ok=True)
    file.unlink(missing_ok=True)
    figures: Figures = {"rows": []}
    tokens = 64 if setting.quick else 25600
    words = [
        setting.program("bench_ops"),
        "--products",
        *flags(device=setting.device, threads=threads(stage), tokens=tokens, rows=file),
        "--preset",
        *(["tiny"] if setting.quick else ["base", "big"]),
    ]
    try:
        stage.run(*words).require()
    finally:
        if file.exists():
            figures["rows"] = [
                json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.endswith("}")
            ]
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
    return (
        f"{len(rows)} products, each once: {best:.2f} ms, by cuBLASLt's first proposals {first:.2f} ms; {len(without)} without "
        f"their epilogue"
        + (f": {', '.join(sorted({row['epilogue'] or 'none' for row in without}))}" if without else "")
    ), figures


def all_reduce(stage: Stage) -> tuple[str, Figures]:
    """Measures all-reduces of a gradient over ranks with one GPU each: by NCCL and through host memory."""
    many = 2 if stage.setting.quick else min(machine.count_gpus()[0], 8)
    if many < 2:
        raise Missing("skipped: there is one GPU, and each rank needs its own")
    words = [
        *MPIRUN,
        many,
        stage.setting.program("bench_all_reduce"),
        *flags(
            device=stage.setting.device,
            repeats=2 if stage.setting.quick else 5,
            largest_mb=1 if stage.setting.quick else 100,
        ),
    ]
    figures = stage.run(*words).json()
    best: dict[str, float] = {}
    for row in figures["rows"]:
        best[row["algorithm"]] = max(best.get(row["algorithm"], 0.0), row["bus_gb_per_s"])
    if not best:
        raise Failed("no row of figures", figures)
    return f"{many} ranks, GB/s of a bus: " + ", ".join(f"{name} {rate:.2f}" for name, rate in best.items()), figures
