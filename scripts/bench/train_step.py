"""scripts/bench.sh train-step: one measurement of bench_train_step, or a comparison in turns."""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
import tempfile

import comparison
import figures
import texts
from metrics_server import metrics_server
from runs import Run, in_turns, program, run

# Options of bench_train_step under the same names.
PASSED_ON = (
    "preset",
    "precision",
    "threads",
    "sentences",
    "source_length",
    "target_length",
    "vocabulary",
    "dropout",
    "attention_dropout",
    "activation_dropout",
    "updates",
    "warmup",
    "repeats",
)
OWN_BASELINE = pathlib.Path(__file__).with_name("torch_step.py")


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--preset", choices=["tiny", "base"], default="base")
    parser.add_argument("--precision", choices=["bf16", "f32"], default="bf16")
    parser.add_argument("--threads", type=int, default=2, help="of each rank")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--sentences", type=int, default=64, help="pairs of an update, over all ranks")
    parser.add_argument("--source-length", type=int, default=32)
    parser.add_argument("--target-length", type=int, default=32)
    parser.add_argument("--vocabulary", type=int, help="default: the preset's, 32000 or 10000")
    parser.add_argument("--dropout", type=float, help="on embeddings and sub-layer outputs; default: the preset's")
    parser.add_argument("--attention-dropout", type=float, default=0.0)
    parser.add_argument("--activation-dropout", type=float, default=0.0)
    parser.add_argument("--updates", type=int, default=5, help="timed, in each repeat")
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=5, help="of a comparison")
    parser.add_argument("--bind-to", default="none", help="mpirun's, of each rank: none, core or hwthread")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument(
        "--against-pytorch", action="store_true", help="needs Debian's python3-torch, libopenblas0-openmp"
    )
    modes.add_argument("--compare-ranks", action="store_true")
    modes.add_argument("--weak-scaling", action="store_true")
    modes.add_argument("--against-build", type=pathlib.Path, help="folder with another build's bench_train_step")
    modes.add_argument("--text", help="SRC,TGT: two files, plain or gzip; or a folder of nmt prepare")
    modes.add_argument("--metrics-cost", action="store_true")
    modes.add_argument(
        "--tracing-cost",
        choices=["parameters", "timeline", "ledger"],
        help="of this tool of the lab (docs/lab.md); ledger: the memory inside every update",
    )
    parser.add_argument("--baseline", type=pathlib.Path, default=OWN_BASELINE, help="script to compare with")
    parser.add_argument("--baseline-python", default="/usr/bin/python3", help="a Python with Debian's PyTorch")
    parser.add_argument("--pieces", type=int, default=8000, help="of the vocabulary made of --text")
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="-- and options of bench_train_step, such as --norm pre")


def measure(
    options: argparse.Namespace, programs: pathlib.Path, *extra: str | int, companion: int | None = None, **changes: int
) -> Run:
    """Runs bench_train_step, in one process or under mpirun; `changes` are options with other values."""
    options = argparse.Namespace(**vars(options) | changes)
    launcher = ["mpirun", "-np", options.ranks, "--bind-to", options.bind_to] if options.ranks > 1 else []
    words = [*launcher, program(programs, "bench_train_step")]
    for name in PASSED_ON:
        if getattr(options, name) is not None:
            words += ["--" + name.replace("_", "-"), getattr(options, name)]
    words += [word for word in options.rest if word != "--"]
    return run([str(word) for word in [*words, *extra]], companion)


def measure_pytorch(options: argparse.Namespace) -> Run:
    dtype = {"bf16": "bf16", "f32": "fp32"}[options.precision]
    words = [
        options.baseline_python,
        options.baseline,
        "--tuned",
        "--preset",
        options.preset,
        "--dtype",
        dtype,
        "--threads",
        options.threads,
        "--batch-sentences",
        options.sentences // options.ranks,
        "--processes",
        options.ranks,
        "--src-len",
        options.source_length,
        "--tgt-len",
        options.target_length,
        "--attn-dropout",
        options.attention_dropout,
        "--act-dropout",
        options.activation_dropout,
        "--steps",
        options.updates,
        "--warmup-steps",
        options.warmup,
    ]
    if options.dropout is not None:
        words += ["--dropout", options.dropout]
    if options.vocabulary is not None:
        if options.baseline != OWN_BASELINE:
            sys.exit(
                "bench: --vocabulary: only this repository's baseline has the option; leave it out with --baseline"
            )
        words += ["--vocabulary", options.vocabulary]
    return run([str(word) for word in words])


def target_rate(one: Run) -> float:
    return one.number("target_tokens_per_s")


def all_rate(one: Run) -> float:
    return one.number("tokens_per_s_mean")


def own_memory(one: Run) -> float:
    return one.number("peak_memory_bytes")


def side(name: str, measured, rate=target_rate) -> comparison.Side:
    return comparison.Side(name, measured, rate, own_memory)


def report(mode: str, ours: comparison.Side, theirs: comparison.Side, pairs: int, **more: object) -> dict[str, object]:
    done, left_out = in_turns(ours.run, theirs.run, pairs)
    print(comparison.table(ours, theirs, done, "tok/s"))
    result = {"bench": "train_step", "mode": mode, **comparison.summary(ours, theirs, done, left_out), **more}
    ratio = result["ratio"]
    assert isinstance(ratio, dict)
    print(f"{ours.name} / {theirs.name}: {ratio['median']:.3f} ({ratio['min']:.3f} to {ratio['max']:.3f})")
    ours_runs = [a for a, _ in done]
    result["roofline_fraction"] = figures.spread([one.number("roofline_fraction") for one in ours_runs])
    result["last_of_ours"] = {key: value for key, value in ours_runs[-1].result.items() if key != "ops"}
    return result


