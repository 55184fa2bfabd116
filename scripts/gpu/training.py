"""Parts that train: a training twice, a training that moves between CPU and GPU, and trainings to a BLEU score."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import shutil
import statistics

import machine
from stage import MPIRUN, Failed, Figures, Missing, Stage, flags, in_parallel

# From docs/measurements/2026-11-22-multi30k.md: validation BLEU of Multi30k by epochs on the processor, single checkpoints.
MULTI30K_CURVE = (
    (0, 0.0),
    (4, 13.4),
    (8, 28.4),
    (12, 33.3),
    (16, 35.5),
    (20, 37.7),
    (28, 40.0),
    (40, 40.0),
    (80, 41.5),
)
BELOW_THE_CURVE = 3.0  # BLEU: other random numbers, other sentences
MIN_TATOEBA_BLEU = 20.0


@dataclasses.dataclass(frozen=True)
class Run:
    """The folder of a run."""

    folder: pathlib.Path

    def records(self, kind: str) -> list[Figures]:
        """Returns rank 0's step records of all attempts; the later record of an update that was done twice."""
        found = []
        for spool in sorted(
            self.folder.glob("spool/attempt-*/rank-0.jsonl"), key=lambda path: int(path.parent.name[8:])
        ):
            for line in spool.read_text(encoding="utf-8").splitlines():
                record = json.loads(line)
                if record["kind"] == kind:
                    found.append(record)
        return found

    def losses(self) -> dict[int, float]:
        return {step["update"]: step["loss"] for step in self.records("step")}

    def digests(self) -> list[str]:
        return [step["weights_digest"] for step in self.records("step")]

    def take_products(self, other: Run) -> None:
        """Copies the chosen matmul algorithms of another run into this run, which has not begun."""
        self.folder.mkdir(parents=True)
        for file in other.folder.glob("products-rank-*.jsonl"):
            shutil.copy(file, self.folder)

    def copy(self, folder: pathlib.Path) -> Run:
        shutil.copytree(self.folder, folder, symlinks=True)
        return Run(folder)


def train(stage: Stage, run: Run, config: str, data: str, *settings: str, device: str = "", preset: str = "") -> Run:
    """Trains one rank, by default on the device under test."""
    setting = stage.setting
    words = [
        setting.program("worker"),
        *flags(config=setting.root / "configs" / config, server="none", run_dir=run.folder),
        f"data.folder={setting.prepared(data)}",
        f"training.device={device or setting.device}",
    ]
    stage.run(*words, *([f"preset={preset}"] if preset else []), *settings).require()
    return run


SHORT = ("data.valid_set=", "validation.every=0", "validation.bleu_every=0", "checkpoint.every=0")


def updates(stage: Stage, many: int) -> int:
    return 4 if stage.setting.quick else many


def small(stage: Stage) -> tuple[str, ...]:
    return ("data.tokens_per_update=256", "training.threads=1") if stage.setting.quick else ()


def determinism(stage: Stage) -> tuple[str, Figures]:
    """Trains twice and compares the bits of the weights after every update."""
    figures: Figures = {}
    for preset, many in (("transformer-tiny", 60), ("transformer-base", 15)):
        if stage.setting.quick and preset != "transformer-tiny":
            continue
        digests = []
        for name in ("first", "second"):
            run = Run(stage.folder / f"{preset}-{name}")
            if name == "second":
                run.take_products(Run(stage.folder / f"{preset}-first"))
            train(
                stage,
                run,
                "multi30k-tiny.yaml",
                "multi30k",
                *SHORT,
                *small(stage),
                "training.digest_every=1u",
                f"training.stop_after={updates(stage, many)}u",
                preset=preset,
            )
            digests.append(run.digests())
        figures[preset] = {"updates": len(digests[0]), "digest": digests[0][-1] if digests[0] else ""}
        if len(digests[0]) != updates(stage, many) or not all(digests[0]):
            raise Failed(f"{preset}: {len(digests[0])} updates with digests, expected {updates(stage, many)}", figures)
        if digests[0] != digests[1]:
            first = next((i for i, pair in enumerate(zip(*digests)) if pair[0] != pair[1]), len(digests[1]))
            raise Failed(f"{preset}: two trainings have other weights after update {first + 1}", figures)
    counts = ", ".join(f"{name} {one['updates']}" for name, one in figures.items())
    return f"the same bits after every update ({counts})", figures


def apart(a: float, b: float) -> float:
    return abs(a - b) / max(abs(a), 1e-9)


