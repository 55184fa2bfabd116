"""Ranks that report without training, readers of the event stream, and a book of the records that were acknowledged. Everything
is bounded in time and by a seed; BABELRING_FAULTS=long takes the long form.
Importing this puts tests/e2e on the path."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import sqlite3
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from cases import FolderTest  # noqa: E402
from system import Server  # noqa: E402

LONG = os.environ.get("BABELRING_FAULTS") == "long"
SEED = int(os.environ.get("BABELRING_SEED", "20261121"))
DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def run_id(number: int) -> str:
    return "r_01J8ZQ4T5W6X7Y8Z9A0B1C" + "".join(DIGITS[number >> shift & 31] for shift in (15, 10, 5, 0))


def records_path(number: int = 1) -> str:
    return f"/api/v1/runs/{run_id(number)}/records"


class OpenServer(Server):
    """A `server` without tokens and rates: the tests are about faults."""

    def __init__(self, folder: Path, options: Sequence[object] = ()) -> None:
        super().__init__(folder, options=["--log-level", "warn", "--without-tokens", "--request-rate", "0", *options])

    def send_steps(self, first: int, last: int, run: int = 1) -> tuple[int, Any]:
        """Reports steps of rank 0 whose losses are a seventh of their update. Status and answer."""
        records = [step(update, update, update / 7) for update in range(first, last + 1)]
        return self.request("POST", records_path(run), {"attempt": 1, "rank": 0, "host": "h", "records": records})

    def rss_bytes(self) -> int:
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(text.split("VmRSS:")[1].split()[0]) * 1024

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


def step(sequence: int, update: int, loss: float) -> dict[str, Any]:
    times = {"step_ms": 100.0, "forward_ms": 30.0, "backward_ms": 60.0, "optimizer_ms": 10.0}
    numbers = {"update": update, "loss": loss, "nll": loss, "target_tokens": 1000, "update_target_tokens": 1000}
    return {"sequence": sequence, "kind": "step", "time_ms": 1795233600000 + update * 100, **numbers, **times}


class Reporter(threading.Thread):
    """One rank that reports as fast as it is answered. Like the worker it sends a batch again until it is acknowledged,
    and writes down what was."""

    def __init__(self, server: Server, run: str, rank: int, seed: int, batch: int = 20) -> None:
        super().__init__(daemon=True)
        self.server, self.run_id, self.rank, self.batch = server, run, rank, batch
        self.random = random.Random(seed * 1000 + rank)
        self.acknowledged: dict[int, float] = {}  # update: loss
        self.duplicates = self.refused = 0
        self.statuses: set[int] = set()
        self.stopping = threading.Event()

    def run(self) -> None:
        update = 0
        while not self.stopping.is_set():
            losses = {update + i + 1: 4 + self.random.random() for i in range(self.random.randint(1, self.batch))}
            update += len(losses)
            body = json.dumps(
                {
                    "attempt": 1,
                    "rank": self.rank,
                    "host": f"host{self.rank}",
                    "records": [step(u, u, loss) for u, loss in losses.items()],
                }
            )
            while not self.stopping.is_set():
                status, answer = self.server.request("POST", f"/api/v1/runs/{self.run_id}/records", body)
                self.statuses.add(status)
                if status == 200:
                    self.duplicates += answer["duplicates"]
                    self.acknowledged.update(losses)
                    break
                self.refused += 1
                time.sleep(0.01)


class Follower(threading.Thread):
    """A client of the event stream. It resumes by the id of the last event; where the server cannot go on from there it
    says `reset`, and the client fetches the series anew."""

    def __init__(self, server: Server, run: str, ranks: int) -> None:
        super().__init__(daemon=True)
        self.server, self.run_id, self.ranks = server, run, ranks
        self.seen: set[tuple[int, int]] = set()  # rank, update
        self.connections = self.resets = self.gaps = 0
        self.last_id, self.behind = "", True  # behind: a fetch is due
        self.stopping = threading.Event()

    def run(self) -> None:
        while not self.stopping.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
            try:
                headers = {"Last-Event-ID": self.last_id} if self.last_id else {}
                connection.request("GET", f"/api/v1/events?run={self.run_id}&topic=metrics", headers=headers)
                answer = connection.getresponse()
                if answer.status == 200:
                    self.connections += 1
                    self.behind = self.behind or not self.last_id
                    self.follow(answer)
            except (OSError, http.client.HTTPException, ValueError):
                pass
            finally:
                connection.close()
            time.sleep(0.02)

    def follow(self, answer: http.client.HTTPResponse) -> None:
        event, event_id, data = "", "", ""
        while not self.stopping.is_set():
            if self.behind:
                self.fetch()
            line = answer.readline().decode()
            if not line:
                return
            name, _, value = line.rstrip("\n").partition(": ")
            if name == "event":
                event = value
            elif name == "id":
                event_id = value
            elif name == "data":
                data = value
            elif line == "\n" and event:
                self.take(event, json.loads(data))
                self.last_id, event = event_id or self.last_id, ""

    def take(self, event: str, data: dict[str, Any]) -> None:
        if event == "metrics":
            self.seen.update((data["rank"], step) for step in data["step"])
        elif event in ("reset", "gap"):
            self.resets += event == "reset"
            self.gaps += event == "gap"
            self.behind = True

    def fetch(self) -> None:
        for rank in range(self.ranks):
            path = f"/api/v1/runs/{self.run_id}/metrics/loss?agg=raw&rank={rank}&points=1000000"
            status, series = self.server.request("GET", path)
            if status == 404:  # nobody has reported yet
                return
            if status != 200:
                raise OSError("the server is gone again")
            self.seen.update((rank, step) for step in series["step"])
        self.behind = False


def grow_database(folder: Path, megabytes: int) -> int:
    """Lets a server make its database, and copies one run of it until the file has that size. Its bytes."""
    server = OpenServer(folder)
    server.start()
    status, answer = server.send_steps(1, 4000, run=1000)
    assert status == 200, answer
    code = server.stop()
    assert code == 0, f"exit code {code}"
    server.end()
    with contextlib.closing(sqlite3.connect(folder / "babelring.db", isolation_level=None)) as database:
        for pragma in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -65536"):
            database.execute(f"PRAGMA {pragma}")
        database.execute("UPDATE runs SET state = 'succeeded', finished_ms = updated_ms")
        database.execute("BEGIN")
        (original,) = database.execute("SELECT run FROM runs").fetchone()
        size, copy = 0, 0
        while size < megabytes << 20:
            copy += 1
            for table in ("runs", "attempts", "ranks", "arrivals", "run_layouts", "steps", "buckets"):
                columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
                changed = {"run": str(original + copy), "id": f"'{run_id(1000 + copy)}'"}
                values = ",".join(changed.get(column, column) for column in columns)
                database.execute(
                    f"INSERT INTO {table}({','.join(columns)}) SELECT {values} FROM {table} WHERE run = {original}"
                )
            size_of_file = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
            (size,) = database.execute(size_of_file).fetchone()
        database.execute("COMMIT")
    return size


class FaultTest(FolderTest):
    def server(self, folder: Path | None = None, wrapper: Sequence[str] = (), **environment: str) -> OpenServer:
        """A started server."""
        server = OpenServer(folder or self.folder / "server")
        server.wrapper = list(wrapper)
        self.addCleanup(server.end)
        server.start(**environment)
        return server

    def report(self, server: Server, ranks: int = 4, seed: int = SEED, run: int = 1, batch: int = 20) -> list[Reporter]:
        reporters = [Reporter(server, run_id(run), rank, seed, batch) for rank in range(ranks)]
        for reporter in reporters:
            self.addCleanup(reporter.stopping.set)
            reporter.start()
        return reporters

    @staticmethod
    def end(reporters: list[Reporter]) -> None:
        for reporter in reporters:
            reporter.stopping.set()
        for reporter in reporters:
            reporter.join(120)

    def check_history(self, server: Server, reporters: list[Reporter]) -> int:
        """Everything acknowledged is there with its value, nothing is there twice. The number of points checked."""
        points = 0
        for reporter in reporters:
            path = f"/api/v1/runs/{reporter.run_id}/metrics/loss?agg=raw&rank={reporter.rank}&points=1000000"
            series = server.get(path)
            self.assertEqual(len(series["step"]), len(set(series["step"])), "a point is there twice")
            stored = dict(zip(series["step"], series["value"]))
            lost = [update for update in reporter.acknowledged if stored.get(update) != reporter.acknowledged[update]]
            self.assertEqual(lost[:5], [], f"rank {reporter.rank}: {len(lost)} acknowledged points are not readable")
            points += len(reporter.acknowledged)
        ranks = {row["rank"]: row for row in server.get(f"/api/v1/runs/{reporters[0].run_id}/ranks?limit=500")["items"]}
        for reporter in reporters:
            self.assertGreaterEqual(ranks[reporter.rank]["records"], len(reporter.acknowledged))
            self.assertEqual(ranks[reporter.rank]["missing"], 0)
        return points
