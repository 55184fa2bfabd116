#!/usr/bin/env python3
"""The attackers of scripts/bench.sh server --hostile: clients without a token, with read tokens and with ingest tokens.

  hostile_attacks.py NAME      reads its orders as a JSON object from standard input (see Orders), attacks until the time is
                               over, and prints {"answers": {STATUS: count}, "errors": count}

Each attacker is a process that sends the same bytes again and again, so that it takes little processor time, and whose session has
nice 19, so that it takes none from the server: attackers are elsewhere."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import selectors
import socket
import sys
import time
from collections.abc import Callable, Iterator

from hostile_attacker import Attack, Orders, batch, message, run_path, step

DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
HUGE = 2**53
NICE = 19  # thirteen sessions


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


def guessed(attack: Attack) -> None:
    """Invented tokens, 20 requests on their way on each of eight connections."""

    def requests() -> Iterator[bytes]:
        while True:
            yield message("GET", "/api/v1/tokens/self", "bbr_" + f"{attack.random.getrandbits(256):064x}")

    attack.at_once(8, lambda _: attack.pump(requests()))


def queries(attack: Attack) -> None:
    """The most expensive queries: 28 abandoned at once each second, and eight connections that repeat them and read."""
    keys = ",".join(["loss"] * 64)
    path = run_path(attack.orders.runs["large"], f"series?points=20000&keys={keys}")
    plain = run_path(attack.orders.runs["large"], "series?points=20000&keys=loss,nll,step_ms,target_tokens")

    def work(number: int) -> None:
        token = attack.orders.read[number % 4]
        if number == 8:
            for place in range(28):
                attack.abandon(message("GET", path if place % 2 else plain, token))
            time.sleep(1)
            return
        with attack.connect() as client:
            client.settimeout(300)
            while attack.running():
                attack.ask(client, message("GET", path if number % 2 else plain, token))

    attack.at_once(9, work)


def validate(attack: Attack) -> None:
    """Configurations to check, each of which starts a process: eight connections that repeat, one that leaves at once."""
    body = json.dumps({"config": attack.orders.config, "world_size": 2})
    request = message("POST", "/api/v1/runs:validate", attack.orders.read[0], body)

    def work(number: int) -> None:
        if number == 8:
            attack.abandon(request)
            time.sleep(0.05)
            return
        with attack.connect() as client:
            while attack.running():
                attack.ask(client, request)

    attack.at_once(9, work)


def translate(attack: Attack) -> None:
    """Thirty large texts to translate every two seconds, each abandoned at once."""
    body = json.dumps({"text": [" ".join(["house"] * 300)] * 32, "beam": 12})
    request = message("POST", f"/api/v1/checkpoints/{attack.orders.checkpoint}/translate", attack.orders.read[0], body)

    def work(_: int) -> None:
        for _ in range(30):
            attack.abandon(request)
        time.sleep(2)

    attack.at_once(1, work)


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

    def listen(_: int) -> None:
        while attack.running():
            for client in [client for client in clients if not is_open(client)]:
                clients.remove(client)
            while len(clients) < 400:
                client = socket.socket()
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.settimeout(30)
                client.connect(("127.0.0.1", attack.orders.port))
                client.sendall(
                    message("GET", "/api/v1/events", attack.orders.read[len(clients) // 8 % len(attack.orders.read)])
                )
                clients.append(client)
            time.sleep(1)

    def write(number: int) -> None:
        rank, sequence = 100 + number, 0
        with attack.connect() as client:
            while attack.running():
                lines = [
                    f'{{"sequence":{sequence + i},"kind":"log","time_ms":1,"level":"info","text":"a line of a spool"}}'
                    for i in range(1, 10_001)
                ]
                sequence += 10_000
                attack.ask(
                    client,
                    message(
                        "POST",
                        run_path(attack.orders.runs["own"], "records"),
                        attack.orders.bound[0],
                        batch(lines, rank=rank),
                    ),
                )

    attack.at_once(2, lambda number: write(number) if number else listen(number))


def audit(attack: Attack) -> None:
    """Requests that a careless server notes: POSTs of a read token that are refused."""

    def requests(token: str) -> Iterator[bytes]:
        one = message("POST", "/api/v1/metrics/query", token, "{}")
        while True:
            yield one

    attack.at_once(8, lambda number: attack.pump(requests(attack.orders.read[number]), depth=50))


def batches(attack: Attack) -> None:
    """Batches of 10,000 steps from four ranks at a time; every 333rd step brings 64 new keys."""
    every, keys = 333, 64

    def work(number: int) -> None:
        first = 1
        with attack.connect() as client:
            while attack.running():
                records = []
                for i in range(10_000):
                    more = ""
                    if i % every == every - 1:
                        names = ",".join(f'"k{i // every}_{key}":1' for key in range(keys))
                        more = f',"memory_bytes":{{{names}}}'
                    records.append(step(first + i, more))
                first += 10_000
                attack.ask(
                    client,
                    message(
                        "POST",
                        run_path(attack.orders.runs["own"], "records"),
                        attack.orders.bound[0],
                        batch(records, rank=number),
                    ),
                )

    attack.at_once(4, work)


def ranks(attack: Attack) -> None:
    """Heartbeats of ever higher ranks, for a run that its token may report."""
    counter = iter(range(10, 1_000_000))

    def requests(token: str) -> Iterator[bytes]:
        path = run_path(attack.orders.runs["own"], "heartbeat")
        for rank in counter:
            yield message("POST", path, token, f'{{"attempt":1,"rank":{rank},"host":"h{rank}","pid":1}}')

    attack.at_once(9, lambda number: attack.pump(requests((attack.orders.bound + attack.orders.ingest)[number % 3])))


def attempts(attack: Attack) -> None:
    """Huge attempts, and records that a training is over, for the runs of others."""
    over = '{"sequence":%d,"kind":"lifecycle","time_ms":1,"event":"finished","detail":"owned"}'

    def requests() -> Iterator[bytes]:
        sequence = 0
        while True:
            sequence += 1
            for run in ("managed", "external", "finished"):
                run = attack.orders.runs[run]
                for token in (attack.orders.ingest[0], attack.orders.bound[0], attack.orders.read[0]):
                    yield message(
                        "POST",
                        run_path(run, "heartbeat"),
                        token,
                        f'{{"attempt":{HUGE - 1},"rank":0,"host":"h","pid":1}}',
                    )
                    yield message(
                        "POST", run_path(run, "heartbeat"), token, f'{{"attempt":2,"rank":0,"host":"h","pid":1}}'
                    )
                    yield message("POST", run_path(run, "records"), token, batch([step(sequence)], attempt=HUGE))
                    for rank in (0, 7):
                        yield message(
                            "POST", run_path(run, "records"), token, batch([over % (1_000_000 + sequence)], rank=rank)
                        )
                    yield message("POST", run_path(run, "stop"), token, '{"mode":"now"}')

    all_requests = requests()

    def work(_: int) -> None:
        with attack.connect() as client:
            while attack.running():
                attack.ask(client, next(all_requests))
                time.sleep(0.02)

    attack.at_once(1, work)


def runs(attack: Attack) -> None:
    """Invented runs, a step each."""

    def requests(token: str) -> Iterator[bytes]:
        while True:
            run = "r_01J8" + "".join(attack.random.choice(DIGITS) for _ in range(22))
            yield message("POST", run_path(run, "records"), token, batch([step(1)]))

    attack.at_once(2, lambda number: attack.pump(requests(attack.orders.ingest[0]), depth=10))


#: Name, required token, and function.
ATTACKS: dict[str, tuple[str, Callable[[Attack], None]]] = {
    "refused": ("none", refused),
    "held": ("none", held),
    "guessed": ("none", guessed),
    "queries": ("read", queries),
    "validate": ("read", validate),
    "translate": ("read", translate),
    "bodies": ("read", bodies),
    "streams": ("read", streams),
    "audit": ("read", audit),
    "batches": ("ingest", batches),
    "ranks": ("ingest", ranks),
    "attempts": ("ingest", attempts),
    "runs": ("ingest", runs),
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
