#!/usr/bin/env python3
"""Trains with training.reproducible ranks and requires the same digests of weights, losses and norms.

Over 1, 2 and 4 ranks, shared memory and messages, f32 and bf16, 1 and 2 threads; then a checkpoint of 2 ranks goes on
with 4; then the slow one of two ranks gets fewer units. On two network namespaces, if this machine allows them, units
move while checkpoints gather a sharded optimizer: one host is slow, checkpoints are sharded, and the ranks are killed.
--long: 50 updates, 8 ranks too, two levels on 2 and 4 namespaces, also with a slow rank of four, and either host is
slow with checkpoints that are whole or sharded.

  units_test.py PROGRAM --mpirun MPIRUN [--long]
"""

from __future__ import annotations

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

from system import MPIRUN, NO_HOSTS, TWO_HOSTS  # noqa: E402


def digests(command: list[str], names: str) -> dict[str, set[str]] | None:
    """The values of these names that a run prints, by precision; None if it was skipped."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=500, check=False)
    if done.returncode == NO_HOSTS:
        return None
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}")
    found: dict[str, set[str]] = {"f32": set(), "bf16": set()}
    for line in done.stdout.splitlines():
        precision, *fields = line.split()
        if precision in found:
            values = dict(field.split("=") for field in fields if "=" in field)
            found[precision].add(",".join(values[name] for name in names.split(",")))
            print(f"  {line}")
    if not any(found.values()):
        sys.exit(f"{' '.join(command)}: no digests")
    return found


def slow_rank(command: list[str], ranks: int, expected: dict[str, set[str]]) -> bool:
    """Requires the expected digests while rank 1 is slow. True if rank 0 computed more than its part in the end.

    On a busy machine a small delay cannot be told from noise, so a larger one is tried.
    """
    for delay_us in (200, 1000, 5000):
        found = digests([*command, f"balance={delay_us}"], "all,part")
        if found is None:
            print("  skipped: this machine does not allow network namespaces")
            return True
        values = [(precision, *value.split(",")) for precision, both in found.items() for value in both]
        for precision, digest, _ in values:
            if {digest} != expected[precision]:
                sys.exit(f"with a slow rank: {precision}: expected {expected[precision]}, found {digest}")
        if any(float(part) > 1.1 / ranks for *_, part in values):
            return True
    return False


def start_and_kill(command: list[str], folder: pathlib.Path, update: int) -> bool:
    """Kills all ranks once the checkpoint of `update` or a later one is there. False if hosts were not possible."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as run:
        deadline = time.monotonic() + 400
        while not any(int(path.name[-8:]) >= update for path in folder.glob("bf16/update-*[0-9]")):
            if run.poll() is not None or time.monotonic() > deadline:
                break
            time.sleep(0.01)
        run.terminate()  # the script kills all processes of its hosts
        run.wait(timeout=100)
    if run.returncode != NO_HOSTS and run.returncode != 143:
        sys.exit(f"{' '.join(command)}: exit code {run.returncode} instead of an update {update}")
    return run.returncode != NO_HOSTS


def balance_shares_and_checkpoints(
    program: str, slow: str, state: str, expected: dict[str, set[str]], updates: str
) -> bool:
    """Units move between two hosts with two ranks each while every second update gathers a sharded optimizer.

    Both are transfers between the same ranks, in flight together and started in another order on other ranks. The run
    is killed and resumed. True if units moved to the fast host in the end, or if hosts are not possible here.
    """
    for delay_us in (400, 3000):
        with tempfile.TemporaryDirectory() as folder:
            options = ["every=2", f"folder={folder}", f"state={state}", f"slow={slow}", f"balance={delay_us}"]
            command = [str(TWO_HOSTS), "--slots", "2", "--", program, updates, "two_level", "precision=bf16", *options]
            if not start_and_kill(command, pathlib.Path(folder), 24):
                print("  skipped: this machine does not allow network namespaces")
                return True
            found = digests(command, "updates,last,part")
        ((done, last, part),) = (value.split(",") for value in (found or {}).get("bf16", set()))
        if int(done) >= int(updates):
            sys.exit("the run began anew instead of resuming")
        if {last} != expected["bf16"]:
            sys.exit(f"expected {expected['bf16']}, found {last}")
        if float(part) < 0.22 if slow == "0,1" else float(part) > 0.28:  # 1/4 if no units moved
            return True
    return False


