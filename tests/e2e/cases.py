"""The base classes of tests with servers and runs: a folder for each test, a corpus, hosts, runs that a server starts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from system import (
    AS_ROOT,
    ControlServer,
    MPIRUN,
    NO_HOSTS,
    OVER,
    RANKS,
    ROOT,
    Run,
    SLOTS,
    Server,
    TWO_HOSTS,
    TwoHostRun,
    call,
    kill_all_naming,
    prepare,
    spool_records,
    toy_corpus,
    wait_for,
)


TINY = """
name: tiny
preset: transformer-tiny
model: {encoder_layers: 1, decoder_layers: 1, width: 16, inner: 32, heads: 2, dropout: 0}
data: {folder: data, tokens_per_update: 400}
training: {stop_after: 4u, precision: f32, threads: 1}
validation: {every: 0, bleu_every: 0}
checkpoint: {every: 2u}
"""


def train_tiny_model() -> None:
    """For a module of tests: changes to a new folder with a prepared corpus in `data`, config.yaml, and in `run` a model that
    was trained for four updates."""
    folder = tempfile.mkdtemp(prefix="babelring-cli-")
    unittest.addModuleCleanup(shutil.rmtree, folder)
    unittest.addModuleCleanup(os.chdir, os.getcwd())
    os.chdir(folder)
    train, valid = toy_corpus(Path("."), 400, 1), toy_corpus(Path("."), 20, 2)
    prepare(Path("data"), train, valid, "--test", *valid, "--vocabulary-size", 120)
    Path("config.yaml").write_text(TINY, encoding="utf-8")
    call("worker", "--config", "config.yaml", "--run-dir", "run", "--server", "none", check=True)


class FolderTest(unittest.TestCase):
    """A folder for each test, with servers and small file systems in it."""

    base: Path | None = None  # the folder of the class
    server_type: type[Server] = Server

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="babelring-test-", dir=self.base))
        self.addCleanup(shutil.rmtree, self.folder, True)

    def change_to_folder(self) -> None:
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)

    def server(self, name: str = "server") -> Server:
        """A started server."""
        server = self.server_type(self.folder / name, self.folder)
        self.addCleanup(server.end)
        server.start()
        return server

    def tmpfs(self, folder: Path, size: str) -> Path:
        """Makes the folder a small file system; skips the test where none can be mounted."""
        folder.mkdir(parents=True, exist_ok=True)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder]
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            self.skipTest(f"cannot mount a tmpfs: {done.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "-l", folder], check=False)
        return folder

    @staticmethod
    def fill(folder: Path) -> Path:
        """Takes all the space that is left, again too."""
        filler = folder / "filler"
        with open(filler, "ab", buffering=0) as file:
            size = 1 << 20
            while size >= 512:
                try:
                    if file.write(bytes(size)) < size:
                        size //= 2
                except OSError:
                    size //= 2
        return filler

    def library(self, source: Path, *options: str) -> Path:
        """A shared object, built in the test's folder."""
        if shutil.which("cc") is None:
            self.skipTest("needs a C compiler")
        library = self.folder / f"{source.stem}.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, *options], check=True)
        return library

    def io_faults(self) -> tuple[dict[str, str], Path]:
        """The environment of a program whose writes can fail, and the file whose text says which do (tests/faults/io_faults.c)."""
        control = self.folder / "control"
        library = self.library(ROOT / "tests/faults/io_faults.c", "-ldl")
        return {"LD_PRELOAD": str(library), "IO_FAULTS": str(control)}, control


def nmt(command: str, text: str = "") -> subprocess.CompletedProcess:
    return call("nmt", *command.split(), input=text)


class NmtTest(FolderTest):
    """Tests of nmt as a user types it: whole command lines, and the words that they expect."""

    def succeeds(self, command: str, text: str = "") -> str:
        done = nmt(command, text)
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stderr}")
        return done.stdout

    def complains(self, command: str, code: int, *words: str) -> None:
        """Expects the exit code, and one line on standard error (after the log) with all the words."""
        with self.subTest(command):
            done = nmt(command)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertEqual(done.stdout, "")
            lines = [line for line in done.stderr.splitlines() if " info: " not in line]
            self.assertEqual(len(lines), 1, done.stderr)
            self.assertTrue(lines[0].startswith("nmt: "), lines[0])
            for word in words:
                self.assertIn(word, lines[0])

    def complain_all(self, table: str) -> None:
        """complains() for each line: exit code | command | word | word …"""
        for line in table.strip().splitlines():
            code, command, *words = (cell.strip() for cell in line.split(" | "))
            self.complains(command, int(code), *words)


class CommandTest(FolderTest):
    """Tests of a command of nmt."""

    command: tuple[str, ...] = ()  # its words after nmt

    def call(self, *words: object) -> subprocess.CompletedProcess:
        return call("nmt", *self.command, *words, env=os.environ | AS_ROOT)

    def result(self, *words: object) -> str:
        """Its output, when it succeeds."""
        done = self.call(*words)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def refusal(self, *words: object) -> str:
        """The line by which it refuses wrong usage."""
        done = self.call(*words)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stderr


