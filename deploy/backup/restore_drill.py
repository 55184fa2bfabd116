#!/usr/bin/env python3
"""Proves that a backup can be restored, while the server works: makes a backup (or takes one by --backup), restores it in
a temporary folder, starts a second server on that, and compares what both say about every run. Changes nothing of the first.

Exit code 0: equal; 1: not, or something failed, with one line for each difference. README.md says when to run it."""

from __future__ import annotations

import argparse
import csv
import io
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

OVER = {"succeeded", "failed", "stopped", "lost"}
Row = frozenset[tuple[str, str]]


def stop(text: str) -> None:
    print(f"restore_drill: {text}", file=sys.stderr)
    raise SystemExit(1)


class Api:
    """A server's answers."""

    def __init__(self, address: str, token: str) -> None:
        self.address, self.token = address.rstrip("/"), token

    def text(self, path: str, method: str = "GET") -> str:
        request = urllib.request.Request(
            f"{self.address}/api/v1{path}", method=method, headers={"Authorization": f"Bearer {self.token}"}
        )
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            stop(f"{method} {path}: {error.code}: {error.read().decode(errors='replace')[:300]}")
        except OSError as error:
            stop(f"{self.address}: {error}")
        raise AssertionError

    def all(self, path: str) -> list[dict[str, Any]]:
        """The items of every page."""
        items, cursor = [], ""
        while True:
            page = json.loads(self.text(f"{path}{cursor}"))
            items += page["items"]
            if not page.get("next_cursor"):
                return items
            cursor = f"{'&' if '?' in path else '?'}cursor={urllib.parse.quote(page['next_cursor'])}"

    def rows(self, run: str) -> set[Row]:
        """Every stored step of every rank, without the columns that are empty."""
        table = csv.DictReader(io.StringIO(self.text(f"/runs/{run}/metrics.csv")))
        return {frozenset((key, value) for key, value in row.items() if value) for row in table}


def installed_server() -> str:
    """The program in PATH; only installations call it babelring-server."""
    return shutil.which("babelring-server") or shutil.which("server") or "babelring-server"


def make_backup(live: Api, seconds: float) -> pathlib.Path:
    live.text("/admin/backup", "POST")
    end = time.monotonic() + seconds
    while (state := json.loads(live.text("/admin/backup")))["state"] == "running":
        if time.monotonic() > end:
            stop(f"the backup has not ended after {seconds:g} s")
        time.sleep(0.1)
    if state["state"] != "done":
        stop(f"the backup failed: {state['detail']}")
    return pathlib.Path(state["file"])


def refuse_runs_of_the_server(live: Api) -> None:
    """A second server on this machine would take runs that the first one started for its own."""
    own = [run["name"] for run in live.all("/runs") if run["profile"] != "external" and run["state"] not in OVER]
    if own:
        stop(
            f"the server has started runs that are not over ({', '.join(own[:3])}): try again later, or on another machine"
        )


def start_restored(program: str, backup: pathlib.Path, folder: pathlib.Path) -> tuple[subprocess.Popen[bytes], str]:
    data = folder / "data"
    done = subprocess.run([program, "--data", data, "--restore", backup], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        stop(f"the restore failed: {(done.stderr or done.stdout).strip()}")
    with open(folder / "server.log", "wb") as log:
        process = subprocess.Popen([program, "--listen", "127.0.0.1:0", "--data", data], stdout=log, stderr=log)
    address = data / "address"
    while not address.exists():
        if process.poll() is not None:
            stop(f"the restored server ended: {(folder / 'server.log').read_text(errors='replace').strip()[-300:]}")
        time.sleep(0.1)
    return process, address.read_text().strip()


def differences(restored: Api, live: Api, before: dict[str, int]) -> list[str]:
    """`before`: runs and the number of their stored steps before the backup began, all of which it must have."""
    found = []
    copies = {run["id"]: run for run in restored.all("/runs")}
    originals = {run["id"]: run for run in live.all("/runs")}
    found += [f"run {run} is missing" for run in before if run not in copies]
    for run, copy in copies.items():
        if run not in originals:
            continue  # deleted since
        for member in ("name", "created_at"):
            if copy[member] != originals[run][member]:
                found.append(f"run {run}: {member} is {copy[member]}, was {originals[run][member]}")
        steps, all_steps = restored.rows(run), live.rows(run)
        if not steps <= all_steps:
            found.append(f"run {run}: {len(steps - all_steps)} of {len(steps)} steps differ")
        if len(steps) < before.get(run, 0):
            found.append(f"run {run}: {len(steps)} steps, of which {before[run]} were stored before the backup")
        evaluations = [json.dumps(item, sort_keys=True) for item in restored.all(f"/runs/{run}/evals")]
        if not set(evaluations) <= {json.dumps(item, sort_keys=True) for item in live.all(f"/runs/{run}/evals")}:
            found.append(f"run {run}: evaluations differ")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Proves that a backup of a server can be restored.")
    parser.add_argument("--server", default="http://127.0.0.1:8080", help="address of the server")
    parser.add_argument("--token-file", required=True, type=pathlib.Path, help="file with an administrator's token")
    parser.add_argument("--backup", type=pathlib.Path, help="a backup made before, instead of a new one")
    parser.add_argument("--program", default=installed_server(), help="the server program")
    parser.add_argument("--timeout", type=float, default=3600, help="seconds for the backup")
    options = parser.parse_args()
    token = options.token_file.read_text(encoding="utf-8").strip()
    live = Api(options.server, token)
    refuse_runs_of_the_server(live)
    before = {} if options.backup else {run["id"]: len(live.rows(run["id"])) for run in live.all("/runs")}
    backup = options.backup or make_backup(live, options.timeout)
    with tempfile.TemporaryDirectory(prefix="babelring-restore-") as folder:
        process, address = start_restored(options.program, backup, pathlib.Path(folder))
        try:
            found = differences(Api(address, token), live, before)
            runs = len(Api(address, token).all("/runs"))
        finally:
            process.terminate()
            process.wait()
    for line in found:
        print(f"restore_drill: {line}", file=sys.stderr)
    if found:
        raise SystemExit(1)
    print(f"restore_drill: {backup} was restored, and its {runs} runs are equal")


if __name__ == "__main__":
    main()
