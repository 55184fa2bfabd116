"""scripts/bench.sh translate: clients that translate by a server, one sentence a request; two builds in turns."""

from __future__ import annotations

import argparse
import contextlib
import gzip
import hashlib
import pathlib
import sys
import tempfile
from collections.abc import Iterator

import figures
import load_target
import server_load
from load_target import Target
from runs import program

LINES = 1000
#: What is measured with each number of clients, and its name in the table.
MEASURED = {
    "sentences_per_second": "sentences/s",
    "p50_ms": "p50, ms",
    "p99_ms": "p99, ms",
    "refused": "refused",
    "cpu_ms": "processor of the translator, ms/sentence",
}


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoint", type=pathlib.Path, required=True, help="its folder")
    parser.add_argument("--text", type=pathlib.Path, required=True, help=f"plain or gzip; {LINES} lines are translated")
    parser.add_argument("--clients", default="1,8,64", help="how many ask at once, each of them one sentence at a time")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=10, help="of each number of clients")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each build")
    parser.add_argument(
        "--against-build", type=pathlib.Path, metavar="FOLDER", help="in turns with the server and nmt in this folder"
    )


def sentences(text: pathlib.Path) -> list[str]:
    """The first lines of a text that are neither empty nor long."""
    opened = gzip.open(text, "rt", encoding="utf-8") if text.suffix == ".gz" else open(text, encoding="utf-8")
    with opened as lines:
        stripped = (line.strip() for line in lines)
        found = [line for line, _ in zip((line for line in stripped if 0 < len(line) < 1000), range(LINES))]
    if not found:
        sys.exit(f"bench: --text: {text} has no lines")
    return found


@contextlib.contextmanager
def serving(programs: pathlib.Path, checkpoint: pathlib.Path) -> Iterator[tuple[Target, str, pathlib.Path]]:
    """A server just started, the id of the checkpoint, and a folder for temporary files."""
    state = checkpoint / "state.json"
    if not state.is_file():
        sys.exit(f"bench: --checkpoint: {checkpoint} has no state.json; expected a folder such as update-00001000")
    with tempfile.TemporaryDirectory(prefix="babelring-bench-") as name:
        folder = pathlib.Path(name).resolve()
        (folder / "www").symlink_to(checkpoint.parent)
        target = load_target.start_server(programs, folder)
        try:
            content = state.read_bytes()
            record = {"sequence": 1, "kind": "checkpoint", "time_ms": 1, "update": 1, "name": checkpoint.name}
            record |= {"folder": str(checkpoint)}
            record |= {
                "files": [{"name": state.name, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}]
            }
            path = f"/runs/{server_load.RUN}"
            target.must("POST", f"{path}/records", {"attempt": 1, "rank": 9, "records": [record]})
            yield target, target.must("GET", f"{path}/checkpoints")["items"][0]["id"], folder
        finally:
            target.end()


def translator_seconds(server: int) -> float:
    """Processor time of the server's children."""
    children = pathlib.Path(f"/proc/{server}/task").glob("*/children")
    pids = [int(pid) for file in children for pid in file.read_text(encoding="ascii").split()]
    return sum(load_target.cpu_seconds(pid) for pid in pids)


def measure(programs: pathlib.Path, load: pathlib.Path, options: argparse.Namespace) -> dict[str, float]:
    """The figures of one build. `load`: the folder of the program that puts load on it."""
    found: dict[str, float] = {}
    with serving(programs, options.checkpoint) as (target, checkpoint, folder):
        (folder / "text").write_text("\n".join(options.lines) + "\n", encoding="utf-8")
        most = max(options.counts)
        (folder / "tokens").write_text("\n".join(server_load.page_tokens(target, 8 * most)), encoding="utf-8")
        target.must("POST", f"/checkpoints/{checkpoint}/translate", {"text": options.lines[:1]})  # loads it
        for clients in options.counts:
            before = translator_seconds(target.process.pid)
            words = ["--clients", clients, "--seconds", options.seconds, "--beam", options.beam]
            words += ["--text", folder / "text", "--tokens", folder / "tokens", "--checkpoint", checkpoint]
            one = server_load.load(load, target, server_load.RUN, "translate", *words)
            if one["failed"]:
                sys.exit(f"bench: {one['failed']} requests failed")
            spent = translator_seconds(target.process.pid) - before
            one["cpu_ms"] = spent / one["sentences"] * 1000
            found |= {f"{clients} {key}": one[key] for key in MEASURED}
    return found


def main(options: argparse.Namespace, programs: pathlib.Path) -> dict[str, object]:
    options.checkpoint = options.checkpoint.resolve()
    options.lines = sentences(options.text)
    try:
        options.counts = [int(word) for word in options.clients.split(",")]
    except ValueError:
        options.counts = []
    if not options.counts or min(options.counts) < 1:
        sys.exit(f"bench: --clients: found '{options.clients}', expected numbers such as 1,8,64")
    sides = {"this": lambda: measure(programs, programs, options)}
    if options.against_build is not None:
        program(options.against_build, "server")
        sides["other"] = lambda: measure(options.against_build, programs, options)
    found = server_load.in_turns(options.rounds, sides)
    rows = []
    print(f"{'clients':<9}{'what':<42}" + "".join(f"{side + ' build':>14}" for side in sides) + f"{'ratio':>9}")
    for clients in options.counts:
        for key, name in MEASURED.items():
            values = {side: found[side][f"{clients} {key}"] for side in sides}
            row: dict[str, object] = {"clients": clients, "what": key}
            row |= {side: figures.spread(several) for side, several in values.items()}
            line = f"{clients:<9}{name:<42}" + "".join(
                f"{figures.spread(v)['median']:>14,.2f}" for v in values.values()
            )
            if "other" in sides and min(values["other"]) > 0:
                ratio = figures.spread(figures.ratios(values["this"], values["other"]))
                row["ratio"] = ratio
                line += f"{ratio['median']:>9.2f} ({ratio['min']:.2f} to {ratio['max']:.2f})"
            rows.append(row)
            print(line, flush=True)
    return {"rows": rows, "beam": options.beam}
