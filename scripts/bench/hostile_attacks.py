#!/usr/bin/env python3
"""The attackers of scripts/bench.sh server --hostile: clients without a token, with read tokens and with ingest tokens.

  hostile_attacks.py NAME      reads its orders as a JSON object from standard input (see Orders), attacks until the time is
                               over, and prints {"answers": {STATUS: count}, "errors": count}

Each attacker is a process that sends the same bytes again and again, so that it takes little processor time, and whose session has
nice 19, so that it takes none from the server: attackers are elsewhere."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import pathlib
import selectors
import socket
import sys
import time
from collections.abc import Callable, Iterator

from hostile_attacker import Attack, Orders, batch, heartbeat, message, step

DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
HUGE = 2**53
NICE = 19  # thirteen sessions
BATCH = 10_000  # records


def refused(attack: Attack) -> None:
    """Requests that are refused before their body, whose body comes all the same: four at a time flood for 0.75 s each, or for as
    long as they can, and are then kept."""
    head, block = message("POST", "/api/v1/runs", length=900_000_000), bytes(1 << 20)
    kept: list[socket.socket] = []

    def work(number: int) -> None:
        client = attack.connect()
        until = time.monotonic() + 0.75 if number else attack.end
        client.sendall(head)
        try:
            while time.monotonic() < until:
                client.sendall(block)
        except OSError:
            attack.answers["closed in the flood"] += 1
            client.close()
            return
        attack.note(client.recv(1 << 16))
        kept.append(client)

    attack.at_once(4, work)
    attack.answers["floods"] = len(kept) + attack.answers["closed in the flood"]
    attack.answers["kept to the end"] = sum(is_open(client) for client in kept)


def is_open(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(1 << 16) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def held(attack: Attack) -> None:
    """Takes all places: 12,500 connections that send part of a head, then a byte every four seconds, and reconnect."""
    wanted, drip_s = 12_500, 4.0
    waiting: dict[socket.socket, float] = {}
    selector = selectors.DefaultSelector()

    def drop(client: socket.socket) -> None:
        selector.unregister(client)
        waiting.pop(client, None)
        client.close()

    while attack.running():
        for _ in range(min(wanted - len(waiting), 100)):
            try:
                client = attack.connect(blocking=False)
                client.send(b"GET /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nX-Drip: ")
            except OSError:
                attack.errors += 1
                time.sleep(0.01)
                break
            waiting[client] = time.monotonic() + drip_s
            selector.register(client, selectors.EVENT_READ)
        for key, _ in selector.select(0.01):
            try:
                data = key.fileobj.recv(4096)  # type: ignore[union-attr]
                attack.note(data)
            except OSError:
                data = b""
            if not data:
                drop(key.fileobj)  # type: ignore[arg-type]
        now = time.monotonic()
        for client in [client for client, due in waiting.items() if due < now]:
            try:
                client.send(b"a")
                waiting[client] = now + drip_s
            except OSError:
                drop(client)
    attack.answers["connections held at the end"] = len(waiting)


def guessed(attack: Attack, _: int) -> Iterator[bytes]:
    """Invented tokens, 20 requests on their way on each of eight connections."""
    while True:
        yield message("GET", "/api/v1/tokens/self", "bbr_" + f"{attack.random.getrandbits(256):064x}")


def queries(attack: Attack) -> None:
    """The most expensive queries: 28 abandoned at once each second, and eight connections that repeat them and read."""
    path = f"/api/v1/runs/{attack.orders.runs['large']}/series?points=20000&keys="
    paths = [path + "loss,nll,step_ms,target_tokens", path + ",".join(["loss"] * 64)]

    def work(number: int) -> None:
        token = attack.orders.read[number % 4]
        if number == 8:
            attack.abandon([message("GET", paths[place % 2], token) for place in range(28)], pause_s=1)
        else:
            attack.converse(itertools.repeat(message("GET", paths[number % 2], token)), timeout_s=300)

    attack.at_once(9, work)


def validate(attack: Attack) -> None:
    """Configurations to check, each of which starts a process: eight connections that repeat, one that leaves at once."""
    body = json.dumps({"config": attack.orders.config, "world_size": 2})
    request = message("POST", "/api/v1/runs:validate", attack.orders.read[0], body)

    def work(number: int) -> None:
        if number == 8:
            attack.abandon([request], pause_s=0.05)
        else:
            attack.converse(itertools.repeat(request))

    attack.at_once(9, work)


def translate(attack: Attack) -> None:
    """Thirty large texts to translate every two seconds, each abandoned at once."""
    body = json.dumps({"text": [" ".join(["house"] * 300)] * 32, "beam": 12})
    request = message("POST", f"/api/v1/checkpoints/{attack.orders.checkpoint}/translate", attack.orders.read[0], body)
    attack.at_once(1, lambda _: attack.abandon([request] * 30, pause_s=2))


def bodies(attack: Attack) -> None:
    """420 connections that announce 1.25 MiB, send 6 kB and then a kilobyte per second; they reconnect when closed."""
    request = message("POST", "/api/v1/runs:validate", attack.orders.read[0], length=1_310_720) + b"{" + b" " * 6000
    clients: list[socket.socket] = []
    while attack.running():
        began = time.monotonic()
        for client in list(clients):
            try:
                client.send(b" " * 1100)
                attack.note(client.recv(4096))
                clients.remove(client)  # answered, or closed
                client.close()
            except BlockingIOError:
                pass
            except OSError:
                clients.remove(client)
                client.close()
        while len(clients) < 420 and attack.running():
            try:
                client = attack.connect(blocking=False)
                client.send(request)
                clients.append(client)
            except OSError:
                attack.errors += 1
                break
        time.sleep(max(0.0, began + 1 - time.monotonic()))


def streams(attack: Attack) -> None:
    """400 event streams of all runs that take nothing, eight a token, and batches of 10,000 log lines."""
    clients: list[socket.socket] = []
    text = '{"sequence":%d,"kind":"log","time_ms":1,"level":"info","text":"a line of a spool"}'

    def listen() -> None:
        while attack.running():
            for client in [client for client in clients if not is_open(client)]:
                clients.remove(client)
            while len(clients) < 400:
                token = attack.orders.read[len(clients) // 8 % len(attack.orders.read)]
                clients.append(attack.connect(receive_buffer=4096))
                clients[-1].sendall(message("GET", "/api/v1/events", token))
            time.sleep(1)

    def log_lines() -> Iterator[bytes]:
        for first in itertools.count(1, BATCH):
            lines = [text % sequence for sequence in range(first, first + BATCH)]
            yield attack.reporting("own", "records", attack.orders.bound[0], batch(lines, rank=101))

    attack.at_once(2, lambda number: attack.converse(log_lines()) if number else listen())


def audit(attack: Attack, number: int) -> Iterator[bytes]:
    """Requests that a careless server notes: POSTs of a read token that are refused."""
    return itertools.repeat(message("POST", "/api/v1/metrics/query", attack.orders.read[number], "{}"))


def batches(attack: Attack, number: int) -> Iterator[bytes]:
    """Batches of 10,000 steps from four ranks at a time; every 333rd step brings 64 new keys."""
    every, keys = 333, 64

    def new_keys(place: int) -> str:
        if place % every != every - 1:
            return ""
        names = ",".join(f'"k{place // every}_{key}":1' for key in range(keys))
        return f',"memory_bytes":{{{names}}}'

    for first in itertools.count(1, BATCH):
        records = [step(first + place, new_keys(place)) for place in range(BATCH)]
        yield attack.reporting("own", "records", attack.orders.bound[0], batch(records, rank=number))


def ranks(attack: Attack, number: int) -> Iterator[bytes]:
    """Heartbeats of ever higher ranks, for a run that its token may report."""
    token = (attack.orders.bound + attack.orders.ingest)[number % 3]
    for rank in attack.counter:
        yield attack.reporting("own", "heartbeat", token, heartbeat(1, rank))


def attempts(attack: Attack, _: int) -> Iterator[bytes]:
    """Huge attempts, and records that a training is over, for the runs of others."""
    over = '{"sequence":%d,"kind":"lifecycle","time_ms":1,"event":"finished","detail":"owned"}'
    orders = attack.orders
    for sequence in attack.counter:
        ended = [over % (1_000_000 + sequence)]
        for run, token in itertools.product(
            ("managed", "external", "finished"), (orders.ingest[0], orders.bound[0], orders.read[0])
        ):
            for last, body in (
                ("heartbeat", heartbeat(HUGE - 1, 0)),
                ("heartbeat", heartbeat(2, 0)),
                ("records", batch([step(sequence)], attempt=HUGE)),
                ("records", batch(ended)),
                ("records", batch(ended, rank=7)),
                ("stop", '{"mode":"now"}'),
            ):
                yield attack.reporting(run, last, token, body)


def runs(attack: Attack, _: int) -> Iterator[bytes]:
    """Invented runs, a step each."""
    while True:
        run = "r_01J8" + "".join(attack.random.choice(DIGITS) for _ in range(22))
        yield message("POST", f"/api/v1/runs/{run}/records", attack.orders.ingest[0], batch([step(1)]))


Requests = Callable[[Attack, int], Iterator[bytes]]  # of a connection


def pumped(connections: int, requests: Requests, depth: int = 20) -> Callable[[Attack], None]:
    """An attacker that has many requests on their way on each connection."""
    return lambda attack: attack.at_once(connections, lambda number: attack.pump(requests(attack, number), depth))


def conversing(connections: int, requests: Requests, pause_s: float = 0) -> Callable[[Attack], None]:
    """An attacker that waits for each answer."""
    return lambda attack: attack.at_once(connections, lambda number: attack.converse(requests(attack, number), pause_s))


#: Name, required token, and function.
ATTACKS: dict[str, tuple[str, Callable[[Attack], None]]] = {
    "refused": ("none", refused),
    "held": ("none", held),
    "guessed": ("none", pumped(8, guessed)),
    "queries": ("read", queries),
    "validate": ("read", validate),
    "translate": ("read", translate),
    "bodies": ("read", bodies),
    "streams": ("read", streams),
    "audit": ("read", pumped(8, audit, depth=50)),
    "batches": ("ingest", conversing(4, batches)),
    "ranks": ("ingest", pumped(9, ranks)),
    "attempts": ("ingest", conversing(1, attempts, pause_s=0.02)),
    "runs": ("ingest", pumped(2, runs, depth=10)),
}


def step_back() -> None:
    """Lowers the priority of this process, and where the kernel divides time between sessions first, of its session."""
    os.nice(NICE)
    with contextlib.suppress(OSError):
        os.setsid()
        pathlib.Path("/proc/self/autogroup").write_text(str(NICE), encoding="ascii")


def main() -> None:
    step_back()
    attack = Attack(Orders(**json.load(sys.stdin)))
    ATTACKS[sys.argv[1]][1](attack)
    print(json.dumps({"answers": dict(sorted(attack.answers.items())), "errors": attack.errors}), flush=True)
    os._exit(0)  # with threads that still wait for an answer


if __name__ == "__main__":
    main()
