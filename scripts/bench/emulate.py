"""Measures how well the emulator predicts this machine. Settings are measured in turns with records of one rank and tests of
the links; each setting is predicted with a calibration to the others. Measurements are kept, so a run can be continued.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import figures
import real_time
import texts
from runs import (
    DISTURBED,
    adopt_orphans,
    environment,
    processor_times,
    program,
    seconds_of_other_processes,
    wait_for_orphans,
)

ROOT = pathlib.Path(__file__).resolve().parents[2]
TWO_HOSTS = ROOT / "tests/mpi/two_hosts.sh"
TRIES = 3  # of a pair while others use the machine
LEFT_OVER_S = 5  # max wait for processes that outlive the program that started them


@dataclasses.dataclass(frozen=True)
class Model:
    preset: str
    tokens: int  # of a rank in one micro-batch
    updates: int  # of a run; the first three do not count
    recorded: int  # updates of a record
    link_mb: int  # of the sums that test links: a large gradient streams through memory, a small one stays in caches
    link_sums: int  # with which the rate is tested: short ones vary more


MODELS = {"tiny": Model("transformer-tiny", 512, 40, 20, 8, 35), "base": Model("transformer-base", 256, 14, 8, 64, 9)}


@dataclasses.dataclass(frozen=True)
class Setting:
    model: str
    hosts: int = 1
    slots: int = 2  # ranks of each host
    rate: str = ""  # of the link between hosts; empty: as fast as it goes
    wire: str = "f32"
    bucket: int = 4
    accumulate: int = 1
    all_reduce: str = "auto"
    sharded: bool = False  # the optimizer, with bf16 weights; otherwise replicated, with f32 weights

    @property
    def name(self) -> str:
        link = (self.rate or "unshaped") if self.hosts > 1 else self.all_reduce
        name = f"{self.model}-{self.hosts}x{self.slots}-{link}-{self.wire}-{self.bucket}MB-{self.accumulate}"
        return name + "-sharded" * self.sharded

    @property
    def precision(self) -> str:
        return "bf16" if self.sharded else "f32"


def settings_of(model: str) -> list[Setting]:
    two = {"model": model, "hosts": 2, "slots": 1}
    four = {"model": model, "hosts": 2, "slots": 2}
    large = 25 if model == "base" else 4
    found = [
        Setting(model),
        Setting(model, all_reduce="ring"),
        Setting(**two),
        Setting(**two, wire="bf16"),
        Setting(**two, rate="1gbit"),
        Setting(**two, rate="1gbit", bucket=1),
        Setting(**two, rate="1gbit", bucket=25),
        Setting(**two, rate="1gbit", wire="bf16"),
        Setting(**two, rate="1gbit", accumulate=4),
        Setting(**two, rate="250mbit", bucket=large),
        Setting(**two, rate="250mbit", wire="bf16"),
        Setting(**two, rate="250mbit", accumulate=4, wire="bf16"),
        Setting(**four),
        Setting(**four, rate="1gbit"),
        Setting(**four, rate="1gbit", wire="bf16"),
        Setting(**two, sharded=True),
        Setting(**two, rate="1gbit", sharded=True),
        Setting(**four, rate="1gbit", sharded=True),
    ]
    # A run of base takes as long as ten of tiny: those that differ in what the size of the model decides.
    return found if model == "tiny" else [one for one in found if one.bucket != 1 and one.rate != "250mbit"]


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--text", required=True, help="SRC,TGT or a folder of nmt prepare: what is trained on")
    parser.add_argument("--pieces", type=int, default=8000, help="of the vocabulary made of it")
    parser.add_argument(
        "--folder", type=pathlib.Path, default=texts.WORK / "emulate", help="what was measured is kept here"
    )
    parser.add_argument("--models", default="tiny,base", help="tiny, base or both")
    parser.add_argument("--pairs", type=int, default=5, help="runs of each setting, each with its own records")
    parser.add_argument(
        "--minutes", type=float, default=0, help="measure no longer, then compare; 0: until all is measured"
    )
    parser.add_argument("--only", default="", help="measure settings whose names contain this text; all are compared")
    parser.add_argument(
        "--real-time", action="store_true", help="with each run an emulated one of its record, and compare these two"
    )


def is_doubtful(record: pathlib.Path) -> bool:
    """Returns whether a record warns that its times vary too much."""
    return json.loads(record.read_text(encoding="utf-8"))["quality"] != "good"


class Bench:
    """The programs, the data and the machine's disturbance during one measurement."""

    def __init__(self, options: argparse.Namespace, programs: pathlib.Path) -> None:
        self.programs, self.options = programs, options
        self.data = texts.prepared(programs, options.text, options.pieces)
        adopt_orphans()

    def call(self, words: list[object], output: pathlib.Path | None = None) -> None:
        """Runs a program and waits for processes that it left. Ends this program if it fails."""
        command = [str(word) for word in words]
        log = self.options.folder / "last.log"
        with open(output or log, "w", encoding="utf-8") as out, open(log, "a", encoding="utf-8") as errors:
            code = subprocess.run(command, stdout=out, stderr=errors, env=environment(), check=False).returncode
        wait_for_orphans(LEFT_OVER_S)
        if code != 0:
            sys.exit(f"bench: {' '.join(command)}: exit code {code}; see {log}")

    def config(self, model: Model) -> list[object]:
        file = self.options.folder / f"{model.preset}.yaml"
        file.write_text(f"preset: {model.preset}\ndata: {{folder: {self.data}}}\n", encoding="utf-8")
        return ["--config", file]

    def record(self, setting: Setting, folder: pathlib.Path) -> None:
        model = MODELS[setting.model]
        words = [program(self.programs, "nmt"), "emulate", "record", *self.config(model)]
        words += ["--output", folder / "rank.json", "--sizes", "1", "--updates", model.recorded]
        words += ["--neighbours", setting.hosts * setting.slots - 1, "training.threads=1"]
        words += [f"training.precision={setting.precision}", f"data.tokens_per_update={model.tokens}"]
        self.call([*words, "communication.bucket_mb=1"])

    def on_hosts(self, setting: Setting, slots: int) -> list[object]:
        rate = ["--rate", setting.rate] if setting.rate else []
        return [TWO_HOSTS, *rate, "--hosts", setting.hosts, "--slots", slots, "--"]

    def links(self, setting: Setting, folder: pathlib.Path) -> None:
        test = [program(self.programs, "nmt"), "emulate", "link", "--json", "--wire", setting.wire]
        test += ["--megabytes", MODELS[setting.model].link_mb, "--repeats", MODELS[setting.model].link_sums]
        if setting.hosts > 1:
            self.call([*self.on_hosts(setting, 1), *test], folder / "between.json")
        if setting.slots > 1:
            self.call(test, folder / "inside.json")

    def train(self, setting: Setting, folder: pathlib.Path, *more: str) -> None:
        model = MODELS[setting.model]
        ranks = setting.hosts * setting.slots
        launcher = ["mpirun", "-np", ranks, "--oversubscribe", "--bind-to", "none"]
        words = self.on_hosts(setting, setting.slots) if setting.hosts > 1 else launcher
        words += [program(self.programs, "worker"), *self.config(model), "--run-dir", folder, "--server", "none"]
        overrides = {
            "data.tokens_per_update": model.tokens * ranks * setting.accumulate,
            "data.valid_set": "",
            "training.threads": 1,
            "training.precision": setting.precision,
            "training.stop_after": f"{model.updates}u",
            "checkpoint.every": "0u",
            "communication.all_reduce": setting.all_reduce,
            "communication.gradient_wire": setting.wire,
            "communication.bucket_mb": setting.bucket,
            "communication.optimizer": "sharded" if setting.sharded else "replicated",
        }
        if setting.accumulate > 1:
            overrides["data.micro_batch_tokens"] = int(1.2 * model.tokens)
        self.call([*words, *(f"{key}={value}" for key, value in overrides.items()), *more])
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)  # of hundreds of MB, which no comparison needs

    def pair(self, setting: Setting, folder: pathlib.Path) -> None:
        """The times of a rank, the links and a run, one after the other; again if others use the machine meanwhile, or the
        record is doubtful."""
        for attempt in range(1, TRIES + 1):
            fresh = folder.with_name(folder.name + ".new")
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir(parents=True)
            before, others_s = processor_times(), seconds_of_other_processes()
            self.record(setting, fresh)
            self.links(setting, fresh)
            self.train(setting, fresh)
            if self.options.real_time:
                record = f"lab.emulated.record={fresh / 'rank.json'}"
                self.train(setting, fresh / "emulated", "training.device=emulated", record)
            others_s = seconds_of_other_processes() - others_s
            found = figures.disturbance(before, processor_times(), others_s, os.sysconf("SC_CLK_TCK"))
            disturbed = max(found.values()) > DISTURBED or is_doubtful(fresh / "rank.json")
            print(
                f"{setting.name} {folder.name}: others busy {found['others_busy']:.1%}, steal {found['steal']:.1%}"
                f"{': disturbed' if disturbed else ''}",
                file=sys.stderr,
            )
            if not disturbed or attempt == TRIES:
                (fresh / "machine.json").write_text(json.dumps(found | {"disturbed": disturbed}), encoding="utf-8")
                fresh.rename(folder)
                return