def exchange(stage: Stage) -> tuple[str, Figures]:
    """Continues a checkpoint of the CPU on the GPU and back, in f32, and compares the losses with those of a training on
    the CPU alone."""
    many = updates(stage, 20)
    common = (*SHORT, *small(stage), "training.precision=f32")

    def until(run: Run, device: str, last: int) -> Run:
        return train(
            stage, run, "multi30k-tiny.yaml", "multi30k", *common, f"training.stop_after={last}u", device=device
        )

    ours = stage.setting.device
    processor = until(Run(stage.folder / "processor"), "cpu", many)
    moved = processor.copy(stage.folder / "moved")
    first, second = in_parallel([lambda: until(processor, "cpu", 3 * many), lambda: until(moved, ours, 2 * many)], 2)
    for result in (first, second):
        if isinstance(result, Exception):
            raise result
    back = moved.copy(stage.folder / "back")
    until(back, "cpu", 3 * many)
    until(moved, ours, 2 * many + 1)
    a, b, c = processor.losses(), moved.losses(), back.losses()
    figures: Figures = {
        "updates": 3 * many,
        "to_the_gpu": apart(a[many + 1], b[many + 1]),
        "to_the_processor": apart(b[2 * many + 1], c[2 * many + 1]),
        "course": max(apart(a[update], c[update]) for update in range(many + 1, 3 * many + 1)),
    }
    found = (
        f"losses differ by {figures['to_the_gpu']:.1e} where the GPU takes over, {figures['to_the_processor']:.1e} where "
        f"the processor does, at most {figures['course']:.1e} over {2 * many} updates"
    )
    if max(figures["to_the_gpu"], figures["to_the_processor"]) > 1e-4 or figures["course"] > 2e-2:
        raise Failed(f"{found}; expected 1e-4, 1e-4, 2e-2", figures)
    return found, figures


def ranks(stage: Stage) -> tuple[str, Figures]:
    """Runs NCCL's tests. Two ranks are refused on one GPU; on two GPUs they train alike with each way of summing."""
    setting = stage.setting
    figures: Figures = {}
    tests = stage.run("mpirun", "--oversubscribe", "-np", 2, setting.program("test_mpi_nccl"), most=stage.left() / 2)
    figures["test_mpi_nccl"] = tests.output.splitlines()[-1][:200] if tests.output else ""
    stage.keep(figures)
    if machine.count_gpus()[0] >= 2 or setting.quick:
        tests.require()
    # Two ranks on one GPU is more than NCCL promises.
    nccl = "NCCL's tests pass" if tests.code == 0 else f"NCCL's tests end with exit code {tests.code} on one GPU"
    words = [
        *MPIRUN,
        2,
        setting.program("worker"),
        *flags(config=setting.root / "configs" / "multi30k-tiny.yaml", server="none"),
        f"data.folder={setting.prepared('multi30k')}",
        *SHORT,
        f"training.stop_after={updates(stage, 20)}u",
    ]
    if setting.quick or machine.count_gpus()[0] < 2:
        done = stage.run(*words, "--run-dir", stage.folder / "refused", "training.device=cuda")
        wanted = "device cuda" if setting.quick else "would share one GPU"
        figures["refusal"] = line = next(
            (line for line in (done.errors + done.output).splitlines() if wanted in line), ""
        )
        if done.code == 0 or not line:
            raise Failed(f"two ranks on one GPU: exit code {done.code}, expected a refusal in one line", figures)
        return f"{nccl}; two ranks are refused: {line[-160:]}", figures
    losses = {}
    for way in ("nccl", "nccl_ring", "ring"):
        run = Run(stage.folder / way)
        stage.run(*words, "--run-dir", run.folder, "training.device=cuda", f"communication.all_reduce={way}").require()
        losses[way] = list(run.losses().values())
    figures["losses"] = losses
    worst = max(apart(a, b) for way in losses.values() for a, b in zip(losses["ring"], way))
    figures["apart"] = worst
    if worst > 1e-2:
        raise Failed(f"two GPUs: losses by NCCL and through the host differ by {worst:.1e}, expected 1e-2", figures)
    return f"{nccl}; two GPUs train alike by {', '.join(losses)} (losses within {worst:.1e})", figures


def expected_bleu(epochs: float) -> float:
    """Interpolates the expected BLEU on the curve."""
    for (a, low), (b, high) in zip(MULTI30K_CURVE, MULTI30K_CURVE[1:]):
        if epochs <= b:
            return low + (high - low) * (epochs - a) / (b - a)
    return MULTI30K_CURVE[-1][1]


