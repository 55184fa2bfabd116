"""Starts, awaits and ends the programs of the system for tests: servers, workers under mpirun, runs over several hosts, on
loopback or in network namespaces. The test cases that use them are in cases.py."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import random
import re
import signal
import socket
import struct
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("BABELRING_BIN", ROOT / "build/dev/bin")).resolve()
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
MPIRUN = ["mpirun", "--bind-to", "none", "--oversubscribe"]
# The program after it is the first of a PID namespace, as in a container: its end ends all others there.
CONTAINER = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
OVER = ("succeeded", "failed", "stopped", "lost")
NOUNS = ["cat", "dog", "house", "tree", "river", "stone", "bird", "child", "book", "lamp", "road", "cloud"]
VERBS = ["sees", "likes", "finds", "takes", "wants", "paints", "hears", "follows"]
ADJECTIVES = ["old", "small", "green", "quiet", "bright", "heavy", "round", "kind"]
# Hosts are network namespaces with a TCP link between them. The script exits with NO_HOSTS where they cannot be made.
TWO_HOSTS = ROOT / "tests/mpi/two_hosts.sh"
NO_HOSTS = 77
SLOTS = 2  # ranks of each host
RANKS = range(2 * SLOTS)
HOST_OF = ["hostA"] * SLOTS + ["hostB"] * SLOTS  # by rank
HOST_A = "10.77.0.1:8080"  # where a server on hostA listens
HOST_A_OPTIONS = ["--insecure", "--allow-host", "hostA"]


def toy_corpus(folder: Path, lines: int, seed: int) -> tuple[Path, Path]:
    """Sentences of a small grammar, and the same words marked and in another order: a language pair that is learnable."""
    rng = random.Random(seed)
    source, target = [], []
    for _ in range(lines):
        a, n, v, m = rng.choice(ADJECTIVES), rng.choice(NOUNS), rng.choice(VERBS), rng.choice(NOUNS)
        source.append(f"the {a} {n} {v} the {m} .")
        target.append(f"das {n}e {a}es {m}e {v}t .")
    paths = folder / f"toy{seed}.en", folder / f"toy{seed}.de"
    for path, text in zip(paths, (source, target)):
        path.write_text("\n".join(text) + "\n", encoding="utf-8")
    return paths


def call(program: str, *words: object, **options: Any) -> subprocess.CompletedProcess:
    """Runs a program of ours to its end. `options` are those of subprocess.run."""
    command = [BIN / program, *map(str, words)]
    return subprocess.run(command, **({"capture_output": True, "text": True, "timeout": 600} | options))


def prepare(output: Path, train: Iterable[Path], valid: Iterable[Path], *options: object) -> None:
    call("nmt", "prepare", "--train", *train, "--valid", *valid, "--output", output, *options, check=True)


def make_certificate(host: str, certificate: Path, key: Path) -> None:
    """One that the host signed itself."""
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    names = ["-subj", f"/CN={host}", "-addext", f"subjectAltName=DNS:{host}"]
    command = ["openssl", "req", *kind, *names, "-out", certificate, "-keyout", key]
    subprocess.run(command, check=True, capture_output=True)


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def poison(checkpoint: Path, tensor: str) -> None:
    """Makes a weight NaN with matching digests, as a program without the check would have written it."""
    weights, state, sums = (checkpoint / name for name in ("weights.safetensors", "state.json", "SHA256SUMS"))
    before = {file: sha256(file) for file in (weights, state)}
    content = bytearray(weights.read_bytes())
    length = int.from_bytes(content[:8], "little")
    begin = 8 + length + json.loads(content[8 : 8 + length])[tensor]["data_offsets"][0]
    content[begin : begin + 4] = struct.pack("<f", float("nan"))
    weights.write_bytes(content)
    state.write_text(state.read_text().replace(before[weights], sha256(weights)))
    sums.write_text(sums.read_text().replace(before[weights], sha256(weights)).replace(before[state], sha256(state)))


def wait_for(what: str, condition: Callable[[], Any], seconds: float = 120) -> Any:
    """Returns the first true value of `condition`, or fails and names `what`. The timeout is longer than the delays of any
    busy machine: a shorter one would only test the machine."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.03)
    raise AssertionError(f"{what}: not within {seconds} s")


def is_running(pid: int) -> bool:
    """Whether a process exists and is no zombie, or a zombie with threads that have not ended: its parent cannot reap it yet."""
    try:
        process = Path(f"/proc/{pid}")
        state = (process / "stat").read_text().rsplit(")", 1)[1].split()[0]
        return state != "Z" or len(list((process / "task").iterdir())) > 1
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_ended(pids: Iterable[int], seconds: float = 120) -> None:
    pids = list(pids)
    wait_for(f"the end of the processes {pids}", lambda: not any(map(is_running, pids)), seconds)


