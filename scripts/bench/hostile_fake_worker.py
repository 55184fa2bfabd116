#!/usr/bin/env python3
"""Stands for `worker` in scripts/bench.sh server --hostile --fake-worker: accepts every configuration, and each rank only reports,
a heartbeat and two steps a second."""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.error
import urllib.request

from hostile_users import STARTED

STALE = 409


def value(name: str) -> str:
    return sys.argv[sys.argv.index(name) + 1]


def print_checked_config() -> None:
    with open(value("--config"), encoding="utf-8") as file:
        checked = {"name": "fake", "max_updates": 0, "data_folder": "", "start_from": "", "errors": []}
        print(json.dumps({"config": file.read()} | checked))


class Rank:
    """Sends the requests of a real worker's rank."""

    def __init__(self) -> None:
        self.rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
        self.common = {"attempt": int(value("--attempt")), "rank": self.rank, "host": "fake"}
        self.sequence = self.update = 0

    def post(self, last: str, body: dict[str, object]) -> int:
        """The status of the server's answer, 0 without an answer."""
        request = urllib.request.Request(
            f"{value('--server')}/api/v1/runs/{value('--run-id')}/{last}",
            json.dumps(self.common | body).encode(),
            {"Content-Type": "application/json", "Authorization": f"Bearer {os.environ['BABELRING_TOKEN']}"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def record(self, kind: str, **members: object) -> dict[str, object]:
        self.sequence += 1
        return {"sequence": self.sequence, "kind": kind, "time_ms": int(time.time() * 1000), **members}

    def step(self) -> dict[str, object]:
        self.update += 1
        return self.record("step", update=self.update, loss=2.0, step_ms=500.0, target_tokens=100)

    def first_records(self) -> list[dict[str, object]]:
        started = [self.record("lifecycle", name="fake", world_size=2, **STARTED)] if self.rank == 0 else []
        return [*started, self.record("lifecycle", event="rank_up", pid=os.getpid(), device="cpu")]


def main() -> int:
    if "--check-config" in sys.argv:
        print_checked_config()
        return 0
    rank = Rank()
    waiting = rank.first_records()
    while True:
        began = time.monotonic()
        if rank.post("heartbeat", {"pid": os.getpid(), "update": rank.update, "since_update_s": 0.5}) == STALE:
            return 1
        waiting += [rank.step(), rank.step()]
        if rank.post("records", {"records": waiting[:1000]}) == 200:
            del waiting[:1000]
        time.sleep(max(0.0, began + 1 - time.monotonic()))


if __name__ == "__main__":
    sys.exit(main())
