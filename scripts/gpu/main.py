#!/usr/bin/env python3
"""What scripts/gpu_check.sh runs: its parts, one after another or beside each other, in bounded time."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import pathlib
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable

import machine
import report
import speed
import tests
import training
from stage import Failed, Figures, Late, Missing, Setting, Stage, in_parallel

ROOT = pathlib.Path(__file__).resolve().parents[2]
NO_GPU = 3
# Folders of programs, where none is named: a bundle's, and those of builds that have tests and benchmarks.
BUILDS = ("bin", "build/gpu/bin", "build/dev/bin", "build/ci/bin")


@dataclasses.dataclass(frozen=True)
class Part:
    """`most`: seconds it may take. `least`: seconds kept for it when earlier parts are slow. Those beside each other run at
    once: they are busy with the processor more than with the GPU, and nothing is timed."""

    name: str
    run: Callable[[Stage], tuple[str, Figures]]
    most: float
    least: float = 5
    beside: bool = False


PARTS = (
    Part("start", tests.start, 60),
    *(Part(name, tests.test_program, 120, beside=True) for name in
      ("test_ops", "test_layers", "test_model", "test_decode", "test_train", "test_cuda")),
    Part("routes", tests.routes, 120, beside=True),
    Part("sanitizer", tests.sanitizer, 130, beside=True),
    Part("compile_torch", speed.compile_torch, 150, beside=True),
    Part("determinism", training.determinism, 40, 20),
    Part("exchange", training.exchange, 60, 25),
    Part("ranks", training.ranks, 45, 15),
    Part("all_reduce", speed.all_reduce, 60, 5),
    Part("ops", speed.ops, 60, 25),
    Part("updates", speed.updates, 160, 80),
    Part("multi30k", training.multi30k, 100, 60),
    Part("tatoeba", training.tatoeba, 80, 50),
    Part("decode", speed.decode, 40, 20),
)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/gpu_check.sh")
    parser.add_argument("--minutes", type=float, default=9, help="for all parts together")
    parser.add_argument("--only", nargs="+", metavar="PART", help="these parts; --list names them")
    parser.add_argument("--skip", nargs="+", metavar="PART", default=[])
    parser.add_argument("--list", action="store_true", help="name the parts and end")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda",
                        help="cpu: tries out, in small, what runs without a GPU")
    parser.add_argument("--bin", type=pathlib.Path, help=f"folder of programs; default: the first with a worker of {', '.join(BUILDS)}")
    parser.add_argument("--data", type=pathlib.Path, help="folder with multi30k, tatoeba and wmt, each of nmt prepare")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("gpu_check"), help="folder of the results")
    parser.add_argument("--torch-python", default="python3", help="the Python that has PyTorch")
    parser.add_argument("--keep", action="store_true", help="keep what the programs wrote, and say where")
    return parser.parse_args()


def usage(text: str) -> None:
    print(f"gpu_check: {text} (see --help)", file=sys.stderr)
    raise SystemExit(2)


def chosen_parts(options: argparse.Namespace) -> list[Part]:
    names = [part.name for part in PARTS]
    for name in (options.only or []) + options.skip:
        if name not in names:
            usage(f"found part '{name}', expected some of: {' '.join(names)}")
    return [part for part in PARTS if part.name in (options.only or names) and part.name not in options.skip]


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
    """Runs parts and collects what they found."""

    def __init__(self, setting: Setting, minutes: float, log: pathlib.Path) -> None:
        self.setting, self.ends = setting, time.monotonic() + 60 * minutes
        self.results: list[Figures] = []
        self._log, self._lock = log, threading.Lock()

    def write(self, text: str) -> None:
        with self._lock, open(self._log, "a", encoding="utf-8") as log:
            log.write(text)

    def least(self, part: Part) -> float:
        return 1 if self.setting.quick else part.least

    def run(self, part: Part, later: float) -> None:
        """One part; `later`: seconds kept for those behind it."""
        most = part.most * (4 if self.setting.quick else 1)  # on machines that others use too
        allowed = min(most, self.ends - time.monotonic() - later)
        began = time.monotonic()
        result: Figures = {"part": part.name, "figures": {}}
        try:
            if allowed < self.least(part):
                raise Late("not run: the time was over")
            stage = Stage(self.setting, part.name, allowed, self.write)
            result["found"], result["figures"] = part.run(stage)
            result["status"] = "passed"
        except Missing as missing:
            result |= {"status": "missing", "found": str(missing)}
        except Failed as failed:
            result |= {"status": "late" if isinstance(failed, Late) else "failed", "found": str(failed), "figures": failed.figures}
        except Exception as error:  # noqa: BLE001: a part must not stop the others
            result |= {"status": "failed", "found": f"{type(error).__name__}: {error}"}
        result["seconds"] = round(time.monotonic() - began, 1)
        with self._lock:
            self.results.append(result)
        print(f"{part.name}: {result['status']} after {result['seconds']} s: {result['found']}", file=sys.stderr, flush=True)

    def run_all(self, parts: list[Part]) -> None:
        """In their order; those beside each other with the first of them."""
        waiting = list(parts)
        while waiting:
            group = [part for part in waiting if part.beside] if waiting[0].beside else waiting[:1]
            waiting = [part for part in waiting if part not in group]
            later = sum(self.least(part) for part in waiting)
            in_parallel([lambda part=part: self.run(part, later) for part in group], len(group))


def main() -> None:
    options = arguments()
    if options.list:
        print("\n".join(part.name for part in PARTS))
        return
    parts = chosen_parts(options)
    if options.device == "cuda":
        count, why = machine.count_gpus()
        if count == 0:
            print(f"gpu_check: no GPU: {why}; --device cpu tries the check out without one", file=sys.stderr)
            raise SystemExit(NO_GPU)
    programs = find_programs(options)
    options.out.mkdir(parents=True, exist_ok=True)
    work = pathlib.Path(tempfile.mkdtemp(prefix="gpu-check-"))
    setting = Setting(ROOT, programs, (options.data or ROOT / "data").resolve(), work, options.device,
                      machine.environment(ROOT, programs, options.torch_python), options.torch_python)
    log = options.out / "gpu_check.log"
    log.write_text("", encoding="utf-8")
    print(f"gpu_check: programs of {programs}", file=sys.stderr)
    began = time.monotonic()
    check = Check(setting, options.minutes, log)
    try:
        check.run_all(parts)
    finally:
        bundle = ROOT / "bundle.json"
        whole = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "device": options.device,
                 "machine": machine.describe(), "bundle": json.loads(bundle.read_text()) if bundle.exists() else None,
                 "seconds": round(time.monotonic() - began, 1), "parts": check.results}
        text = report.write(whole, options.out)
        if options.keep:
            print(f"gpu_check: what the programs wrote is in {work}", file=sys.stderr)
        else:
            shutil.rmtree(work, ignore_errors=True)
    print(text)
    raise SystemExit(0 if report.all_passed(whole) else 1)


if __name__ == "__main__":
    main()