def children(pid: int) -> list[int]:
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def kill_all_naming(folder: Path) -> None:
    """Kills the processes whose arguments name the folder, such as runs that outlive their server."""
    mark = str(folder).encode()
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if mark in command and int(entry.name) != os.getpid():
            with contextlib.suppress(ProcessLookupError):  # it ends by itself, or with one that was killed just now
                os.kill(int(entry.name), signal.SIGKILL)


def spool_records(file: Path) -> list[dict[str, Any]]:
    """The records of a spool that may be growing. Leaves out a line that is being written."""
    return [json.loads(line) for line in file.read_bytes().split(b"\n")[:-1]]


def held_port() -> socket.socket:
    """Holds a free port of loopback, bound without listening: no other program gets it, but a server may listen on it."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    return holder


def show_figures(fault: str, **figures: Any) -> None:
    """Prints figures of a fault and, if BABELRING_FIGURES names a file, adds them there as a JSON line."""
    rounded = {name: round(value, 3) if isinstance(value, float) else value for name, value in figures.items()}
    line = json.dumps({"fault": fault, **rounded})
    print(line, flush=True)
    if "BABELRING_FIGURES" in os.environ:
        with open(os.environ["BABELRING_FIGURES"], "a", encoding="utf-8") as file:
            file.write(line + "\n")


class Server:
    """A `server` on a port that stays the same, and its own, when it is started again. Its standard error is in `log`."""

    def __init__(self, folder: Path, checkpoints: Path | None = None, options: Sequence[object] = ()) -> None:
        self.folder, self.checkpoints, self.options = folder, checkpoints, list(options)
        self.wrapper: list = []  # the command that starts it
        self.log = folder.parent / f"{folder.name}.log"
        self.holder = held_port()
        self.port = self.holder.getsockname()[1]
        self.listen = f"127.0.0.1:{self.port}"
        self.said = ""  # on standard output
        self.process: subprocess.Popen | None = None

    def command(self) -> list:
        root = ["--checkpoint-root", self.checkpoints] if self.checkpoints else []
        own = [BIN / "server", "--listen", self.listen, "--data", self.folder, *root]
        return [*self.wrapper, *own, *self.options]

    def start(self, wait: bool = True, **environment: str) -> float:
        """Seconds until it answered; without `wait`, until it listened, or ended: a failpoint may come before that."""
        self.read_rest()
        began = time.monotonic()
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdout=subprocess.PIPE, stderr=log, text=True, env=os.environ | environment
            )
        line = " "
        while line and "listening on" not in line:
            line = self.process.stdout.readline()
            self.said += line
        if line:
            self.address = line.split("listening on ")[1].strip().rstrip("/")
        elif wait:
            raise AssertionError(f"server: exit code {self.process.wait()}: {self.log.read_text()[-2000:]}")
        if wait:
            wait_for("an answer of the server", lambda: self.request("GET", "/healthz")[0] == 200)
        return time.monotonic() - began

    def kill(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()
            self.read_rest()

    def read_rest(self) -> None:
        if self.process and not self.process.stdout.closed:
            self.said += self.process.stdout.read()
            self.process.stdout.close()

    def end(self) -> None:
        """For good."""
        self.kill()
        self.holder.close()

    def stop(self) -> int:
        self.process.terminate()
        code = self.process.wait(120)
        self.read_rest()
        return code

    def end_container(self, signal_number: int) -> int:
        """Sends a signal to the server that CONTAINER started, and returns its exit code, or not 0 if it was killed."""
        os.kill(*children(self.process.pid), signal_number)
        code = self.process.wait(120)
        self.read_rest()
        return code

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def token(self) -> str:
        """The administrator's, which the server wrote at its first start; empty without tokens."""
        file = self.folder / "admin.token"
        return file.read_text(encoding="utf-8").strip() if file.exists() else ""

    def environment(self) -> dict[str, str]:
        """Variables by which `nmt` finds the server."""
        return os.environ | {"BABELRING_SERVER": self.address, "BABELRING_TOKEN": self.token(), "NO_COLOR": "1"}

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token()}"} if self.token() else {}

    def request(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, timeout: float = 60
    ) -> tuple[int, Any]:
        """Status and content of the answer to the administrator, parsed if it is JSON; status 0 when the connection failed."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        text = json.dumps(body) if isinstance(body, (dict, list)) else body
        kind = {"Content-Type": "application/json"} if text else {}
        try:
            connection.request(method, path, text, self.headers() | kind | (headers or {}))
            answer = connection.getresponse()
            data = answer.read()
            return answer.status, json.loads(data) if "json" in answer.headers.get("Content-Type", "") else data
        except (OSError, http.client.HTTPException):
            return 0, None
        finally:
            connection.close()

    def ask(self, method: str, path: str, body: Any = None, key: str = "") -> tuple[int, Any]:
        """A request of the API, whose POST has an object as its body."""
        body = {} if body is None and method == "POST" else body
        return self.request(method, f"/api/v1{path}", body, {"Idempotency-Key": key} if key else {})

    def get(self, path: str) -> Any:
        status, answer = self.request("GET", path)
        assert status == 200, f"GET {path}: {status} {answer}"
        return answer

    def get_bytes(self, path: str) -> bytes:
        with urllib.request.urlopen(urllib.request.Request(self.address + path, headers=self.headers())) as answer:
            return answer.read()

    def first_run(self) -> str:
        """The id of the first run that it knows, once it knows one."""
        return wait_for("the run", lambda: self.get("/api/v1/runs")["items"])[0]["id"]

    def series(self, run: str, key: str, rank: int) -> list[int]:
        """The updates for which it has a value of a rank."""
        return self.get(f"/api/v1/runs/{run}/metrics/{key}?agg=raw&rank={rank}&points=100000")["step"]


class ControlServer(Server):
    """Starts runs, and restarts failed ones at once."""

    profile = "heartbeat_timeout_s: 120\n  cool_down_s: 0\n  max_running: 4"

    def profiles(self) -> str:
        return f"mpirun-local:\n  {self.profile}\n"

    def command(self) -> list:
        file = self.log.with_name("profiles.yaml")
        file.write_text(self.profiles(), encoding="utf-8")
        return [*super().command(), "--profiles", file]

    def logs(self) -> dict[str, str]:
        """All that the server and the launchers of its runs have written down for people to read. The server has ended."""
        files = [self.log, *self.folder.glob("access.log*"), *self.folder.glob("runs/*/*.log")]
        texts = {str(file): file.read_text(encoding="utf-8") for file in files if file.exists()}
        return {"standard output": self.said} | texts


class Run:
    """`mpirun -np N worker`, or another launcher, with its output in a file."""

    def __init__(
        self,
        launcher: Sequence[object],
        folder: Path,
        config: Path,
        server: str = "none",
        overrides: Sequence[str] = (),
        token_file: Path | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.log = folder.parent / f"{folder.name}.log"
        command = [*launcher, BIN / "worker", "--config", config, "--run-dir", folder, "--server", server, *overrides]
        token_file = token_file or folder.parent / "server" / "admin.token"  # of the test's server, if it has started
        if server != "none" and token_file.exists():
            command += ["--token-file", token_file]
        with open(self.log, "ab") as log:
            env = os.environ | AS_ROOT | (environment or {})
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=env)

    def text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def error_lines(self) -> list[str]:
        return [line for line in self.text().splitlines() if " error: " in line]

    def ended(self) -> bool:
        return self.process.poll() is not None

    def wait(self, seconds: float = 300) -> int:
        return self.process.wait(timeout=seconds)

    def wait_for(self, what: str, condition: Callable[[], Any]) -> Any:
        """Like wait_for(), and fails at once with the output of the run if it ends before."""

        def reached() -> Any:
            assert not self.ended(), f"{what}: the run has ended before that\n{self.text()}"
            return condition()

        return wait_for(what, reached)

    def pids(self) -> list[int]:
        """The process ids of mpirun's children, workers among them."""
        return children(self.process.pid)

    def rank_pids(self) -> list[int]:
        """The process ids of the workers, by rank."""
        pids = {}
        for pid in self.pids():
            try:
                environment = Path(f"/proc/{pid}/environ").read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if rank := re.search(rb"(?:^|\0)OMPI_COMM_WORLD_RANK=(\d+)", environment):
                pids[int(rank[1])] = pid
        return [pids[rank] for rank in sorted(pids)]

    def end(self) -> None:
        if not self.ended():
            for pid in self.rank_pids():
                os.kill(pid, signal.SIGKILL)
            self.process.kill()
            self.process.wait()


