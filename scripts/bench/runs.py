"""Runs programs one at a time, or two in turns, and measures the processor time of other processes meanwhile."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

import figures

# Beyond this share of others, or of steal, a pair of runs is done again.
DISTURBED = 0.05
# Set in some shells; they slow libraries down, and each side is to choose for itself.
DROPPED_VARIABLES = ("OPENBLAS_CORETYPE", "ATEN_CPU_CAPABILITY", "GLIBC_TUNABLES", "OMP_PROC_BIND", "OMP_NUM_THREADS")


@dataclasses.dataclass(frozen=True)
class Run:
    result: dict[str, object]  # of the last line
    output: str  # the lines before it
    others_busy: float
    steal: float
    memory_bytes: int  # largest resident size of the process, or of the largest of its children
    companion_s: float  # processor time of the companion meanwhile

    @property
    def disturbed(self) -> bool:
        return max(self.others_busy, self.steal) > DISTURBED

    def number(self, key: str) -> float:
        return float(self.result[key])  # type: ignore[arg-type]


def program(folder: pathlib.Path, name: str) -> pathlib.Path:
    """Returns the path of one of our programs. Ends this program if it is missing."""
    path = folder / name
    if not path.is_file():
        sys.exit(
            f"bench: no program {path}; scripts/bench.sh builds it in build/bench unless BABELRING_BIN names another folder"
        )
    return path


def processor_times() -> figures.ProcessorTimes:
    return figures.ProcessorTimes.of(pathlib.Path("/proc/stat").read_text(encoding="utf-8"))


def seconds_of_other_processes() -> float:
    """Processor time so far of all processes but this one, with that of the children each has waited for. The kernel's
    threads do not count. Requires that this process has no running children."""
    kernel_thread = 0x00200000  # PF_KTHREAD
    ticks = 0
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        if int(process.name) == os.getpid():
            continue
        try:
            fields = (process / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if not int(fields[6]) & kernel_thread:
            ticks += sum(int(field) for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def adopt_orphans() -> None:
    """Makes processes that outlive their parents, as the daemons of mpirun on other hosts, children of this one."""
    set_child_subreaper = 36  # PR_SET_CHILD_SUBREAPER
    if ctypes.CDLL(None, use_errno=True).prctl(set_child_subreaper, 1, 0, 0, 0) != 0:
        sys.exit(f"bench: cannot adopt orphans: {os.strerror(ctypes.get_errno())}")


def wait_for_orphans(seconds: float) -> None:
    """Waits until this process has no children, at most the given time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            ended = os.waitpid(-1, os.WNOHANG) != (0, 0)
        except ChildProcessError:
            return
        if not ended:
            time.sleep(0.01)


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in DROPPED_VARIABLES}
    return kept | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def run(command: Sequence[str | pathlib.Path], companion: int | None = None) -> Run:
    """Runs a program whose last line is a JSON object. `companion` is a process whose time counts as its own. Ends this
    program when it fails."""
    words = [str(word) for word in command]
    before, spent = processor_times(), process_seconds(companion)
    try:
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment())
    except OSError as error:
        sys.exit(f"bench: {words[0]}: {error.strerror}")
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"bench: {' '.join(words)}: exit code {process.returncode}")
    companion_s = process_seconds(companion) - spent
    own = usage.ru_utime + usage.ru_stime + companion_s
    ticks_per_second, after = os.sysconf("SC_CLK_TCK"), processor_times()
    others = figures.disturbance(before, after, (after.busy - before.busy) / ticks_per_second - own, ticks_per_second)
    try:
        result = figures.last_json(output)
    except ValueError as error:
        sys.exit(f"bench: {words[0]}: {error}")
    return Run(
        result,
        "\n".join(output.rstrip("\n").split("\n")[:-1]),
        others["others_busy"],
        others["steal"],
        usage.ru_maxrss * 1024,
        companion_s,
    )


def process_seconds(pid: int | None) -> float:
    """Returns the processor time of a running process."""
    if pid is None:
        return 0.0
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def in_turns(ours: Callable[[], Run], theirs: Callable[[], Run], pairs: int) -> tuple[list[tuple[Run, Run]], int]:
    """Runs A B A B … until `pairs` pairs were undisturbed, at most twice that number in all; disturbed pairs are kept
    only where too few others exist. Returns the pairs and how many were left out."""
    good: list[tuple[Run, Run]] = []
    bad: list[tuple[Run, Run]] = []
    while len(good) < pairs and len(good) + len(bad) < 2 * pairs:
        pair = (ours(), theirs())
        disturbed = any(one.disturbed for one in pair)
        (bad if disturbed else good).append(pair)
        print(
            f"pair {len(good) + len(bad)}: others busy {pair[0].others_busy:.1%} and {pair[1].others_busy:.1%}, "
            f"steal {pair[0].steal:.1%} and {pair[1].steal:.1%}{': disturbed' if disturbed else ''}",
            file=sys.stderr,
        )
    missing = pairs - len(good)
    return good + bad[len(bad) - missing :] if missing else good, len(bad) - missing
