"""A running part of the check: its time limit, folder and programs."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

Figures = dict[str, Any]
MPIRUN = ("mpirun", "--oversubscribe", "--bind-to", "none", "-np")  # the number of ranks follows


def flags(**values: object) -> list[object]:
    """The words of options with values: flags(run_dir="x") is --run-dir x."""
    return [word for name, value in values.items() for word in ("--" + name.replace("_", "-"), value)]


class Missing(Exception):
    """Raised if the machine lacks something that the part needs. Not a failure."""


class Failed(Exception):
    """Raised with the found and the expected result. `figures` are kept."""

    def __init__(self, text: str, figures: Figures | None = None) -> None:
        super().__init__(text)
        self.figures = figures or {}


class Late(Failed):
    """Raised if the time of the part is over."""


STOPPED = threading.Event()  # no program is started any more
_running: set[subprocess.Popen[str]] = set()
_running_lock = threading.Lock()


def stop_all() -> None:
    """Ends all running programs and starts no more; parts then end as if their time were over."""
    STOPPED.set()
    with _running_lock:
        processes = list(_running)
    for process in processes:
        end_session(process, patience=1)


@dataclasses.dataclass(frozen=True)
class Host:
    """A host of --cluster, and how many of its GPUs get a rank."""

    name: str
    gpus: int


@dataclasses.dataclass(frozen=True)
class Setting:
    """The programs, data and device to check."""

    root: pathlib.Path  # with scripts, configs and the tests' stored models
    programs: pathlib.Path
    data: pathlib.Path  # prepared text: multi30k, tatoeba, wmt
    work: pathlib.Path
    out: pathlib.Path  # of the results
    device: str  # cuda, or cpu, where everything is small
    environment: dict[str, str]  # of our programs
    torch_python: str
    hosts: tuple[Host, ...] = ()  # of --cluster

    @property
    def quick(self) -> bool:
        return self.device == "cpu"

    def program(self, name: str) -> pathlib.Path:
        path = self.programs / name
        if not path.is_file():
            raise Missing(f"no {name} in {self.programs}")
        return path

    def prepared(self, name: str) -> pathlib.Path:
        folder = self.data / name
        if not (folder / "manifest.json").is_file():
            raise Missing(f"no prepared text {folder}")
        return folder


@dataclasses.dataclass(frozen=True)
class Done:
    """Result of a program that has ended."""

    name: str
    code: int
    output: str
    errors: str
    seconds: float

    def require(self) -> Done:
        """Returns this result. Raises Failed with the last line of output if the program failed."""
        if self.code == 0:
            return self
        how = f"signal {signal.Signals(-self.code).name}" if self.code < 0 else f"exit code {self.code}"
        words = [line for line in (self.errors + "\n" + self.output).splitlines() if line.strip()]
        raise Failed(f"{self.name}: {how}: {words[-1][:300] if words else 'it said nothing'}")

    def json(self) -> Figures:
        """Returns the JSON object on the last line of the output."""
        lines = self.require().output.rstrip("\n").split("\n")
        try:
            found = json.loads(lines[-1])
        except json.JSONDecodeError:
            found = None
        if not isinstance(found, dict):
            raise Failed(f"{self.name}: its last line is no JSON object: {lines[-1][:200]!r}")
        return found


class Stage:
    """One part. Thread-safe."""

    def __init__(
        self,
        setting: Setting,
        name: str,
        seconds: float,
        log: Callable[[str], None],
        keep: Callable[[Figures], None] = lambda figures: None,
    ) -> None:
        """`keep` writes intermediate results to disk, so they survive a kill of this program."""
        self.setting, self.name, self.keep, self._log = setting, name, keep, log
        self.folder = setting.work / name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.ends = time.monotonic() + seconds
        self._lock, self._count = threading.Lock(), 0

    def left(self) -> float:
        """Returns the remaining seconds."""
        return self.ends - time.monotonic()

    def run(self, *words: object, most: float = 1e9, environment: dict[str, str] | None = None) -> Done:
        """Runs a program to its end, within the remaining time and at most `most` seconds; its output goes to the log.
        `environment` is added to that of our programs. Raises Late if it was killed at the time limit, with its children.
        """
        command = [str(word) for word in words]
        name = pathlib.Path(command[0]).name
        limit = min(most, self.left())
        if limit <= 0 or STOPPED.is_set():
            raise Late(f"{name}: no time was left to start it")
        with self._lock:
            self._count += 1
            place = self.folder / f"{self._count:02}-{name}"
        began = time.monotonic()
        with (
            open(f"{place}.out", "w+", encoding="utf-8", errors="replace") as out,
            open(f"{place}.err", "w+", encoding="utf-8", errors="replace") as err,
        ):
            try:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                    env=self.setting.environment | (environment or {}),
                    cwd=self.folder,
                )
            except OSError as error:
                raise Failed(f"{name}: {error}") from error
            with _running_lock:
                _running.add(process)
            try:
                code: int | None = process.wait(0 if STOPPED.is_set() else limit)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                end_session(process)
                with _running_lock:
                    _running.discard(process)
            seconds = time.monotonic() - began
            out.seek(0), err.seek(0)
            done = Done(name, -signal.SIGKILL if code is None else code, out.read(), err.read(), seconds)
        self._log(
            f"== {self.name}: {' '.join(command)}\n{done.output}{done.errors}== {done.code} after {seconds:.1f} s\n"
        )
        if code is None or STOPPED.is_set():
            raise Late(f"{name}: killed after {seconds:.0f} s")
        return done


def end_session(process: subprocess.Popen[str], patience: float = 5) -> None:
    """Ends a running program and its children. The ranks of mpirun are in other sessions; mpirun ends them on SIGTERM,
    within `patience` seconds."""
    for sent, wait in ((signal.SIGTERM, patience), (signal.SIGKILL, None)):
        if process.poll() is not None:
            return
        try:
            os.killpg(process.pid, sent)
            process.wait(wait)
        except (subprocess.TimeoutExpired, ProcessLookupError):
            continue


def in_parallel(calls: Sequence[Callable[[], Any]], workers: int) -> list[Any]:
    """Runs the calls with `workers` threads. Returns their results, or the exceptions that they raised, in order."""
    results: list[Any] = [None] * len(calls)
    waiting = iter(list(enumerate(calls)))
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                place, call = next(waiting, (-1, None))
            if call is None:
                return
            try:
                results[place] = call()
            except Exception as error:  # noqa: BLE001: handed to the caller
                results[place] = error

    threads = [threading.Thread(target=work) for _ in range(min(workers, len(calls)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