def against_pytorch(options: argparse.Namespace, programs: pathlib.Path) -> dict[str, object]:
    ours = side("ours", lambda: measure(options, programs, "--observed", 0))
    theirs = comparison.Side(
        "PyTorch",
        lambda: measure_pytorch(options),
        lambda one: one.number("tokens_per_s"),
        lambda one: one.memory_bytes,
    )
    return report("against_pytorch", ours, theirs, options.pairs)


def against_build(options: argparse.Namespace, programs: pathlib.Path) -> dict[str, object]:
    ours = side("this build", lambda: measure(options, programs, "--observed", 0))
    theirs = side("the other", lambda: measure(options, options.against_build, "--observed", 0))
    return report("against_build", ours, theirs, options.pairs)


def compare_ranks(options: argparse.Namespace, programs: pathlib.Path) -> dict[str, object]:
    ours = side("2 ranks", lambda: measure(options, programs, "--observed", 0, ranks=2, threads=1))
    theirs = side("1 rank, 2 threads", lambda: measure(options, programs, "--observed", 0, ranks=1, threads=2))
    return report("compare_ranks", ours, theirs, options.pairs)


def weak_scaling(options: argparse.Namespace, programs: pathlib.Path) -> dict[str, object]:
    """Tokens a second and rank of two ranks against those of one."""
    ours = side(
        "2 ranks, each",
        lambda: measure(options, programs, "--observed", 0, ranks=2, threads=1, sentences=2 * options.sentences),
        lambda one: target_rate(one) / 2,
    )
    theirs = side("1 rank", lambda: measure(options, programs, "--observed", 0, ranks=1, threads=1))
    return report("weak_scaling", ours, theirs, options.pairs)


def real_text(options: argparse.Namespace, programs: pathlib.Path) -> dict[str, object]:
    """Source and target tokens a second, since the two sides of a text differ; means, since updates do."""
    folder = texts.prepared(programs, options.text, options.pieces)
    tokens = options.sentences * options.target_length
    text = ["--observed", "0", "--data", str(folder), "--tokens", str(tokens)]
    first = measure(options, programs, *text)
    lengths = {
        f"{which}_length": figures.same_length(first.number(f"{which}_tokens_per_step"), options.sentences)
        for which in ("source", "target")
    }
    fixed = lengths | {"vocabulary": int(first.number("vocabulary"))}
    return report(
        "text",
        side("text", lambda: measure(options, programs, *text), all_rate),
        side("one length", lambda: measure(options, programs, "--observed", 0, **fixed), all_rate),
        options.pairs,
        text=options.text,
        lengths=lengths,
        tokens_per_update=tokens,
    )


def records_cost(one: Run, updates: int) -> dict[str, float]:
    """The processor time for the records of an update: of the training thread, the reporter and the server; and their share
    of the time of all processors. Rates of runs in turns differ by more than that."""
    cost = {
        "update_ms": one.number("report_ms"),
        "reporter_ms": one.number("reporter_processor_s") / updates * 1e3,
        "server_ms": one.companion_s / updates * 1e3,
    }
    return cost | {"share": sum(cost.values()) / one.number("step_ms") / (os.cpu_count() or 1)}


def metrics_cost(options: argparse.Namespace, programs: pathlib.Path) -> dict[str, object]:
    costs = []
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        metrics_server(programs, pathlib.Path(folder)) as server,
    ):
        spools = iter(range(10**6))

        def reporting() -> Run:
            one = measure(
                options,
                programs,
                "--observed",
                0,
                "--spool",
                f"{folder}/spool-{next(spools)}",
                "--server",
                server.address,
                companion=server.pid,
            )
            costs.append(records_cost(one, options.warmup + options.updates * options.repeats))
            return one

        ours = side("reporting", reporting, lambda one: one.number("target_tokens_per_s_mean"))
        theirs = side("silent", lambda: measure(options, programs, "--observed", 0), ours.rate)
        result = report("metrics_cost", ours, theirs, options.pairs)
    cost = {key: figures.spread([one[key] for one in costs]) for key in costs[0]}
    print(
        "processor time of an update's records: "
        + ", ".join(
            f"{key.removesuffix('_ms')} {cost[key]['median']:.3f} ms"
            for key in ("update_ms", "reporter_ms", "server_ms")
        )
        + f"; {cost['share']['median']:.2%} of the processors' time ({cost['share']['min']:.2%} to {cost['share']['max']:.2%})"
    )
    return result | {"cost": cost}


def tracing_cost(options: argparse.Namespace, programs: pathlib.Path) -> dict[str, object]:
    tool = options.tracing_cost
    ours = side(tool + " on", lambda: measure(options, programs, "--observed", 0, "--lab", tool))
    theirs = side("off", lambda: measure(options, programs, "--observed", 0))
    return report("tracing_cost", ours, theirs, options.pairs, tool=tool)


def main(options: argparse.Namespace, programs: pathlib.Path) -> dict[str, object]:
    for chosen, mode in (
        (options.against_pytorch, against_pytorch),
        (options.against_build, against_build),
        (options.compare_ranks, compare_ranks),
        (options.weak_scaling, weak_scaling),
        (options.text, real_text),
        (options.metrics_cost, metrics_cost),
        (options.tracing_cost, tracing_cost),
    ):
        if chosen:
            return mode(options, programs)
    one = measure(options, programs)
    print(one.output)
    print(f"others busy {one.others_busy:.1%}, steal {one.steal:.1%}{': disturbed' if one.disturbed else ''}")
    return one.result | {"others_busy": one.others_busy, "steal": one.steal}
