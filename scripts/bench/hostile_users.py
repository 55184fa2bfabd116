"""The clients that an attack must not harm: ranks, whose heartbeats pass a proxy that times them, an external reporter, and pages."""

from __future__ import annotations

import dataclasses
import http.client
import json
import select
import socket
import threading
import time
from collections.abc import Callable

import figures
from load_target import Client

GIVE_UP_S = 60
Request = Callable[[], tuple[str, str, str]]  # method, path, body
#: The members of the record that begins a run that only reports.
STARTED = {"event": "started", "config": "", "version": "1", "parameters": 1, "max_updates": 0, "device": "cpu"}


@dataclasses.dataclass(frozen=True)
class Answer:
    kind: str
    began: float  # monotonic
    ms: float
    status: int  # 0: none came


class Answers:
    """Requests with the time of each answer. Thread-safe."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.all: list[Answer] = []

    def note(self, kind: str, began: float, status: int) -> None:
        with self.lock:
            self.all.append(Answer(kind, began, (time.monotonic() - began) * 1000, status))

    def between(self, kinds: set[str], first: float, last: float) -> list[Answer]:
        """Returns the requests that were sent in a period."""
        with self.lock:
            return [answer for answer in self.all if answer.kind in kinds and first <= answer.began < last]


def summary(answers: list[Answer]) -> dict[str, float]:
    times = [answer.ms for answer in answers]
    return {
        "count": len(answers),
        "p99_ms": figures.percentile(times, 0.99),
        "max_ms": max(times, default=0.0),
        "over_1_s": sum(ms > 1000 for ms in times),
        "not_answered": sum(not 200 <= answer.status < 400 for answer in answers),
    }


class HeartbeatProxy(threading.Thread):
    """Passes bytes between workers and the server, and times each heartbeat from its first byte to the answer's. Workers send
    one request at a time on a connection."""

    def __init__(self, answers: Answers) -> None:
        super().__init__(daemon=True)
        self.answers, self.target_port = answers, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.heard: set[str] = set()  # runs
        self.ending = False

    def run(self) -> None:
        while not self.ending:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def end(self) -> None:
        self.ending = True
        self.listener.close()

    def serve(self, client: socket.socket) -> None:
        began: float | None = None
        try:
            server = socket.create_connection(("127.0.0.1", self.target_port), timeout=60)
        except OSError:
            client.close()
            return
        with client, server:
            for side in (client, server):
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                while not self.ending:
                    ready, _, _ = select.select([client, server], [], [], 1)
                    for side in ready:
                        data = side.recv(1 << 16)
                        if side is client and data.startswith(b"POST ") and b"/heartbeat " in data.split(b"\r\n", 1)[0]:
                            began = time.monotonic()
                        elif side is server and began is not None:
                            self.answers.note("heartbeat", began, int(data[9:12] or 0))
                            began = None
                        if not data:
                            return
                        (server if side is client else client).sendall(data)
            except OSError:
                pass
            finally:
                if began is not None:
                    self.answers.note("heartbeat", began, 0)


class User(threading.Thread):
    """Asks the same again and again, once in `period_s`, on a connection that is kept or, if `fresh`, on a new one each time."""

    def __init__(
        self, answers: Answers, kind: str, client: Client, period_s: float, request: Request, fresh: bool = False
    ):
        super().__init__(daemon=True)
        self.answers, self.kind, self.client = answers, kind, client
        self.period_s, self.make_request, self.fresh = period_s, request, fresh
        self.stopping = threading.Event()

    def run(self) -> None:
        connection = None
        while not self.stopping.is_set():
            method, path, body = self.make_request()
            headers = self.client.headers | ({"Content-Type": "application/json"} if body else {})
            began, status = time.monotonic(), 0
            for attempt in (1, 2):  # a kept connection that the server has closed meanwhile is replaced once
                kept = connection is not None
                try:
                    connection = connection or http.client.HTTPConnection(
                        "127.0.0.1", self.client.port, timeout=GIVE_UP_S
                    )
                    connection.request(method, path, body or None, headers)
                    answer = connection.getresponse()
                    answer.read()
                    status = answer.status
                    break
                except (OSError, http.client.HTTPException) as error:
                    connection = connection.close() if connection else None
                    if not kept or attempt == 2 or isinstance(error, TimeoutError):
                        break
            self.answers.note(self.kind, began, status)
            if self.fresh and connection is not None:
                connection = connection.close()
            self.stopping.wait(max(0.0, self.period_s - (time.monotonic() - began)))


class Page(threading.Thread):
    """Listens to the metrics of a run, and notes when each event came. Comes again when the stream ends."""

    def __init__(self, client: Client, run: str) -> None:
        super().__init__(daemon=True)
        self.client, self.run_id = client, run
        self.times: list[float] = []
        self.stopping = threading.Event()

    def run(self) -> None:
        while not self.stopping.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", self.client.port, timeout=GIVE_UP_S)
            try:
                path = f"/api/v1/events?run={self.run_id}&topic=metrics"
                connection.request("GET", path, headers=self.client.headers)
                answer = connection.getresponse()
                while answer.status == 200 and not self.stopping.is_set():
                    line = answer.readline()
                    if not line:
                        break
                    if line.startswith(b"event: metrics"):
                        self.times.append(time.monotonic())
            except (OSError, http.client.HTTPException):
                pass
            finally:
                connection.close()
            self.stopping.wait(0.2)

    def longest_gap_s(self, first: float, last: float) -> float:
        inside = [first, *(moment for moment in self.times if first <= moment < last), last]
        return max(b - a for a, b in zip(inside, inside[1:]))


class Reporter:
    """The requests of a rank that reports by itself: ten steps in each batch, and heartbeats."""

    def __init__(self, run: str) -> None:
        self.run_id, self.update = run, 0

    def report(self, last: str, **members: object) -> tuple[str, str, str]:
        body = {"attempt": 1, "rank": 0, "host": "elsewhere", **members}
        return "POST", f"/api/v1/runs/{self.run_id}/{last}", json.dumps(body)

    def started(self) -> str:
        """The body of the first report."""
        first = {"sequence": 1, "kind": "lifecycle", "time_ms": 1, "name": "external", "world_size": 1, **STARTED}
        return self.report("records", records=[first])[2]

    def records(self) -> tuple[str, str, str]:
        first = self.update + 1
        self.update += 10
        step = {"kind": "step", "time_ms": int(time.time() * 1000), "loss": 2.0, "step_ms": 50.0}
        updates = range(first, first + 10)
        return self.report("records", records=[step | {"sequence": one + 1, "update": one} for one in updates])

    def heartbeat(self) -> tuple[str, str, str]:
        return self.report("heartbeat", pid=1, update=self.update)
