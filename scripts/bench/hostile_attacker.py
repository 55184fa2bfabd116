"""The base of the attackers of hostile_attacks.py: their orders, connections, requests as bytes, and the count of answers."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import os
import random
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator

STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")


@dataclasses.dataclass(frozen=True)
class Orders:
    port: int
    seconds: float
    runs: dict[str, str]  # managed, external, finished: the victims; own: the attackers'; large: with 160,000 steps
    read: list[str]  # secrets of read tokens
    ingest: list[str]  # of ingest tokens for any run, as far as the server makes such
    bound: list[str]  # of ingest tokens for the attackers' own run
    checkpoint: str  # of the finished run
    config: str  # one that the server accepts


class Attack:
    """The base of all attackers: connections, requests as bytes, and the count of answers."""

    def __init__(self, orders: Orders) -> None:
        self.orders = orders
        self.end = time.monotonic() + orders.seconds
        self.answers: collections.Counter[str] = collections.Counter()
        self.errors = 0
        self.random = random.Random(os.getpid())
        self.counter = itertools.count(10)  # for all connections

    def running(self) -> bool:
        return time.monotonic() < self.end

    def connect(self, blocking: bool = True, receive_buffer: int = 0) -> socket.socket:
        client = socket.socket()
        if receive_buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.settimeout(30)
        client.connect(("127.0.0.1", self.orders.port))
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not blocking:
            client.setblocking(False)
        return client

    def note(self, data: bytes) -> int:
        """Counts the answers that begin in `data`."""
        found = STATUS.findall(data)
        self.answers.update(status.decode() for status in found)
        return len(found)

    def at_once(self, count: int, work: Callable[[int], None]) -> None:
        """`work` again and again on each of `count` threads until the time is over. A broken connection is an error that ends
        that one attempt."""

        def repeat(number: int) -> None:
            while self.running():
                try:
                    work(number)
                except OSError:
                    self.errors += 1
                    time.sleep(0.05)

        threads = [threading.Thread(target=repeat, args=(number,), daemon=True) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(self.end + 2 - time.monotonic(), 0))

    def pump(self, requests: Iterator[bytes], depth: int = 20) -> None:
        """One connection, `depth` requests on their way at a time, until the server closes it."""
        with self.connect() as client:
            while self.running():
                client.sendall(b"".join(next(requests) for _ in range(depth)))
                missing = depth
                while missing > 0:
                    data = client.recv(1 << 16)
                    if not data:
                        return
                    missing -= self.note(data)

    def converse(self, requests: Iterator[bytes], pause_s: float = 0, timeout_s: float = 30) -> None:
        """One connection that sends a request and reads the whole answer, again and again."""
        with self.connect() as client:
            client.settimeout(timeout_s)
            while self.running():
                self.ask(client, next(requests))
                time.sleep(pause_s)

    def ask(self, client: socket.socket, request: bytes) -> None:
        """Sends a request and reads the whole answer, which has a Content-Length or is small."""
        client.sendall(request)
        data = b""
        while b"\r\n\r\n" not in data:
            piece = client.recv(1 << 16)
            if not piece:
                return
            data += piece
        self.note(data)
        found = re.search(rb"content-length: *(\d+)", data, re.IGNORECASE)
        missing = (int(found[1]) if found else 0) - len(data.split(b"\r\n\r\n", 1)[1])
        while missing > 0:
            piece = client.recv(1 << 16)
            if not piece:
                return
            missing -= len(piece)

    def abandon(self, requests: list[bytes], pause_s: float) -> None:
        """Sends each request and leaves after a millisecond."""
        for request in requests:
            with self.connect() as client:
                client.sendall(request)
                time.sleep(0.001)
            self.answers["abandoned"] += 1
        time.sleep(pause_s)

    def reporting(self, run: str, last: str, token: str, body: str) -> bytes:
        """A POST of a rank for one of the runs."""
        return message("POST", f"/api/v1/runs/{self.orders.runs[run]}/{last}", token, body)


def message(method: str, path: str, token: str = "", body: str = "", length: int | None = None) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    if body or length is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body) if length is None else length}"]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


def batch(records: list[str], attempt: int = 1, rank: int = 0) -> str:
    return f'{{"attempt":{attempt},"rank":{rank},"host":"attacker","records":[{",".join(records)}]}}'


def heartbeat(attempt: int, rank: int) -> str:
    return f'{{"attempt":{attempt},"rank":{rank},"host":"h{rank}","pid":1}}'


def step(sequence: int, more: str = "") -> str:
    return f'{{"sequence":{sequence},"kind":"step","time_ms":1795233600000,"update":{sequence},"loss":1.5{more}}}'
