"""A server under load: ours or nginx, its clients, and the requests and downloads that are measured on it."""

from __future__ import annotations

import http.client
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from typing import Any, TextIO

from runs import program

NGINX = """
daemon off; master_process off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/nginx.log;
events {{ worker_connections 1024; }}
http {{ access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000; default_type application/json;
  client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3; uwsgi_temp_path {folder}/t4;
  scgi_temp_path {folder}/t5;
  server {{ listen 127.0.0.1:{port}; root {folder}/www; }} }}
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads, to the nanosecond: a download of half a second is too short for ticks."""
    threads = pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text(encoding="ascii").split()[0]) for thread in threads) / 1e9


def resident_bytes(pid: int) -> int:
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE")


class ResidentMemory:
    """Samples the resident memory of a process in a thread, within a `with`."""

    def __init__(self, pid: int) -> None:
        self.pid, self.samples, self.ended = pid, [resident_bytes(pid)], threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def watch(self) -> None:
        while not self.ended.wait(0.2):
            self.samples.append(resident_bytes(self.pid))

    def __enter__(self) -> ResidentMemory:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.thread.join()

    @property
    def peak_growth(self) -> int:
        return max(self.samples) - self.samples[0]


class Refused(RuntimeError):
    """An answer that was not expected: method, path, status, answer."""


class Client:
    """Asks a server as the owner of a token."""

    def __init__(self, port: int, token: str = "") -> None:
        self.port, self.token = port, token

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def request(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        """Status and content; a body that is no string is sent as JSON. Raises OSError or HTTPException if no answer came."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        kind = {"Content-Type": "application/json"} if body is not None else {}
        text = body if isinstance(body, (str, type(None))) else json.dumps(body)
        try:
            connection.request(method, path, text, self.headers | kind)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Status and JSON of a request of the API; 0 if no answer came."""
        try:
            status, data = self.request(method, f"/api/v1{path}", body)
        except (OSError, http.client.HTTPException) as error:
            return 0, str(error)
        return status, json.loads(data) if data else None

    def must(self, method: str, path: str, body: object = None) -> Any:
        """The answer to a request of the API that must succeed. Raises Refused."""
        status, answer = self.ask(method, path, body)
        if not 200 <= status < 300:
            raise Refused(f"{method} {path}: {status} {answer}")
        return answer


class Target(Client):
    """A server under load: its process, port and required request headers."""

    def __init__(self, name: str, process: subprocess.Popen[str], port: int, token: str = "") -> None:
        super().__init__(port, token)
        self.name, self.process = name, process

    def end(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start_program(
    programs: pathlib.Path, folder: pathlib.Path, root: str, *options: str, log: TextIO | None = None
) -> tuple[subprocess.Popen[str], int, str]:
    """Starts our server with its data in the folder, `root` for checkpoints beside it. Its process, port, administrator's token."""
    own = [program(programs, "server"), "--listen", "127.0.0.1:0", "--data", folder / "data"]
    command = [*map(str, [*own, "--checkpoint-root", folder / root]), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    if "listening on" not in line:
        sys.exit(f"bench: server said {line!r}{': see ' + log.name if log else ''}")
    process.stdout.close()
    time.sleep(0.5)
    secret = folder / "data" / "admin.token"
    token = secret.read_text(encoding="utf-8").strip() if secret.exists() else ""
    return process, int(line.strip().rstrip("/").rsplit(":", 1)[1]), token


def start_server(programs: pathlib.Path, folder: pathlib.Path) -> Target:
    known = subprocess.run([program(programs, "server"), "--help"], capture_output=True, text=True, check=True).stdout
    # The bars are the server's; how often one client may ask is not among them.
    options = ["--request-rate", "0"] if "--request-rate" in known else []
    return Target("server", *start_program(programs, folder, "www", "--log-level", "error", *options))


def start_nginx(folder: pathlib.Path) -> Target | None:
    program = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
    if program is None:
        return None
    port = free_port()
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=port), encoding="utf-8")
    process = subprocess.Popen(
        [program, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-g", "user root;" if os.geteuid() == 0 else ""],
        text=True,
        stderr=subprocess.DEVNULL,
    )
    end = time.monotonic() + 5
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return Target("nginx", process, port)
        time.sleep(0.05)
    process.kill()
    return None


def wrk(target: Target, path: str, seconds: float) -> dict[str, float]:
    command = ["wrk", "-t1", "-c64", f"-d{seconds:g}s", "--latency"]
    for name, value in target.headers.items():
        command += ["-H", f"{name}: {value}"]
    before = cpu_seconds(target.process.pid)
    text = subprocess.run(
        [*command, f"http://127.0.0.1:{target.port}{path}"], capture_output=True, text=True, check=True
    ).stdout
    spent = cpu_seconds(target.process.pid) - before
    if "Non-2xx" in text:
        sys.exit(f"bench: {target.name} {path}: {text}")
    requests = int(re.search(r"(\d+) requests in", text).group(1))  # type: ignore[union-attr]
    unit = {"us": 1e-3, "ms": 1.0, "s": 1e3}
    value, name = re.search(r"99%\s+([\d.]+)(us|ms|s)", text).groups()  # type: ignore[union-attr]
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", text).group(1))  # type: ignore[union-attr]
    return {"per_second": rate, "p99_ms": float(value) * unit[name], "cpu_us": spent / requests * 1e6}


def keep_to(pid: int, processor: int | None) -> None:
    """Moves a process with its threads to one processor, or gives it back all."""
    allowed = os.sched_getaffinity(os.getpid()) if processor is None else {processor}
    for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), allowed)


def download(target: Target, path: str, size: int, digest: str = "") -> dict[str, float]:
    """The server on one processor, curl on another: on one and the same, much of the server's work for TCP is done in
    the client's calls and counted as its time, so that figures would depend on where the kernel puts the two.

    A client that checks the `digest` is slower than the server and has always something to do. One that throws the bytes
    away sleeps as often as it happens to be quicker, and to wake it is the greater part of what the server then does.
    """
    first, last = min(os.sched_getaffinity(0)), max(os.sched_getaffinity(0))
    client = ["taskset", "-c", str(last)]
    command = [*client, *"curl -s -w".split(), "%{stderr}%{http_code} %{size_download}"]
    command += ["-o", "-" if digest else "/dev/null"]
    for name, value in target.headers.items():
        command += ["-H", f"{name}: {value}"]
    keep_to(target.process.pid, first)
    before, began = cpu_seconds(target.process.pid), time.monotonic()
    with subprocess.Popen(
        [*command, f"http://127.0.0.1:{target.port}{path}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as curl:
        assert curl.stderr is not None
        if digest:
            found = subprocess.run(
                [*client, "sha256sum"], stdin=curl.stdout, capture_output=True, text=True, check=True
            ).stdout
            if found.split()[0] != digest:
                sys.exit(
                    f"bench: download from {target.name}: the bytes have the digest {found.split()[0]}, not {digest}"
                )
        code, got = curl.stderr.read().decode().split()
    seconds = time.monotonic() - began
    keep_to(target.process.pid, None)
    if (code, int(got)) != ("200", size):
        sys.exit(f"bench: download from {target.name}: status {code}, {got} of {size} bytes")
    return {
        "gb_per_second": size / seconds / 1e9,
        "cpu_s_per_gib": (cpu_seconds(target.process.pid) - before) / size * 2**30,
    }
