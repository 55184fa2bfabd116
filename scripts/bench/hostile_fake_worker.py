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

STALE = 409


def value(name: str) -> str:
    return sys.argv[sys.argv.index(name) + 1]


def main() -> int:
    if "--check-config" in sys.argv:
        with open(value("--config"), encoding="utf-8") as file:
            print(json.dumps({"config": file.read(), "name": "fake", "max_updates": 0, "data_folder": "", "start_from": "", "errors": []}))
        return 0
    rank, attempt = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(value("--attempt"))
    common = {"attempt": attempt, "rank": rank, "host": "fake"}
    sequence = update = 0

    def post(last: str, body: dict[str, object]) -> int:
        request = urllib.request.Request(f"{value('--server')}/api/v1/runs/{value('--run-id')}/{last}", json.dumps(common | body).encode(),
                                         {"Content-Type": "application/json", "Authorization": f"Bearer {os.environ['BABELRING_TOKEN']}"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def record(kind: str, **members: object) -> dict[str, object]:
        nonlocal sequence
        sequence += 1
        return {"sequence": sequence, "kind": kind, "time_ms": int(time.time() * 1000), **members}

    events = [record("lifecycle", event="started", name="fake", config="", version="1", world_size=2, parameters=1, max_updates=0,
                     device="cpu")] if rank == 0 else []
    waiting = [*events, record("lifecycle", event="rank_up", pid=os.getpid(), device="cpu")]
    while True:
        began = time.monotonic()
        if post("heartbeat", {"pid": os.getpid(), "update": update, "since_update_s": 0.5}) == STALE:
            return 1
        for _ in range(2):
            update += 1
            waiting.append(record("step", update=update, loss=2.0, step_ms=500.0, target_tokens=100))
        if post("records", {"records": waiting[:1000]}) == 200:
            del waiting[:1000]
        time.sleep(max(0.0, began + 1 - time.monotonic()))


if __name__ == "__main__":
    sys.exit(main())
