"""Starts and stops the programs of the system for the end-to-end tests, on loopback and in separate folders."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Callable

BIN = Path(os.environ.get("BABELRING_BIN", Path(__file__).resolve().parents[2] / "build/dev/bin")).resolve()
NOUNS = ["cat", "dog", "house", "tree", "river", "stone", "bird", "child", "book", "lamp", "road", "cloud"]
VERBS = ["sees", "likes", "finds", "takes", "wants", "paints", "hears", "follows"]
ADJECTIVES = ["old", "small", "green", "quiet", "bright", "heavy", "round", "kind"]


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


def digest_of(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def poison(checkpoint: Path, tensor: str) -> None:
    """Makes a weight NaN with matching digests, as a program without the check would have written it."""
    weights, state, sums = (checkpoint / name for name in ("weights.safetensors", "state.json", "SHA256SUMS"))
    before = {file: digest_of(file) for file in (weights, state)}
    content = bytearray(weights.read_bytes())
    length = int.from_bytes(content[:8], "little")
    begin = 8 + length + json.loads(content[8 : 8 + length])[tensor]["data_offsets"][0]
    content[begin : begin + 4] = struct.pack("<f", float("nan"))
    weights.write_bytes(content)
    state.write_text(state.read_text().replace(before[weights], digest_of(weights)))
    sums.write_text(
        sums.read_text().replace(before[weights], digest_of(weights)).replace(before[state], digest_of(state))
    )


def wait_for(what: str, condition: Callable[[], Any], seconds: float = 120) -> Any:
    """Returns the first true value of `condition`, or fails and names `what`. The timeout is longer than the delays of any
    busy machine: a shorter one would only test the machine."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"{what}: not within {seconds} s")


def is_running(pid: int) -> bool:
    """Whether a process exists and is no zombie, or a zombie with threads that have not ended: its parent cannot reap it yet."""
    try:
        process = Path(f"/proc/{pid}")
        state = (process / "stat").read_text().rsplit(")", 1)[1].split()[0]
        return state != "Z" or len(list((process / "task").iterdir())) > 1
    except (FileNotFoundError, ProcessLookupError):
        return False


def spool_records(file: Path) -> list[dict[str, Any]]:
    """The records of a spool that may be growing. Leaves out a line that is being written."""
    return [json.loads(line) for line in file.read_bytes().split(b"\n")[:-1]]


def held_port() -> socket.socket:
    """Holds a free port of loopback, bound without listening: no other program gets it, but a server may listen on it."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    return holder


class Server:
    """A `server` on a port that stays the same, and its own, when it is started again."""

    def __init__(self, folder: Path, checkpoints: Path) -> None:
        self.folder, self.checkpoints = folder, checkpoints
        self.holder = held_port()
        self.port = self.holder.getsockname()[1]
        self.said = ""  # on standard output
        self.start()

    def start(self) -> None:
        command = [
            BIN / "server",
            "--listen",
            f"127.0.0.1:{self.port}",
            "--data",
            self.folder,
            "--checkpoint-root",
            self.checkpoints,
        ]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.read_address()

    def read_address(self) -> None:
        line = self.process.stdout.readline()
        assert "listening on" in line, f"server said: {line!r}"
        self.said += line
        self.address = line.split("listening on ")[1].strip().rstrip("/")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.read_rest()

    def read_rest(self) -> None:
        if not self.process.stdout.closed:
            self.said += self.process.stdout.read()
            self.process.stdout.close()

    def end(self) -> None:
        """For good."""
        self.kill()
        self.holder.close()

    def stop(self) -> int:
        self.process.terminate()
        code = self.process.wait(timeout=120)
        self.read_rest()
        return code

    def request(self, path: str, method: str = "GET", body: Any = None) -> urllib.request.Request:
        """Uses the administrator's token that the server wrote at its first start."""
        token = (self.folder / "admin.token").read_text(encoding="utf-8").strip()
        data = None if body is None else json.dumps(body).encode()
        return urllib.request.Request(
            f"{self.address}{path}",
            data,
            method=method,
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.request(path), timeout=60) as answer:
            return json.load(answer)

    def get_bytes(self, path: str) -> bytes:
        with urllib.request.urlopen(self.request(path), timeout=60) as answer:
            return answer.read()


