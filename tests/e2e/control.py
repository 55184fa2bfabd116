"""A server that starts runs, and helpers of the tests of the control plane."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from system import BIN, Server, SystemTest, spool_records, wait_for

# The program after it is the first of a PID namespace, as in a container: its end ends all others there.
CONTAINER = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
OVER = ("succeeded", "failed", "stopped", "lost")


class ControlServer(Server):
    """A `server` that restarts failed runs at once."""

    profile = "heartbeat_timeout_s: 120\n  cool_down_s: 0\n  max_running: 4"
    options: list[str] = []
    wrapper: list[str] = []

    def start(self) -> None:
        profiles = self.folder.parent / "profiles.yaml"
        profiles.write_text(f"mpirun-local:\n  {self.profile}\n", encoding="utf-8")
        command = [
            *self.wrapper,
            BIN / "server",
            "--listen",
            f"127.0.0.1:{self.port}",
            "--data",
            self.folder,
            "--checkpoint-root",
            self.checkpoints,
            "--profiles",
            profiles,
            *self.options,
        ]
        with open(self.folder.parent / "server.log", "ab") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        self.read_address()

    def end_container(self, signal_number: int) -> int:
        """Sends a signal to the server that CONTAINER started, and returns its exit code, or not 0 if it was killed."""
        (first,) = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        os.kill(int(first), signal_number)
        code = self.process.wait(timeout=120)
        self.read_rest()
        return code

    def logs(self) -> dict[str, str]:
        """All that the server and the launchers of its runs have written down for people to read. The server has ended."""
        files = [self.folder.parent / "server.log", *self.folder.glob("access.log*"), *self.folder.glob("runs/*/*.log")]
        return {"standard output": self.said} | {
            str(file): file.read_text(encoding="utf-8") for file in files if file.exists()
        }

    def ask(self, method: str, path: str, body: Any = None, key: str = "") -> tuple[int, Any]:
        """Status and JSON of an answer with any status."""
        request = self.request(f"/api/v1{path}", method, {} if body is None and method == "POST" else body)
        if key:
            request.add_header("Idempotency-Key", key)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)


class ControlTest(SystemTest):
    """Tests that start runs through a server."""

    def setUp(self) -> None:
        super().setUp()
        self.control = ControlServer(self.folder / "server", self.folder)
        self.addCleanup(self.end_everything)

    def end_everything(self) -> None:
        """Ends the server and its remaining runs, which survive it. None of them may have logged a token."""
        self.control.end()
        mark = str(self.folder).encode()
        for entry in Path("/proc").iterdir():
            try:
                command = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
            if mark in command and int(entry.name) != os.getpid():
                with contextlib.suppress(ProcessLookupError):  # it ends by itself, or with one that was killed just now
                    os.kill(int(entry.name), signal.SIGKILL)
        for name, text in self.control.logs().items():
            self.assertNotIn("bbr_", text, name)
            if name.endswith("server.log"):  # the only trace of an answer 500
                for line in text.splitlines():
                    if " error: " in line:
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
        def reached() -> Any:
            item = self.run_item(run)
            if item["state"] in OVER and item["state"] not in states:
                raise AssertionError(f"{item['state']}: {item['detail']}\n{self.launcher_log(run)}")
            return item if item["state"] in states else None

        return wait_for(f"run {' or '.join(states)}", reached, seconds)

    def wait_update(self, run: str, update: int, attempt: int = 1) -> dict[str, Any]:
        def reached() -> Any:
            item = self.run_item(run)
            if item["state"] in OVER:
                raise AssertionError(f"{item['state']}: {item['detail']}\n{self.launcher_log(run)}")
            return item if item["attempt"] >= attempt and item["update"] >= update else None

        return wait_for(f"update {update}", reached)

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

    def rank_pids(self, run: str) -> dict[int, int]:
        """The newest attempt's, by rank, as they reported."""

        def reported() -> Any:
            pids = {rank["rank"]: rank["pid"] for rank in self.control.get(f"/api/v1/runs/{run}/ranks")["items"]}
            return pids if len(pids) >= self.run_item(run)["world_size"] and all(pids.values()) else None

        return wait_for("all ranks", reported)

    def digests(self, run: str) -> dict[int, str]:
        """The digests of the weights after each update, from the ranks' spools; those of the newest attempt win."""
        found = {}
        for file in sorted(
            (self.folder / "server" / "runs" / run / "spool").glob("attempt-*/rank-0.jsonl"),
            key=lambda file: int(file.parent.name.split("-")[1]),
        ):
            for record in spool_records(file):
                if record["kind"] == "step" and record.get("weights_digest"):
                    found[record["update"]] = record["weights_digest"]
        return found
