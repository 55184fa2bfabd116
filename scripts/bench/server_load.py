"""The load bars of the server, each beside nginx or a floor of this machine, in turns: a request, a page's live stream, ingest,
a query over a million points, predictions of a run of many ranks, a checkpoint's download, and the idle server."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import figures
from load_target import (
    Refused,
    ResidentMemory,
    Target,
    cpu_seconds,
    download,
    resident_bytes,
    start_nginx,
    start_server,
    wrk,
)
from runs import processor_times, program

RUN = "r_01J8ZQ4T5W6X7Y8Z9A0B1C2D3E"
LISTEN = "r_01J8ZQ4T5W6X7Y8Z9A0B1C2D3F"
MANY_RANKS = "r_01J8ZQ4T5W6X7Y8Z9A0B1C2D3G"
SETTLE_S = 60


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=5, help="turns of each comparison")
    parser.add_argument(
        "--seconds", type=float, help="seconds per turn of requests (2); with --hostile, of the attack (120)"
    )
    parser.add_argument("--updates", type=int, default=250_000, help="updates that each of four ranks reports")
    parser.add_argument("--subscribers", type=int, default=10_000, help="pages that listen at once")
    parser.add_argument("--listen-seconds", type=int, default=20, help="seconds for which the pages listen")
    parser.add_argument("--batch", type=int, default=500, help="records of a rank in flight")
    parser.add_argument(
        "--against-build",
        type=pathlib.Path,
        metavar="FOLDER",
        help="compare in turns with the server in this folder, such as an older commit's, instead of nginx",
    )
    parser.add_argument("--file-mb", type=int, default=512, help="size of the downloaded checkpoint")


def in_turns(rounds: int, sides: dict[str, Callable[[], dict[str, float]]]) -> dict[str, dict[str, list[float]]]:
    found: dict[str, dict[str, list[float]]] = {name: {} for name in sides}
    for _ in range(rounds):
        for name, measure in sides.items():
            for key, value in measure().items():
                found[name].setdefault(key, []).append(value)
    return found


def load(programs: pathlib.Path, target: Target, run: str, *words: object) -> dict[str, float]:
    token = ["--token", target.token] if target.token else []
    done = subprocess.run(
        [str(program(programs, "bench_server")), "--port", str(target.port), *token, "--run", run, *map(str, words)],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"bench: bench_server {words[0]}: exit code {done.returncode}")
    return figures.last_json(done.stdout)  # type: ignore[return-value]


class Table:
    """Rows of figure, result, bar, and whether the bar is met."""

    def __init__(self) -> None:
        self.rows: list[dict[str, object]] = []

    def row(self, what: str, value: float, unit: str, must: str, met: bool | None) -> None:
        self.rows.append({"what": what, "value": value, "unit": unit, "must": must, "met": met})
        mark = {True: "met", False: "MISSED", None: ""}[met]
        print(f"{what:<44} {value:>12,.2f} {unit:<10} {must:<18} {mark}", flush=True)


def compare_requests(table: Table, ours: Target, nginx: Target | None, options: argparse.Namespace) -> None:
    if shutil.which("wrk") is None:
        print("requests: skipped, no wrk")
        return
    path = f"/api/v1/runs/{RUN}"
    sides = {"ours": lambda: wrk(ours, path, options.seconds)}
    if nginx is not None:
        sides["nginx"] = lambda: wrk(nginx, "/run.json", options.seconds)
    found = in_turns(options.rounds, sides)
    median = {
        side: {key: figures.spread(values)["median"] for key, values in keys.items()} for side, keys in found.items()
    }
    table.row("GET a run's status", median["ours"]["per_second"], "1/s", "", None)
    if nginx is None:
        return
    table.row("  nginx, a static file", median["nginx"]["per_second"], "1/s", "", None)
    for key, name, must, good in (
        ("per_second", "rate", ">= 1", lambda r: r >= 1),
        ("cpu_us", "processor", "<= 1.6", lambda r: r <= 1.6),
        ("p99_ms", "p99", "<= 3", lambda r: r <= 3),
    ):
        ratio = figures.spread(figures.ratios(found["ours"][key], found["nginx"][key]))["median"]
        table.row(f"  {name} as a multiple of nginx's", ratio, "x", must, good(ratio))


def write_checkpoint(folder: pathlib.Path, megabytes: int) -> pathlib.Path:
    """Weights of random bytes in a folder of checkpoints. Their file."""
    file = folder / "www" / "update-00000001" / "weights.safetensors"
    file.parent.mkdir()
    (file.parent / "state.json").write_text("{}", encoding="utf-8")  # by which a folder is known as a checkpoint
    with open(file, "wb") as weights:
        for _ in range(megabytes):
            weights.write(os.urandom(1 << 20))
    return file


def offer(ours: Target, file: pathlib.Path) -> tuple[str, str]:
    """Reports a checkpoint with this file. The path of its download, and its digest."""
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    record = {"sequence": 1, "kind": "checkpoint", "time_ms": 1, "update": 1, "name": "update-00000001"}
    record |= {
        "folder": str(file.parent),
        "files": [{"name": file.name, "size": file.stat().st_size, "sha256": digest}],
    }
    ours.must("POST", f"/runs/{RUN}/records", {"attempt": 1, "rank": 9, "records": [record]})
    item = ours.must("GET", f"/runs/{RUN}/checkpoints")["items"][0]
    return f"/api/v1/checkpoints/{item['id']}/files/{file.name}", digest


def compare_downloads(
    table: Table, ours: Target, nginx: Target | None, file: pathlib.Path, options: argparse.Namespace
) -> None:
    size = file.stat().st_size
    path, digest = offer(ours, file)
    places = {"ours": (ours, path)} | ({} if nginx is None else {"nginx": (nginx, f"/{file.parent.name}/{file.name}")})
    found = in_turns(
        options.rounds, {side: lambda place=place: download(*place, size) for side, place in places.items()}
    )
    checked = in_turns(
        options.rounds, {side: lambda place=place: download(*place, size, digest) for side, place in places.items()}
    )
    table.row("download of a checkpoint", figures.spread(found["ours"]["gb_per_second"])["median"], "GB/s", "", None)
    table.row("  processor", figures.spread(found["ours"]["cpu_s_per_gib"])["median"], "s/GiB", "", None)
    if nginx is None:
        return
    rate = figures.spread(figures.ratios(found["ours"]["gb_per_second"], found["nginx"]["gb_per_second"]))["median"]
    table.row("  rate as a multiple of nginx's sendfile", rate, "x", ">= 1", rate >= 1)
    for what, values in (
        ("processor as a multiple of nginx's", found),
        ("the same, client that checks the digest", checked),
    ):
        mine, theirs = (figures.spread(values[side]["cpu_s_per_gib"])["median"] for side in ("ours", "nginx"))
        table.row("  " + what, mine / max(theirs, 1e-9), "x", "<= 1.2", mine <= 1.2 * theirs)


def page_tokens(ours: Target, pages: int) -> list[str]:
    """A token may have eight streams open: as many as the pages need."""
    names = [f"page {number}" for number in range((pages + 7) // 8)]
    return [str(ours.must("POST", "/tokens", {"name": name, "scope": "read"})["secret"]) for name in names]


def listen(
    ours: Target, programs: pathlib.Path, folder: pathlib.Path, options: argparse.Namespace
) -> tuple[dict[str, float], float]:
    """Measures the delay of events for listening pages, and the peak memory of the server for each page."""
    (folder / "tokens").write_text("\n".join(page_tokens(ours, options.subscribers)), encoding="utf-8")
    with ResidentMemory(ours.process.pid) as memory:
        words = ["--subscribers", options.subscribers, "--seconds", options.listen_seconds]
        found = load(programs, ours, LISTEN, "listen", *words, "--tokens", folder / "tokens")
    return found, memory.peak_growth / options.subscribers


def timed(ours: Target, path: str) -> tuple[float, dict[str, object]]:
    """Milliseconds until the answer to a GET, and the answer."""
    began = time.monotonic()
    status, body = ours.request("GET", f"/api/v1{path}")
    taken = (time.monotonic() - began) * 1000
    if status != 200:
        raise Refused(f"GET {path}: {status} {body!r}")
    return taken, json.loads(body)


def query(table: Table, ours: Target) -> None:
    path = f"/runs/{RUN}/metrics/loss?points=1200"
    times, answers = zip(*(timed(ours, path) for _ in range(6)))
    total = answers[0]["total"]
    table.row(f"query of {total:,} steps of 4 ranks, first", times[0], "ms", "<= 100", times[0] <= 100)
    again = sorted(times[1:])[2]
    table.row("  again", again, "ms", "<= 20", again <= 20)


def what_if(table: Table, ours: Target, programs: pathlib.Path, ranks: int = 256, requests: int = 300) -> None:
    """Measures predictions of a run of many ranks while four ranks of another run report without a pause."""
    load(programs, ours, MANY_RANKS, "ingest", "--ranks", ranks, "--updates", 150, "--batch", 150)
    started = {"sequence": 151, "kind": "lifecycle", "time_ms": 1, "event": "started", "name": "many ranks"}
    started |= {"world_size": ranks, "parameters": 60_000_000, "config": "communication: {bucket_mb: 4}"}
    ours.must("POST", f"/runs/{MANY_RANKS}/records", {"attempt": 1, "rank": 0, "records": [started]})
    words = ["--port", ours.port, *(["--token", ours.token] if ours.token else []), "--run", LISTEN]
    command = [program(programs, "bench_server"), *words, "ingest", "--updates", 10**9, "--batch", 10]
    reporting = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL)
    path = f"/runs/{MANY_RANKS}/what-if"
    try:
        time.sleep(1)
        times = [timed(ours, f"{path}?hosts={1 + at % 128}&link_gbit={1 + at % 7}")[0] for at in range(requests)]
    finally:
        reporting.kill()
        reporting.wait()
    table.row(f"What if of {ranks} ranks, p50", figures.percentile(times, 0.5), "ms", "", None)
    p99 = figures.percentile(times, 0.99)
    table.row("  p99", p99, "ms", "<= 20", p99 <= 20)


def measure(
    options: argparse.Namespace, programs: pathlib.Path, folder: pathlib.Path, table: Table, targets: list[Target]
) -> None:
    (folder / "www").mkdir()
    ours = start_server(programs, folder)
    targets.append(ours)
    nginx = start_nginx(folder)
    if nginx is None:
        print("nginx is not installed: its rows are left out")
    else:
        targets.append(nginx)
    pid = ours.process.pid
    time.sleep(1)
    before = cpu_seconds(pid)
    time.sleep(10)
    idle = (cpu_seconds(pid) - before) * 10
    idle_bytes = resident_bytes(pid)
    table.row("idle: memory", idle_bytes / 1e6, "MB", "<= 30", idle_bytes <= 30e6)
    table.row("idle: processor", idle, "%", "<= 0.2", idle <= 0.2)

    ingest = load(programs, ours, RUN, "ingest", "--updates", options.updates, "--batch", options.batch)
    table.row("ingest of 4 ranks, records of a step", ingest["records_per_second"], "1/s", "", None)
    sent = ingest["sent_per_second"]
    table.row(f"  numbers sent ({ingest['sent']} a record)", sent, "1/s", ">= 100,000", sent >= 100_000)
    table.row(f"  points stored ({ingest['keys']} a record)", ingest["points_per_second"], "1/s", "", None)
    table.row("  acknowledged after commit, p99", ingest["ack_p99_ms"], "ms", "<= 100", ingest["ack_p99_ms"] <= 100)
    query(table, ours)
    what_if(table, ours, programs)

    body = ours.request("GET", f"/api/v1/runs/{RUN}")[1]
    (folder / "www" / "run.json").write_bytes(body)
    compare_requests(table, ours, nginx, options)
    compare_downloads(table, ours, nginx, write_checkpoint(folder, options.file_mb), options)

    listening, each = listen(ours, programs, folder, options)
    missed = listening["closed"]
    for topic, name, must in (
        ("log", f"{listening['accepted']:,} pages listen: a log line", 250),
        ("metrics", "  a step", 500),
    ):
        found = listening[topic]
        table.row(f"{name}, p50", found["p50_ms"], "ms", "", None)
        table.row("    p99", found["p99_ms"], "ms", f"<= {must}", found["p99_ms"] <= must)
        missed += found["missed"]
    table.row("  missed", missed, "events", "0", missed == 0)
    table.row("  memory of one", each / 1e3, "kB", "<= 8", each <= 8000)
    time.sleep(SETTLE_S)
    left = (resident_bytes(pid) - idle_bytes) / 1e6
    table.row(f"memory above idle, {SETTLE_S} s after all that", left, "MB", "<= 64", left <= 64)


def main(options: argparse.Namespace, programs: pathlib.Path) -> dict[str, object]:
    table, targets = Table(), []
    before = processor_times()
    with tempfile.TemporaryDirectory(prefix="babelring-bench-") as folder:
        try:
            measure(options, programs, pathlib.Path(folder).resolve(), table, targets)
        finally:
            for target in targets:
                target.end()
    after = processor_times()
    return {
        "rows": table.rows,
        "missed": sum(row["met"] is False for row in table.rows),
        "steal": figures.disturbance(before, after, 0, 1)["steal"],
    }