class SystemTest(FolderTest):
    """A prepared toy corpus, made once for each test class."""

    prepared: Path

    @classmethod
    def setUpClass(cls) -> None:
        if shutil.which("mpirun") is None:
            raise unittest.SkipTest("mpirun is not installed")
        cls.base = Path(tempfile.mkdtemp(prefix="babelring-e2e-"))
        cls.addClassCleanup(shutil.rmtree, cls.base)
        cls.prepared = cls.base / "data"
        valid = toy_corpus(cls.base, 60, 2)
        prepare(cls.prepared, toy_corpus(cls.base, 3000, 1), valid, "--test", *valid, "--vocabulary-size", 120)
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

    def start_run(
        self,
        name: str = "run",
        ranks: int = 2,
        server: str = "none",
        overrides: Sequence[str] = (),
        launcher: Sequence[object] = (),
        kind: type[Run] = Run,
        folder: Path | None = None,
        **more: Any,  # of Run
    ) -> Any:
        launcher = launcher or [*MPIRUN, "-np", str(ranks)]
        run = kind(launcher, folder or self.folder / name, self.config, server, overrides, **more)
        self.addCleanup(run.end)
        return run

    def finish_run(self, *words: Any, code: int = 0, **more: Any) -> Run:
        """Starts a run and waits until it ends with the exit code."""
        run = self.start_run(*words, **more)
        self.assertEqual(run.wait(), code, run.text())
        return run

    def records(self, name: str, kind: str, rank: int = 0) -> list[dict[str, Any]]:
        """The records of a rank's spool files, all attempts in order."""
        files = sorted((self.folder / name / "spool").glob(f"attempt-*/rank-{rank}.jsonl"))
        return [record for file in files for record in spool_records(file) if record["kind"] == kind]

    def steps(self, name: str = "run", rank: int = 0) -> list[dict[str, Any]]:
        return self.records(name, "step", rank)

    def wait_steps(self, run: Run, more: int = 5) -> list[int]:
        """The ranks' processes once the run in the folder `run` has trained more updates than now."""
        wanted = len(self.steps()) + more
        run.wait_for("updates", lambda: len(self.steps()) >= wanted)
        return run.rank_pids()

    def stands_still(self) -> bool:
        before = len(self.steps())
        time.sleep(1)
        return len(self.steps()) == before

    def checkpoints(self, name: str = "run", prefix: str = "update-") -> list[str]:
        """The names of the folders of checkpoints; those that are being written have the prefix .tmp-update-."""
        folder = self.folder / name / "checkpoints"
        return sorted(path.name for path in folder.iterdir() if path.name.startswith(prefix)) if folder.exists() else []


class TwoHostTest(SystemTest):
    """Skipped where this machine does not allow namespaces."""

    @classmethod
    def setUpClass(cls) -> None:
        if shutil.which("mpirun") is None:
            raise unittest.SkipTest("mpirun is not installed")
        # Open MPI 5's mpirun may wait for ever if the program ends before the other host's daemon has answered.
        tried = subprocess.run([TWO_HOSTS, "--rate", "1gbit", "--", "sleep", "0.5"], capture_output=True, text=True)
        if tried.returncode == NO_HOSTS:
            raise unittest.SkipTest(tried.stderr.strip())
        super().setUpClass()

    def start_on_two_hosts(
        self, options: Sequence[str] = (), slots: int = SLOTS, script: str = "", **more: Any
    ) -> TwoHostRun:
        """`options` are those of two_hosts.sh. A script of the shell starts each rank, as "$@"."""
        shell = ["sh", "-c", script, "sh"] if script else []
        launcher = [TWO_HOSTS, "--slots", str(slots), *options, "--", *shell]
        return self.start_run(launcher=launcher, kind=TwoHostRun, **more)

    def finish_on_two_hosts(self, **more: Any) -> TwoHostRun:
        run = self.start_on_two_hosts(**more)
        self.assertEqual(run.wait(), 0, run.text())
        return run

    def start_with_a_disk_each(self, overrides: list[str]) -> TwoHostRun:
        """Each host has its own disk under one name, and relative names start there. The log is in the current folder."""
        for host in ("hostA", "hostB", "disk"):
            (self.folder / host).mkdir(exist_ok=True)
        disk = self.folder / "disk"
        script = f'mount --bind "{self.folder}/$(hostname)" "{disk}" && cd "{disk}" && exec "$@"'
        return self.start_on_two_hosts(slots=1, script=script, folder=Path("split"), overrides=overrides)

    def by_rank(self, name: str = "run") -> list[list[dict]]:
        """The steps of each rank."""
        return [self.steps(name, rank) for rank in RANKS]


