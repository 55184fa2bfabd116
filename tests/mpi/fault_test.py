#!/usr/bin/env python3
"""Kills, stops or delays one rank of comm_fault and checks that every rank ends in time, with a message that names the
culprit, leaving no process behind.

    fault_test.py CASE ALGORITHM PROGRAM [--mpirun MPIRUN]
"""
import argparse
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

PATIENCE_S = 120  # for what comes for sure: longer than any machine is held up
DEADLINE_S = 8  # of the cases that wait for it; the others have one that no machine comes to
RANKS = 3


def fail(text, lines):
    sys.exit(f"FAILED: {text}\n--- output ---\n" + "".join(lines))


class Job:
    """A running mpirun, its output as it comes, and the process ids its ranks told us."""

    def __init__(self, command):
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        env=environment, start_new_session=True)
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
        if not self.all_ready.wait(PATIENCE_S):
            self.end()
            fail(f"the ranks did not start within {PATIENCE_S} s", self.lines)

    def wait(self):
        """Seconds until mpirun ended."""
        start = time.monotonic()
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.end()
            fail(f"mpirun still runs after {PATIENCE_S} s", self.lines)
        took = time.monotonic() - start
        self.reader.join(PATIENCE_S)
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

    def strays(self, within_s=PATIENCE_S):
        """Ranks that are still there when mpirun has been gone for so long."""
        end = time.monotonic() + within_s
        while (running := self.running()) and time.monotonic() < end:
            time.sleep(0.05)
        return running

    def running(self):
        return [pid for pid in self.pids.values() if os.path.exists(f"/proc/{pid}") and not is_zombie(pid)]


def is_zombie(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def silent(host=r"\S+"):
    """Rank 1 is; on a busy machine perhaps another one too."""
    return rf"no answer from rank (\d \(host \S+\), )*1 \(host {host}\)(, \d \(host \S+\))*: stopped or lost"


def killed(job):
    job.wait_ready()
    os.kill(job.pids[1], signal.SIGKILL)
    return silent(re.escape(socket.gethostname())), None


def stopped(job):
    job.wait_ready()
    os.kill(job.pids[1], signal.SIGSTOP)
    return (r"(all-reduce of 1\.0 MB(?: by NCCL)?|sum of 1 doubles) \(collective \d+\) made no progress for \d+\.\d s on rank [02] "
            r"\(host .*\): " + silent(), 3)


def late(job):
    return r"made no progress for \d+\.\d s .*rank 1 \(host .*\) answers, but has entered only \d+ coll", 3


def paused(job):
    """A stop shorter than the deadline is no fault. Ended by SIGUSR1: after SIGTERM 300 ms of silence would be one."""
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
    """A transport that fails while every process lives."""
    return (r"all-reduce of 1\.0 MB by NCCL \(collective \d+\) failed on rank 1 \(host .*\): NCCL: remote process "
            r"exited or there was a network error: (all peers answer|no answer)"), 3


def reset(job):
    """A transport that notices the death of a peer: the message names both."""
    job.wait_ready()
    os.kill(job.pids[1], signal.SIGKILL)
    return r"by NCCL \(collective \d+\) failed on rank [02] \(host .*\): NCCL: remote process exited .*: " + silent(), None


CASES = {"killed": (killed, "", PATIENCE_S), "stopped": (stopped, "", DEADLINE_S), "late": (late, "late", DEADLINE_S),
         "paused": (paused, "", PATIENCE_S), "throws": (throws, "throw", PATIENCE_S), "error": (error, "error", PATIENCE_S),
         "reset": (reset, "reset", PATIENCE_S)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=CASES)
    parser.add_argument("algorithm", choices=["shared_memory", "ring", "nccl"])
    parser.add_argument("program")
    parser.add_argument("--mpirun", default="mpirun")
    options = parser.parse_args()
    act, mode, deadline_s = CASES[options.case]
    # When a rank has died, mpirun tells the others to end, and kills them for good one second later: too soon for their last
    # words on a busy machine. (It always waits for so long, twice.)
    last_words = ["--mca", "odls_base_sigkill_timeout", "4"] if options.case in ("killed", "reset") else []
    job = Job([options.mpirun, "--oversubscribe", "--bind-to", "none", *last_words, "-np", str(RANKS), options.program,
               str(deadline_s * 1000), options.algorithm, mode])
    try:
        message, code = act(job)
        took = job.wait()
        output = "".join(job.lines)
        if not re.search(message, output):
            fail(f"no line matches {message}", job.lines)
        if job.process.returncode == 0 and code != 0 or code is not None and job.process.returncode != code:
            fail(f"exit code {job.process.returncode}, expected {code if code is not None else 'not 0'}", job.lines)
        if strays := job.strays():
            fail(f"still running: {strays}", job.lines)
    finally:
        job.end()
    line = re.search(rf".*(?:{message}).*", output).group(0).strip()
    print(f"{options.case}: ended {took:.1f} s later, code {job.process.returncode}: {line}")


main()