class Run:
    """`mpirun -np N worker`, or another launcher, with its output in a file."""

    def __init__(
        self,
        launcher: list,
        folder: Path,
        config: Path,
        server: str,
        overrides: list[str],
        token_file: Path | None = None,
    ) -> None:
        self.log = folder.parent / f"{folder.name}.log"
        env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        command = [*launcher, BIN / "worker", "--config", config, "--run-dir", folder, "--server", server, *overrides]
        token_file = token_file or folder.parent / "server" / "admin.token"  # of the test's server, if it has started
        if server != "none" and token_file.exists():
            command += ["--token-file", token_file]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=env)

    def text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait(self, seconds: float = 300) -> int:
        return self.process.wait(timeout=seconds)

    def pids(self) -> list[int]:
        """The process ids of mpirun's children, workers among them."""
        return list(map(int, Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()))

    def rank_pids(self) -> list[int]:
        """The process ids of the workers, by rank."""
        pids = {}
        for pid in self.pids():
            try:
                environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            except (FileNotFoundError, ProcessLookupError):
                continue
            for entry in environment:
                if entry.startswith(b"OMPI_COMM_WORLD_RANK="):
                    pids[int(entry.split(b"=")[1])] = pid
        return [pids[rank] for rank in sorted(pids)]

    def end(self) -> None:
        if self.process.poll() is None:
            for pid in self.rank_pids():
                os.kill(pid, signal.SIGKILL)
            self.process.kill()
            self.process.wait()


class SystemTest(unittest.TestCase):
    """A prepared toy corpus, made once for each test class, and a folder for each test."""

    prepared: Path

    @classmethod
    def setUpClass(cls) -> None:
        if shutil.which("mpirun") is None:
            raise unittest.SkipTest("mpirun is not installed")
        cls.base = Path(tempfile.mkdtemp(prefix="babelring-e2e-"))
        cls.addClassCleanup(shutil.rmtree, cls.base)
        cls.prepared = cls.base / "data"
        train, valid = toy_corpus(cls.base, 3000, 1), toy_corpus(cls.base, 60, 2)
        subprocess.run(
            [
                BIN / "nmt",
                "prepare",
                "--train",
                *train,
                "--valid",
                *valid,
                "--test",
                *valid,
                "--output",
                cls.prepared,
                "--vocabulary-size",
                "120",
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        cls.config = cls.base / "config.yaml"
        cls.config.write_text(
            f"""
name: toy
preset: transformer-tiny
model: {{encoder_layers: 2, decoder_layers: 2, width: 64, inner: 128, dropout: 0.1}}
data: {{folder: "{cls.prepared}", tokens_per_update: 400}}
optimizer: {{learning_rate: 0.003, warm_up: 50u}}
training: {{stop_after: 60u, precision: f32, threads: 1, digest_every: 1u, log_every: 20u}}
validation: {{every: 0, bleu_every: 0, beam: 2}}
checkpoint: {{every: 20u}}
communication: {{deadline_s: 120, bucket_mb: 0.1}}
""",
            encoding="utf-8",
        )

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=self.base))

    def server(self) -> Server:
        server = Server(self.folder / "server", self.folder)
        self.addCleanup(server.end)
        return server

    def start_run(
        self,
        name: str = "run",
        ranks: int = 2,
        server: str = "none",
        overrides: list[str] | None = None,
        token_file: Path | None = None,
        program: str | Path = "mpirun",
    ) -> Run:
        mpirun = [program, "-np", str(ranks), "--bind-to", "none", "--oversubscribe"]
        run = Run(mpirun, self.folder / name, self.config, server, overrides or [], token_file)
        self.addCleanup(run.end)
        return run

    def records(self, name: str, kind: str, rank: int = 0) -> list[dict[str, Any]]:
        """The records of a rank's spool files, all attempts in order."""
        files = sorted((self.folder / name / "spool").glob(f"attempt-*/rank-{rank}.jsonl"))
        return [record for file in files for record in spool_records(file) if record["kind"] == kind]