def mpirun_daemon(namespace: str) -> int:
    """The process of mpirun's daemon in a namespace."""
    inside = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, check=True)
    names = ("orted\n", "prted\n")  # Open MPI 4 and 5; 5's starts another process of its name, which is its child
    daemons = [int(pid) for pid in inside.stdout.split() if Path(f"/proc/{pid}/comm").read_text() in names]
    first = [pid for pid in daemons if int(Path(f"/proc/{pid}/stat").read_text().split()[3]) not in daemons]
    assert len(first) == 1, f"{namespace}: expected a daemon, found {daemons}"
    return first[0]


class TwoHostRun(Run):
    """`mpirun -H hostA:2,hostB:2 worker`."""

    def namespace(self, host: str) -> str:
        return f"babelring-{self.process.pid}-{host[-1].lower()}"

    def pids(self) -> list[int]:
        found = []
        for host in ("hostA", "hostB"):
            inside = subprocess.run(["ip", "netns", "pids", self.namespace(host)], capture_output=True, text=True)
            found += map(int, inside.stdout.split())
        return found

    def ask_to_stop(self) -> None:
        """By SIGUSR1 to mpirun, which passes it on to all ranks."""
        for pid in self.pids():
            if Path(f"/proc/{pid}/comm").read_text() in ("mpirun\n", "prterun\n"):
                os.kill(pid, signal.SIGUSR1)

    def end(self) -> None:
        """The script ends everything that it started."""
        if not self.ended():
            self.process.terminate()
            self.process.wait(timeout=120)
