#!/usr/bin/env python3
"""Trains with training.reproducible ranks and requires the same digests of weights, losses and norms.

Over 1, 2 and 4 ranks, shared memory and messages, f32 and bf16, 1 and 2 threads; then a checkpoint of 2 ranks goes on
with 4. --long: 50 updates, 8 ranks too, and two levels on 2 and 4 network namespaces, if this machine allows them.

  units_test.py PROGRAM --mpirun MPIRUN [--long]
"""

from __future__ import annotations

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

HOSTS = pathlib.Path(__file__).with_name("two_hosts.sh")
SKIPPED = 77


def digests(command: list[str], of: str) -> dict[str, set[str]] | None:
    """The digests by precision that a run prints; None if it was skipped."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=500, check=False)
    if done.returncode == SKIPPED:
        return None
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}")
    found: dict[str, set[str]] = {"f32": set(), "bf16": set()}
    for line in done.stdout.splitlines():
        precision, *fields = line.split()
        if precision in found:
            found[precision].add(dict(field.split("=") for field in fields if "=" in field)[of])
            print(f"  {line}")
    if not all(found.values()):
        sys.exit(f"{' '.join(command)}: no digests")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--mpirun", required=True)
    parser.add_argument("--long", action="store_true")
    options = parser.parse_args()
    updates = 50 if options.long else 4
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # more threads than processors

    def ranks(count: int, *arguments: str) -> list[str]:
        return [options.mpirun, "--oversubscribe", "--bind-to", "none", "-np", str(count), options.program, *arguments]

    def on_hosts(hosts: int, slots: int) -> list[str]:
        script = [str(HOSTS), "--hosts", str(hosts), "--slots", str(slots), "--", options.program, str(updates)]
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
        digests(ranks(2, str(updates // 2), "auto", folder), "last")
        resumed = digests(ranks(4, str(updates), "auto", folder), "last")
        straight = digests(ranks(1, str(updates), "auto"), "last")
    if resumed != straight:
        sys.exit(f"resumed with other ranks: expected {straight}, found {resumed}")


main()
