"""scripts/bench.sh server --against-build: the load bars of two builds of the server in turns, each time a fresh one."""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import tempfile
import time
from collections.abc import Iterator

import figures
import load_target
import server_load
from runs import program

TOLERATED = 0.05
IDLE_AFTER_S = 10  # by then the allocator has returned the memory of the start
#: What is compared, and whether more is better.
COMPARED = {
    "status_per_second": True,
    "status_cpu_us": False,
    "status_p99_ms": False,
    "download_gb_per_second": True,
    "download_cpu_s_per_gib": False,
    "ingest_sent_per_second": True,
    "ingest_cpu_us_a_record": False,
    "ack_p99_ms": False,
    "log_p99_ms": False,
    "metrics_p99_ms": False,
    "bytes_a_stream": False,
    "idle_mb": False,
    "left_mb": False,
}


@contextlib.contextmanager
def fresh_server(server: pathlib.Path) -> Iterator[tuple[load_target.Target, pathlib.Path]]:
    """A server just started, and its folder."""
    with tempfile.TemporaryDirectory(prefix="babelring-bench-") as name:
        folder = pathlib.Path(name).resolve()
        (folder / "www").mkdir()
        ours = load_target.start_server(server, folder)
        try:
            time.sleep(IDLE_AFTER_S)
            yield ours, folder
        finally:
            ours.end()


def bars(server: pathlib.Path, load: pathlib.Path, options: argparse.Namespace) -> dict[str, float]:
    """The figures of one build. `load`: the folder of the program that puts load on it. The streams have a server of
    their own: memory that another load has left would hide theirs."""
    with fresh_server(server) as (ours, folder):
        found = loaded(ours, load, folder, options)
    with fresh_server(server) as (ours, folder):
        listening, each = server_load.listen(ours, load, folder, options)
    found |= {f"{topic}_p99_ms": listening[topic]["p99_ms"] for topic in ("log", "metrics")}  # type: ignore[index]
    return found | {"bytes_a_stream": each}


def loaded(
    ours: load_target.Target, load: pathlib.Path, folder: pathlib.Path, options: argparse.Namespace
) -> dict[str, float]:
    pid = ours.process.pid
    found = {"idle_mb": load_target.resident_bytes(pid) / 1e6}
    before = load_target.cpu_seconds(pid)
    ingest = server_load.load(
        load, ours, server_load.RUN, "ingest", "--updates", options.updates, "--batch", options.batch
    )
    found |= {
        "ingest_sent_per_second": ingest["sent_per_second"],
        "ack_p99_ms": ingest["ack_p99_ms"],
        "ingest_cpu_us_a_record": (load_target.cpu_seconds(pid) - before) / ingest["records"] * 1e6,
    }
    status = load_target.wrk(ours, f"/api/v1/runs/{server_load.RUN}", options.seconds)
    found |= {
        "status_per_second": status["per_second"],
        "status_cpu_us": status["cpu_us"],
        "status_p99_ms": status["p99_ms"],
    }
    file = server_load.write_checkpoint(folder, options.file_mb)
    path, _ = server_load.offer(ours, file)
    downloads = [load_target.download(ours, path, file.stat().st_size) for _ in range(3)]
    for key in ("gb_per_second", "cpu_s_per_gib"):
        found[f"download_{key}"] = figures.spread([one[key] for one in downloads])["median"]
    time.sleep(server_load.SETTLE_S)
    return found | {"left_mb": load_target.resident_bytes(pid) / 1e6 - found["idle_mb"]}


def main(options: argparse.Namespace, programs: pathlib.Path) -> dict[str, object]:
    program(options.against_build, "server")
    sides = {
        "this": lambda: bars(programs, programs, options),
        "other": lambda: bars(options.against_build, programs, options),
    }
    found = server_load.in_turns(options.rounds, sides)
    print(f"{'':<28}{'this build':>14}{'other build':>14}{'ratio':>9}")
    rows, worse = [], 0
    for key, more_is_better in COMPARED.items():
        mine, theirs = (figures.spread(found[side][key]) for side in ("this", "other"))
        ratio = figures.spread(figures.ratios(found["this"][key], [max(value, 1e-9) for value in found["other"][key]]))
        met = ratio["median"] >= 1 - TOLERATED if more_is_better else ratio["median"] <= 1 + TOLERATED
        worse += not met
        rows.append({"what": key, "this": mine, "other": theirs, "ratio": ratio, "met": met})
        print(
            f"{key:<28}{mine['median']:>14,.2f}{theirs['median']:>14,.2f}{ratio['median']:>9.2f} ({ratio['min']:.2f} to {ratio['max']:.2f})"
            f"{'' if met else ' WORSE'}",
            flush=True,
        )
    return {"rows": rows, "worse": worse}
