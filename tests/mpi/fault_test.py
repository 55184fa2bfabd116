#!/usr/bin/env python3
"""Kills, stops or delays one rank of comm_fault. Checks that every rank ends in time with a message that names the faulty
rank, and that no process is left.

    fault_test.py CASE ALGORITHM PROGRAM [--mpirun MPIRUN]

The ranks of algorithm exchange are on three hosts, network namespaces; exit code 77 if this machine does not allow them.
"""
import argparse
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

from system import AS_ROOT, MPIRUN, NO_HOSTS, TWO_HOSTS, is_running  # noqa: E402

TIMEOUT_S = 120  # timeout of expected events; longer than any machine stalls
DEADLINE_S = 8  # for cases that wait for it; other cases use a deadline that never expires
RANKS = 3


def fail(text, lines):
    sys.exit(f"FAILED: {text}\n--- output ---\n" + "".join(lines))


class Job:
    """A running mpirun, its output so far, and the process ids its ranks reported."""

    def __init__(self, command):
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | AS_ROOT,
            start_new_session=True,
        )
        self.lines, self.pids, self.all_ready = [], {}, threading.Event()
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line)
            for rank, pid in re.findall(r"ready rank (\d+) pid (\d+)", line):
                self.pids[int(rank)] = int(pid)
            if len(self.pids) == RANKS:
                self.all_ready.set()

    def wait_ready(self):
        end = time.monotonic() + TIMEOUT_S
        while not self.all_ready.wait(0.1) and time.monotonic() < end:
            if self.process.poll() == NO_HOSTS:
                sys.exit(NO_HOSTS)
        if not self.all_ready.is_set():
            self.end()
            fail(f"the ranks did not start within {TIMEOUT_S} s", self.lines)

    def wait(self):
        """Waits for mpirun to end; returns the seconds waited."""
        start = time.monotonic()
        try:
            self.process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.end()
            fail(f"mpirun still runs after {TIMEOUT_S} s", self.lines)
        took = time.monotonic() - start
        self.reader.join(TIMEOUT_S)
        return took

    def end(self):
        for pid in self.pids.values():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def strays(self, within_s=TIMEOUT_S):
        """Ranks still running `within_s` seconds after mpirun has ended."""
        end = time.monotonic() + within_s
        while (running := self.running()) and time.monotonic() < end:
            time.sleep(0.05)
        return running

    def running(self):
        return list(filter(is_running, self.pids.values()))


def silent(host=r"\S+"):
    """Rank 1 must be silent; on a busy machine others may be too."""
    return rf"no answer from rank (\d \(host \S+\), )*1 \(host {host}\)(, \d \(host \S+\))*: stopped or lost"


def killed(job):
    job.wait_ready()
    os.kill(job.pids[1], signal.SIGKILL)
    return silent(re.escape(socket.gethostname())), None


def stopped(job):
    job.wait_ready()
    os.kill(job.pids[1], signal.SIGSTOP)
    return (
        r"((?:all-reduce|reduce-scatter) of 1\.0 MB(?: by NCCL)?|all-gather of 4\.2 MB(?: by NCCL)?|sum of 1 doubles) \(collective \d+\) made no progress for \d+\.\d s on rank [02] "
        r"\(host .*\): " + silent(),
        3,
    )


def late(job):
    return r"made no progress for \d+\.\d s .*rank 1 \(host .*\) answers, but has entered only \d+ coll", 3


def paused(job):
    """A stop shorter than the deadline is no fault. Ends by SIGUSR1: after SIGTERM 100 ms of silence are a fault."""
    job.wait_ready()
    os.kill(job.pids[1], signal.SIGSTOP)
    time.sleep(1)
    os.kill(job.pids[1], signal.SIGCONT)
    time.sleep(0.5)
    os.kill(job.pids[0], signal.SIGUSR1)
    return r"rank 1 finished", 0


def throws(job):
    return r"error: out of memory in update 20", 3


def error(job):
    """A transport that fails while all processes are alive."""
    return (
        r"(all-reduce of 1\.0|reduce-scatter of 1\.0|all-gather of 4\.2) MB by NCCL \(collective \d+\) failed on rank 1 \(host .*\): NCCL: remote process "
        r"exited or there was a network error: (all peers answer|no answer)"
    ), 3


def call_fails(job):
    """A call that fails on rank 1, on the device or at once."""
    return r"(all-reduce|reduce-scatter|all-gather) of [0-9.]+ MB by NCCL .*failed.*: (NCCL|nccl[A-Za-z]+): ", 3


def reset(job):
    """A transport that reports the death of a peer. The message names both ranks."""
    job.wait_ready()
    os.kill(job.pids[1], signal.SIGKILL)
    return (
        r"by NCCL \(collective \d+\) failed on rank [02] \(host .*\): NCCL: remote process exited .*: " + silent(),
        None,
    )


CASES = {
    "killed": (killed, "", TIMEOUT_S),
    "stopped": (stopped, "", DEADLINE_S),
    "late": (late, "late", DEADLINE_S),
    "paused": (paused, "", TIMEOUT_S),
    "throws": (throws, "throw", TIMEOUT_S),
    "error": (error, "error", TIMEOUT_S),
    "reset": (reset, "reset", TIMEOUT_S),
    # An update has 4 sums, some in two calls, and the parts of a gather. Call 0 is the trial.
    "calls": (call_fails, [f"{kind}={call}" for call in range(1, 8) for kind in ("error", "refused")], TIMEOUT_S),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=CASES)
    parser.add_argument("algorithm", choices=["shared_memory", "ring", "exchange", "nccl", "nccl_exchange"])
    parser.add_argument("program")
    parser.add_argument("--mpirun", default="mpirun")
    options = parser.parse_args()
    act, mode, deadline_s = CASES[options.case]
    # When a rank has died, Open MPI 4's mpirun sends SIGTERM to the others and SIGKILL one second later, which is too soon
    # for their last messages on a busy machine. (It always waits for the full time, twice.) Open MPI 5's ignores the
    # option and waits 250 ms.
    kill_delay = ["--mca", "odls_base_sigkill_timeout", "4"] if options.case in ("killed", "reset") else []
    on_one_host = [options.mpirun, *MPIRUN[1:], *kill_delay, "-np", str(RANKS)]
    on_hosts = [TWO_HOSTS, "--hosts", str(RANKS), "--mpirun", " ".join(kill_delay), "--"]
    launch = on_hosts if options.algorithm == "exchange" else on_one_host
    for one in [mode] if isinstance(mode, str) else mode:
        run(options, act, [*launch, options.program, str(deadline_s * 1000), options.algorithm, one])


def run(options, act, command):
    job = Job(command)
    try:
        message, code = act(job)
        took = job.wait()
        output = "".join(job.lines)
        if options.algorithm == "exchange" and job.process.returncode == NO_HOSTS:
            sys.exit(NO_HOSTS)
        if not re.search(message, output):
            fail(f"no line matches {message}", job.lines)
        if job.process.returncode == 0 and code != 0 or code is not None and job.process.returncode != code:
            fail(f"exit code {job.process.returncode}, expected {code if code is not None else 'not 0'}", job.lines)
        if strays := job.strays():
            fail(f"still running: {strays}", job.lines)
    finally:
        job.end()
    line = re.search(rf".*(?:{message}).*", output).group(0).strip()
    print(f"{command[-1] or options.case}: ended {took:.1f} s later, code {job.process.returncode}: {line}")


main()
