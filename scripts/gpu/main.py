#!/usr/bin/env python3
"""The program behind scripts/gpu_check.sh: runs the parts in sequence or in parallel, in bounded time."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import pathlib
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable

import cluster
import launches
import machine
import report
import op_speed
import speed
import tests
import training
from stage import STOPPED, Failed, Figures, Late, Missing, Setting, Stage, in_parallel, stop_all

ROOT = pathlib.Path(__file__).resolve().parents[2]
NO_GPU = 3
KILLING = 5  # seconds that ending an earlier part may take
# Folders of programs, where none is named: a bundle's, and those of builds that have tests and benchmarks.
BUILDS = ("bin", "build/gpu/bin", "build/dev/bin", "build/ci/bin")


@dataclasses.dataclass(frozen=True)
class Part:
    """`most`: time limit in seconds; a part that exceeds it hangs and has failed. `least`: seconds reserved for it while
    earlier parts run. Parts of one group run at once: they use the processor more than the GPU, and time nothing."""

    name: str
    run: Callable[[Stage], tuple[str, Figures]]
    most: float
    least: float = 5
    group: str = ""


# The most important parts, in two minutes.
FIRST = (
    Part("start", tests.start, 30),
    Part("test_ops", tests.suites_of_ops, 60, 15, group="ops"),
    Part("compile_base", speed.compile_base, 150, 0, group="ops"),
    Part("updates", speed.updates, 60, 20),
    Part("products", op_speed.products, 30, 8),
    Part("hot_ops", op_speed.hot_ops, 30, 10),
    Part("torch_base", speed.torch_base, 180, 40),
)
PARTS = (
    *FIRST,
    *(
        Part(name, tests.test_program, 120, group="tests")
        for name in (
            "test_layers",
            "test_model",
            "test_decode",
            "test_parallel",
            "test_metering",
            "test_train",
            "test_cuda",
        )
    ),
    Part("routes", tests.routes, 120, group="tests"),
    Part("compile_torch", speed.compile_torch, 150, group="tests"),
    Part("determinism", training.determinism, 60, 20),
    Part("graphs", launches.graphs, 150, 15),
    Part("meter", launches.meter, 60, 15),
    Part("exchange", training.exchange, 90, 25),
    Part("tatoeba", training.tatoeba, 110, 50),
    Part("multi30k", training.multi30k, 130, 60),
    Part("torch", speed.torch, 170, 60),
    Part("torch_attention", op_speed.torch_attention, 60, 20),
    Part("ops", op_speed.ops, 150, 25),
    Part("backends", op_speed.backends, 90, 15),
    Part("decode", speed.decode, 120, 20),
    Part("sanitizer", tests.sanitizer, 130),
    Part("all_reduce", op_speed.all_reduce, 60),
    Part("ranks", training.ranks, 60, 15),
)
# With --cluster, instead of all others.
CLUSTER_PARTS = (
    Part("cluster_start", cluster.start, 60, 20),
    Part("cluster_sums", cluster.sums, 150, 40),
    Part("cluster_scaling", cluster.scaling, 300, 100),
    Part("cluster_bits", cluster.bits, 150, 50),
)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/gpu_check.sh")
    parser.add_argument(
        "--first", action="store_true", help=f"only {', '.join(part.name for part in FIRST)}, in two minutes"
    )
    parser.add_argument(
        "--cluster",
        metavar="HOST:GPUS,...",
        help=f"only {', '.join(part.name for part in CLUSTER_PARTS)}, on these hosts; run it on the first. All have the "
        "programs and --data at the same paths, and mpirun reaches them",
    )
    parser.add_argument("--minutes", type=float, help="for all parts together; default 9, with --first 2")
    parser.add_argument("--only", nargs="+", metavar="PART", help="these parts; --list names them")
    parser.add_argument("--skip", nargs="+", metavar="PART", default=[])
    parser.add_argument("--list", action="store_true", help="name the parts and end")
    parser.add_argument(
        "--device", choices=["cuda", "cpu"], default="cuda", help="cpu: runs the parts that need no GPU, in small sizes"
    )
    parser.add_argument(
        "--bin", type=pathlib.Path, help=f"folder of programs; default: the first with a worker of {', '.join(BUILDS)}"
    )
    parser.add_argument("--data", type=pathlib.Path, help="folder with multi30k, tatoeba and wmt, each of nmt prepare")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("gpu_check"), help="folder of the results")
    parser.add_argument("--torch-python", default="python3", help="a Python with PyTorch")
    parser.add_argument("--keep", action="store_true", help="keep the programs' files, and name their folder")
    return parser.parse_args()


def usage(text: str) -> None:
    print(f"gpu_check: {text} (see --help)", file=sys.stderr)
    raise SystemExit(2)


def chosen_parts(options: argparse.Namespace) -> list[Part]:
    parts = CLUSTER_PARTS if options.cluster else PARTS
    names = [part.name for part in parts]
    for name in (options.only or []) + options.skip:
        if name not in names:
            usage(f"found part '{name}', expected some of: {' '.join(names)}")
    wanted = options.only or ([part.name for part in FIRST] if options.first else names)
    return [part for part in parts if part.name in wanted and part.name not in options.skip]


def find_programs(options: argparse.Namespace) -> pathlib.Path:
    if options.bin is not None:
        if not options.bin.is_dir():
            usage(f"--bin: no folder {options.bin}")
        return options.bin.resolve()
    for build in BUILDS:
        if (ROOT / build / "worker").is_file():
            return ROOT / build
    usage(f"no worker in {' '.join(BUILDS)} of {ROOT}: build, or name a folder with --bin")
    raise AssertionError


class Check:
    """Runs parts and writes all results after each step, so a killed check leaves its measurements."""

    def __init__(self, setting: Setting, minutes: float, out: pathlib.Path) -> None:
        self.setting, self.began = setting, time.monotonic()
        self.ends = self.began + 60 * minutes
        self._results: dict[str, Figures] = {}  # by part, in the order of their beginning
        self._out, self._lock = out, threading.Lock()
        self.unwritten = ""
        self._date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        self._machine = machine.describe()
        bundle = ROOT / "bundle.json"
        self._bundle = json.loads(bundle.read_text()) if bundle.exists() else None

    def log(self, text: str) -> None:
        with self._lock:
            try:
                with open(self._out / "gpu_check.log", "a", encoding="utf-8") as log:
                    log.write(text)
            except OSError as error:
                self._warn(error)

    def _warn(self, error: OSError) -> None:
        if not self.unwritten:
            print(f"gpu_check: results: {error}; the check goes on and prints them", file=sys.stderr, flush=True)
        self.unwritten = str(error)

    def whole(self) -> Figures:
        return {
            "date": self._date,
            "device": self.setting.device,
            "machine": self._machine,
            "bundle": self._bundle,
            "seconds": round(time.monotonic() - self.began, 1),
            "stopped": STOPPED.is_set(),
            "parts": list(self._results.values()),
        }

    def store(self, part: str, result: Figures) -> str:
        """Adds to the result of a part and writes all results; returns the short report."""
        with self._lock:
            if part:
                self._results[part] = self._results.get(part, {"part": part, "figures": {}}) | result
            whole = self.whole()
            try:
                return report.write(whole, self._out)
            except OSError as error:
                self._warn(error)
                return report.text_of(whole, False)  # with the long tables: nothing else has them

    def least(self, part: Part) -> float:
        return 1 if self.setting.quick else part.least

    def run(self, part: Part, later: float) -> None:
        """Runs one part; `later`: seconds reserved for the parts after it."""
        most = part.most * (4 if self.setting.quick else 1)  # on machines that others use too
        allowed = min(most, self.ends - time.monotonic() - later)
        began = time.monotonic()
        self.store(part.name, {"status": "running", "found": "", "seconds": 0})
        result: Figures = {}
        try:
            if allowed < self.least(part) - KILLING or STOPPED.is_set():
                raise Late("not run: the time was over")
            stage = Stage(
                self.setting, part.name, allowed, self.log, lambda figures: self.store(part.name, {"figures": figures})
            )
            result["found"], result["figures"] = part.run(stage)
            result["status"] = "passed"
        except Missing as missing:
            result |= {"status": "missing", "found": str(missing)}
        except Failed as failed:
            cut_short = isinstance(failed, Late) and (allowed < most or STOPPED.is_set())
            result |= {"status": "cut short" if cut_short else "failed", "found": str(failed)}
            if failed.figures:
                result["figures"] = failed.figures
        except Exception as error:  # noqa: BLE001: a part must not stop the others
            result |= {"status": "failed", "found": f"{type(error).__name__}: {error}"}
        result["seconds"] = round(time.monotonic() - began, 1)
        self.store(part.name, result)
        print(
            f"{part.name}: {result['status']} after {result['seconds']} s: {result['found']}",
            file=sys.stderr,
            flush=True,
        )

    def run_all(self, parts: list[Part]) -> None:
        """Runs the parts in order; the first part of a group starts the whole group."""
        waiting = list(parts)
        while waiting:
            group = [part for part in waiting if part is waiting[0] or (part.group and part.group == waiting[0].group)]
            waiting = [part for part in waiting if part not in group]
            later = sum(self.least(part) for part in waiting)
            in_parallel([lambda part=part: self.run(part, later) for part in group], len(group))


def main() -> None:
    options = arguments()
    if options.list:
        print("\n".join(part.name for part in (CLUSTER_PARTS if options.cluster else PARTS)))
        return
    parts = chosen_parts(options)
    try:
        hosts = cluster.hosts_of(options.cluster) if options.cluster else ()
    except ValueError as error:
        usage(f"--cluster: {error}")
    if options.device == "cuda":
        count, why = machine.count_gpus()
        if count == 0:
            print(f"gpu_check: no GPU: {why}; --device cpu tries the check out without one", file=sys.stderr)
            raise SystemExit(NO_GPU)
    programs = find_programs(options)
    options.out.mkdir(parents=True, exist_ok=True)
    for old in options.out.glob("gpu_check.*"):
        old.unlink()
    work = pathlib.Path(tempfile.mkdtemp(prefix="gpu-check-"))
    setting = Setting(
        ROOT,
        programs,
        (options.data or ROOT / "data").resolve(),
        work,
        options.out.resolve(),
        options.device,
        machine.environment(ROOT, programs, options.torch_python),
        options.torch_python,
        hosts,
    )
    print(f"gpu_check: programs of {programs}", file=sys.stderr)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop_all())
    check = Check(setting, options.minutes or (2 if options.first else 9), options.out)
    check.run_all(parts)
    text = check.store("", {})
    if options.keep:
        print(f"gpu_check: what the programs wrote is in {work}", file=sys.stderr)
    else:
        shutil.rmtree(work, ignore_errors=True)
    print(text)
    if STOPPED.is_set():
        raise SystemExit(128 + signal.SIGTERM)
    raise SystemExit(0 if report.all_passed(check.whole()) and not check.unwritten else 1)


if __name__ == "__main__":
    main()