def balance_on_hosts(program: str, long: bool, expected: dict[str, set[str]] | None, updates: str) -> None:
    cases = [("2,3", "sharded")]
    if long:
        cases += [("0,1", "shared"), ("0,1", "sharded"), ("2,3", "shared")]
    for slow, state in cases:
        print(f"ranks {slow} of two hosts are slow; checkpoints of a {state} optimizer; killed and resumed", flush=True)
        if not balance_shares_and_checkpoints(program, slow, state, expected or {}, updates):
            sys.exit("no units moved, however slow the host was")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--mpirun", required=True)
    parser.add_argument("--long", action="store_true")
    options = parser.parse_args()
    updates = 50 if options.long else 4
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # more threads than processors

    def ranks(count: int, *arguments: str) -> list[str]:
        return [options.mpirun, *MPIRUN[1:], "-np", str(count), options.program, *arguments]

    def on_hosts(hosts: int, slots: int, count: str = str(updates)) -> list[str]:
        script = [str(TWO_HOSTS), "--hosts", str(hosts), "--slots", str(slots), "--", options.program, count]
        return [*script, "two_level,ring" if slots > 1 else "ring"]

    runs = [(f"{count} ranks", ranks(count, str(updates), "shared_memory,ring")) for count in (1, 2, 4)]
    if options.long:
        runs.append(("8 ranks", ranks(8, str(updates), "shared_memory,ring")))
        runs += [(f"{hosts} hosts x {slots}", on_hosts(hosts, slots)) for hosts, slots in ((2, 2), (2, 4), (4, 2))]
    seen: dict[str, dict[str, str]] = {"f32": {}, "bf16": {}}
    for name, command in runs:
        print(name, flush=True)
        found = digests(command, "all")
        if found is None:
            print("  skipped: this machine does not allow network namespaces")
            continue
        for precision, values in found.items():
            seen[precision].update(dict.fromkeys(values, name))
    for precision, values in seen.items():
        if len(values) != 1:
            sys.exit(f"{precision}: expected one digest, found {values}")

    print("2 ranks, then 4 from their checkpoint, and 1 without a stop", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        digests(ranks(2, str(updates // 2), "auto", f"folder={folder}"), "last")
        resumed = digests(ranks(4, str(updates), "auto", f"folder={folder}"), "last")
        straight = digests(ranks(1, str(updates), "auto"), "last")
    if resumed != straight:
        sys.exit(f"resumed with other ranks: expected {straight}, found {resumed}")

    print("rank 1 is slow, from update 25 on it computes fewer units", flush=True)
    balanced_updates = "28"
    expected = digests(ranks(1, balanced_updates, "auto"), "all")
    if not slow_rank(ranks(2, balanced_updates, "shared_memory,ring"), 2, expected):
        sys.exit("no units moved from rank 1 of 2, however slow it was")
    undisturbed = digests(ranks(1, "64", "auto", "precision=bf16"), "last")
    balance_on_hosts(options.program, options.long, undisturbed, "64")
    if options.long:  # whether units move is not required: four ranks on two processors slow each other
        for count, command in (
            (4, ranks(4, balanced_updates, "shared_memory")),
            *((2 * slots, on_hosts(2, slots, balanced_updates)) for slots in (1, 2)),
        ):
            moved = slow_rank(command, count, expected)
            print(f"  {'units' if moved else 'no units'} moved from rank 1 of {count}", flush=True)


main()