def course(run: Run) -> Figures:
    """Returns rates, and the share of each part in the time of an update."""
    steps = run.records("step")
    late = steps[len(steps) // 2 :]  # without the start
    whole = sum(step["step_ms"] for step in late)
    parts = ("data_ms", "forward_ms", "backward_ms", "exposed_communication_ms", "optimizer_ms", "other_ms")
    figures: Figures = {
        "updates": steps[-1]["update"],
        "epochs": steps[-1]["epoch"],
        "first_loss": steps[0]["loss"],
        "last_loss": steps[-1]["loss"],
        "step_ms": statistics.median(step["step_ms"] for step in late),
        "target_tokens_per_s": 1e3 * sum(step["update_target_tokens"] for step in late) / whole,
        "skipped": sum(bool(step.get("skipped")) for step in steps),
    }
    figures["split"] = {part: sum(step.get(part, 0) for step in late) / whole for part in parts}
    figures["unexplained"] = abs(1 - sum(figures["split"].values())) + abs(figures["split"]["other_ms"])
    return figures


def real_run(stage: Stage, config: str, data: str, test_set: str, *settings: str) -> Figures:
    """Trains to the end or until most of the time is used, averages checkpoints, translates, scores."""
    setting = stage.setting
    minutes = (stage.left() * 0.8 - 10) / 60
    if minutes <= 0:
        raise Missing("too little time was left")
    limit = [f"training.stop_after={updates(stage, 0)}u"] if setting.quick else [f"training.max_minutes={minutes:.3f}"]
    run = train(
        stage, Run(stage.folder / "run"), config, data, "validation.bleu_every=0", *small(stage), *settings, *limit
    )
    figures = course(run)
    nmt, average = setting.program("nmt"), stage.folder / "average"
    kept = len(list((run.folder / "checkpoints").glob("update-*")))
    stage.run(nmt, "average", "--last", min(kept, 10), "--output", average, run.folder).require()
    words = ["--max-sentences", 4] if setting.quick else []
    report = stage.run(
        nmt,
        "evaluate",
        *flags(checkpoint=average, data=setting.prepared(data), set=test_set, device=setting.device),
        "--json",
        *words,
    ).json()
    return figures | {
        "checkpoint": str(average),
        "averaged": min(kept, 10),
        "set": test_set,
        "sacrebleu": report["sacrebleu"],
        "signature": report["signature"],
        "perplexity": report["perplexity"],
        "sentences_per_second": report["sentences_per_second"],
    }


def words_of(figures: Figures) -> str:
    return (
        f"SacreBLEU {figures['sacrebleu']:.2f} after {figures['updates']} updates, {figures['epochs']:.1f} epochs, "
        f"{figures['target_tokens_per_s']:,.0f} target tokens/s"
    )


def multi30k(stage: Stage) -> tuple[str, Figures]:
    """Trains transformer-tiny on Multi30k and compares BLEU with the curve of docs/measurements/2026-11-22-multi30k.md."""
    figures = real_run(stage, "multi30k-tiny.yaml", "multi30k", "test")
    least = expected_bleu(figures["epochs"]) - BELOW_THE_CURVE
    figures["expected_sacrebleu"] = least
    if not stage.setting.quick and figures["sacrebleu"] < least:
        raise Failed(f"{words_of(figures)}; expected {least:.1f}", figures)
    return words_of(figures), figures


def tatoeba(stage: Stage) -> tuple[str, Figures]:
    """Trains transformer-base on Tatoeba, 25,000 target tokens an update."""
    preset = "preset=transformer-tiny" if stage.setting.quick else "preset=transformer-base"
    figures = real_run(
        stage,
        "wmt16-transformer-base.yaml",
        "tatoeba",
        "valid",
        preset,
        "data.micro_batch_tokens=0",
        "model.dropout=0.2",
        "optimizer.warm_up=400u",
        "optimizer.learning_rate=0.001",
        "optimizer.clip_norm=1",
        "validation.every=0",
        "checkpoint.every=2e",
        "checkpoint.keep_last=3",
        "training.log_every=1e",
    )
    if not stage.setting.quick and figures["sacrebleu"] < MIN_TATOEBA_BLEU:
        raise Failed(f"{words_of(figures)}; expected {MIN_TATOEBA_BLEU}", figures)
    return words_of(figures), figures