class ControlTest(SystemTest):
    """Tests that start runs through a server."""

    server_type: type[Server] | None = ControlServer  # None: without a server

    def setUp(self) -> None:
        super().setUp()
        if self.server_type:
            self.control: Any = self.server_type(self.folder / "server", self.folder)
            self.addCleanup(self.end_everything)
            self.control.start()

    def end_everything(self) -> None:
        """Ends the server and its remaining runs, which survive it. None of them may have logged a token."""
        self.control.end()
        kill_all_naming(self.folder)
        for name, text in self.control.logs().items():
            self.assertNotIn("bbr_", text, name)
        for line in self.control.log.read_text(encoding="utf-8").splitlines():
            if " error: " in line:  # the only trace of an answer 500
                print(line, file=sys.stderr)

    def config_text(self, **changes: str) -> str:
        """The tests' configuration with other values: checkpoint_every="5u" is checkpoint.every."""
        lines = self.config.read_text(encoding="utf-8").splitlines()
        for name, value in changes.items():
            section, key = name.split("_", 1)
            place = next(i for i, line in enumerate(lines) if line.startswith(f"{section}:"))
            lines[place], count = re.subn(rf"\b{key}: [^,}}]+", f"{key}: {value}", lines[place])
            assert count == 1, f"{name} is not in {lines[place]!r}"
        return "\n".join(lines) + "\n"

    def submit(self, config: str, **members: Any) -> str:
        status, run = self.control.ask("POST", "/runs", {"config": config, "world_size": 2, **members})
        self.assertEqual(status, 202, run)
        return run["id"]

    def run_item(self, run: str) -> dict[str, Any]:
        return self.control.get(f"/api/v1/runs/{run}")

    def wait_state(self, run: str, *states: str, seconds: float = 120) -> dict[str, Any]:
        return self.wait_item(run, " or ".join(states), lambda item: item["state"] in states, seconds)

    def wait_update(self, run: str, update: int, attempt: int = 1) -> dict[str, Any]:
        def reached(item: dict[str, Any]) -> bool:
            return item["attempt"] >= attempt and item["update"] >= update and item["state"] not in OVER

        return self.wait_item(run, f"update {update}", reached)

    def wait_item(self, run: str, what: str, reached: Callable[[dict], bool], seconds: float = 120) -> dict[str, Any]:
        """The run's item when it has reached that. Fails if the run ends without."""

        def item() -> Any:
            found = self.run_item(run)
            if reached(found):
                return found
            assert found["state"] not in OVER, f"{found['state']}: {found['detail']}\n{self.launcher_log(run)}"
            return None

        return wait_for(f"run {what}", item, seconds)

    def end(self, run: str) -> None:
        """Ends a run whose check is done. Runs with which a test interacts do not end by themselves, which
        might come before its time."""
        self.assertEqual(self.control.ask("POST", f"/runs/{run}/stop", {"mode": "now"})[0], 202)
        self.wait_state(run, "stopped")

    def launcher_log(self, run: str) -> str:
        logs = sorted((self.folder / "server" / "runs" / run).glob("launcher-*.log"))
        return "\n".join(log.read_text(encoding="utf-8", errors="replace")[-1500:] for log in logs)

    def transitions(self, run: str) -> list[dict[str, Any]]:
        return self.control.get(f"/api/v1/runs/{run}/transitions")["items"]

    def causes(self, run: str, state: str = "restarting") -> list[str]:
        """The causes of each change to a state."""
        return [step["cause"] for step in self.transitions(run) if step["to"] == state]

    def rank_pids(self, run: str) -> dict[int, int]:
        """The newest attempt's, by rank, as they reported."""

        def reported() -> Any:
            pids = {rank["rank"]: rank["pid"] for rank in self.control.get(f"/api/v1/runs/{run}/ranks")["items"]}
            return pids if len(pids) >= self.run_item(run)["world_size"] and all(pids.values()) else None

        return wait_for("all ranks", reported)

    def digests(self, run: str) -> dict[int, str]:
        """The digests of the weights after each update, from the ranks' spools; those of the newest attempt win."""
        files = (self.folder / "server" / "runs" / run / "spool").glob("attempt-*/rank-0.jsonl")
        records = [
            record
            for file in sorted(files, key=lambda file: int(file.parent.name.split("-")[1]))
            for record in spool_records(file)
        ]
        steps = [record for record in records if record["kind"] == "step" and record.get("weights_digest")]
        return {step["update"]: step["weights_digest"] for step in steps}


class TrainedTest(SystemTest):
    """A run of the toy corpus that was trained for 40 updates, made once for each test class."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.trained = cls.base / "trained"
        words = ["--config", cls.config, "--run-dir", cls.trained, "--server", "none"]
        call("worker", *words, "training.stop_after=40u", "checkpoint.every=20u", check=True)
        cls.checkpoint = cls.trained / "checkpoints" / "update-00000040"