def measure(bench: Bench, settings: list[Setting], options: argparse.Namespace) -> None:
    """Measures one pair of every setting, then the next, so that each setting is measured at several times."""
    end = time.monotonic() + 60 * options.minutes if options.minutes > 0 else float("inf")
    for number in range(1, options.pairs + 1):
        for setting in settings:
            folder = options.folder / setting.name / f"pair-{number}"
            if folder.exists():
                continue
            if time.monotonic() > end:
                return
            bench.pair(setting, folder)


def compare_in_real_time(folders: list[pathlib.Path]) -> dict[str, object]:
    found = {}
    for folder in folders:
        pairs = [pair for pair in sorted(folder.glob("pair-*")) if (pair / "emulated").exists()]
        if not pairs:
            sys.exit(f"bench: {folder}: no emulated runs; expected a folder measured with --real-time")
        found[folder.name] = real_time.compare(pairs, [pair / "emulated" for pair in pairs])
        real_time.print_comparison(folder.name, found[folder.name])
    return {"real_time": found}


def main(options: argparse.Namespace, programs: pathlib.Path) -> dict[str, object]:
    unknown = set(options.models.split(",")) - set(MODELS)
    if unknown:
        sys.exit(f"bench: --models: found '{options.models}', expected {','.join(MODELS)}")
    if shutil.which("mpirun") is None or os.geteuid() != 0:
        sys.exit("bench: emulate: hosts are network namespaces: expected root and mpirun")
    options.folder = options.folder.resolve()
    options.folder.mkdir(parents=True, exist_ok=True)
    settings = [one for model in options.models.split(",") for one in settings_of(model)]
    chosen = [one for one in settings if options.only in one.name]
    measure(Bench(options, programs), chosen, options)
    if options.real_time:
        settings = chosen
    folders = [options.folder / one.name for one in settings if (options.folder / one.name / "pair-1").exists()]
    states = [json.loads(file.read_text()) for one in folders for file in one.glob("pair-*/machine.json")]
    disturbed = sum(state["disturbed"] for state in states)
    print(f"{len(folders)} of {len(settings)} settings, {len(states)} pairs, {disturbed} of them disturbed by others")
    if options.real_time:
        return compare_in_real_time(folders) | {"pairs": len(states), "disturbed": disturbed}
    if len(folders) < 3:
        sys.exit(f"bench: emulate: found {len(folders)} measured settings, expected 3 to predict each from the others")
    words = [program(programs, "nmt"), "emulate", "compare", "--leave-one-out", "--measured", *folders]
    words += ["--record", folders[0] / "pair-1" / "rank.json", "--output", options.folder / "calibrated.json"]
    subprocess.run([str(word) for word in words], check=True)
    done = subprocess.run([str(word) for word in [*words, "--json"]], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout) | {"settings": len(settings), "pairs": len(states), "disturbed": disturbed}
