"""A server that receives reports during a measurement."""

from __future__ import annotations

import contextlib
import pathlib
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

from runs import program

START_S = 30


class Server(NamedTuple):
    address: str
    pid: int


@contextlib.contextmanager
def metrics_server(programs: pathlib.Path, folder: pathlib.Path) -> Iterator[Server]:
    """A server on a free port with its data under `folder`."""
    log = folder / "server.log"
    with open(log, "w", encoding="utf-8") as output:
        process = subprocess.Popen(
            [
                program(programs, "server"),
                "--listen",
                "127.0.0.1:0",
                "--data",
                folder / "server",
                "--checkpoint-root",
                folder,
            ],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield Server(address(process, log), process.pid)
    finally:
        process.terminate()
        process.wait()


def address(process: subprocess.Popen, log: pathlib.Path) -> str:
    """Returns the address in the server's log."""
    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        found = re.search(r"http://[\w.:\[\]-]+:\d+", log.read_text(encoding="utf-8"))
        if found:
            return found[0]
        time.sleep(0.05)
    sys.exit(f"bench: the server did not start:\n{log.read_text(encoding='utf-8')}")
