"""Shared by the fault tests: the server as a program, ranks that report without training, and a book of the records
that were acknowledged to them. Everything is bounded in time and by a seed; BABELRING_FAULTS=long takes the long form."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import threading
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

BIN = Path(os.environ.get("BABELRING_BIN", Path(__file__).resolve().parents[2] / "build/dev/bin")).resolve()
LONG = os.environ.get("BABELRING_FAULTS") == "long"
SEED = int(os.environ.get("BABELRING_SEED", "20261121"))
DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def run_id(number: int) -> str:
    return "r_01J8ZQ4T5W6X7Y8Z9A0B1C" + "".join(DIGITS[number >> shift & 31] for shift in (15, 10, 5, 0))


def wait_for(what: str, condition: Callable[[], Any], seconds: float = 120) -> Any:
    """Returns the first true value of `condition`, or fails and names `what`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what}: not within {seconds} s")


# These tests are about faults, not about tokens and rates.
SERVER_OPTIONS = ["--without-tokens", "--request-rate", "0"]


class Server:
    """The `server` program on a port that stays the same, and its own, when it is started again."""

    def __init__(self, folder: Path, options: list[str] | None = None) -> None:
        self.folder, self.options = folder, options or []
        # Bound to the port without listening: no other program gets it, but a server may listen on it.
        self.holder = socket.socket()
        self.holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.holder.bind(("127.0.0.1", 0))
        self.port = self.holder.getsockname()[1]
        self.process: subprocess.Popen | None = None

    def start(self, wrapper: list[str] | None = None, wait: bool = True, **environment: str) -> float:
        """Seconds until it answered; without `wait`, until it listened, or ended: a failpoint may come before that."""
        began = time.monotonic()
        command = [
            *(wrapper or []),
            BIN / "server",
            "--listen",
            f"127.0.0.1:{self.port}",
            "--data",
            self.folder,
            "--log-level",
            "warn",
            *SERVER_OPTIONS,
            *self.options,
        ]
        log = self.folder.parent / f"{self.folder.name}.log"
        with open(log, "ab") as errors:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, env=dict(os.environ, **environment)
            )
        line = ""
        for line in self.process.stdout:
            if "listening on" in line:
                break
        else:
            if wait:
                raise AssertionError(f"server: exit code {self.process.wait()}: {log.read_text()[-2000:]}")
        self.process.stdout.close()
        if wait:
            wait_for("an answer of the server", lambda: self.request("GET", "/healthz")[0] == 200)
        return time.monotonic() - began

    def kill(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.wait()

    def stop(self, seconds: float = 120) -> int:
        self.process.terminate()
        return self.process.wait(seconds)

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def request(self, method: str, path: str, body: Any = None, timeout: float = 60) -> tuple[int, Any]:
        """Status and parsed answer; status 0 when the connection failed."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            text = None if body is None else body if isinstance(body, (bytes, str)) else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json"} if text else {})
            answer = connection.getresponse()
            data = answer.read()
            return answer.status, json.loads(data) if "json" in answer.headers.get("Content-Type", "") else data
        except (OSError, http.client.HTTPException):
            return 0, None
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        status, answer = self.request("GET", path)
        assert status == 200, f"GET {path}: {status} {answer}"
        return answer

    def rss_bytes(self) -> int:
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(text.split("VmRSS:")[1].split()[0]) * 1024

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


def step(sequence: int, update: int, loss: float) -> dict[str, Any]:
    return {
        "sequence": sequence,
        "kind": "step",
        "time_ms": 1795233600000 + update * 100,
        "update": update,
        "loss": loss,
        "nll": loss,
        "step_ms": 100.0,
        "forward_ms": 30.0,
        "backward_ms": 60.0,
        "optimizer_ms": 10.0,
        "target_tokens": 1000,
        "update_target_tokens": 1000,
    }


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
    server = Server(folder)
    server.start()
    body = {"attempt": 1, "rank": 0, "host": "h", "records": [step(u, u, u / 7) for u in range(1, 4001)]}
    status, answer = server.request("POST", f"/api/v1/runs/{run_id(1000)}/records", body)
    assert status == 200, answer
    code = server.stop()
    assert code == 0, f"exit code {code}"
    server.holder.close()
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
                values = [
                    str(original + copy)
                    if column == "run"
                    else f"'{run_id(1000 + copy)}'"
                    if column == "id"
                    else column
                    for column in columns
                ]
                database.execute(
                    f"INSERT INTO {table}({','.join(columns)}) SELECT {','.join(values)} FROM {table} "
                    f"WHERE run = {original}"
                )
            (size,) = database.execute(
                "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
            ).fetchone()
        database.execute("COMMIT")
    return size


class Figures:
    """Figures of a fault, shown with the test and, if BABELRING_FIGURES names a file, added there as a JSON line."""

    @staticmethod
    def show(fault: str, **figures: Any) -> None:
        line = json.dumps(
            {"fault": fault, **{k: round(v, 3) if isinstance(v, float) else v for k, v in figures.items()}}
        )
        print(line, flush=True)
        if "BABELRING_FIGURES" in os.environ:
            with open(os.environ["BABELRING_FIGURES"], "a", encoding="utf-8") as file:
                file.write(line + "\n")


class FaultTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="babelring-fault-"))
        self.addCleanup(shutil.rmtree, self.folder, True)

    def server(self, folder: Path | None = None, options: list[str] | None = None) -> Server:
        server = Server(folder or self.folder / "server", options)
        self.addCleanup(server.holder.close)
        self.addCleanup(server.kill)
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

    def tmpfs(self, megabytes: int) -> Path:
        """A separate small file system; skips the test where none can be mounted."""
        folder = self.folder / "tmpfs"
        folder.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", folder],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            self.skipTest(f"cannot mount a tmpfs: {done.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "-l", folder], check=False)
        return folder

    @staticmethod
    def fill(folder: Path) -> Path:
        """Takes all the space that is left, again too."""
        filler = folder / "filler"
        with open(filler, "ab", buffering=0) as file:
            size = 1 << 20
            while size >= 512:
                try:
                    if file.write(bytes(size)) < size:
                        size //= 2
                except OSError:
                    size //= 2
        return filler


def build_io_faults(test: unittest.TestCase) -> Path:
    """The library that goes before libc, built where the temporary folder of the test is."""
    if shutil.which("cc") is None:
        test.skipTest("needs a C compiler")
    library = test.folder / "io_faults.so"
    source = Path(__file__).with_name("io_faults.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


def signal_name(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else str(code)
