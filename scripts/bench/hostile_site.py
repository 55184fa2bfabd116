"""The target of scripts/bench.sh server --hostile: a server with default settings, a training run that it started, a finished run
with a checkpoint, and a run of a reporter elsewhere."""

from __future__ import annotations

import os
import pathlib
import random
import signal
import subprocess
import time
from typing import Any

from hostile_users import HeartbeatProxy
from load_target import Refused, Target, start_program
from runs import program

RUN_IDS = {
    "external": "r_01J8ZQ4T5W6X7Y8Z9A0B1C2D3E",
    "own": "r_01J8ZQ4T5W6X7Y8Z9A0B1C2D3F",
    "large": "r_01J8ZQ4T5W6X7Y8Z9A0B1C2D3G",
}
MARK = "before-the-attack"  # a token whose row in the audit must survive
WORDS = "cat dog house tree river stone bird child book lamp road cloud old small sees likes".split()
CONFIG = """
name: {name}
preset: transformer-tiny
model: {{encoder_layers: 1, decoder_layers: 1, width: 32, inner: 64, dropout: 0.1}}
data: {{folder: "{data}", tokens_per_update: 400}}
optimizer: {{learning_rate: 0.003, warm_up: 50u}}
training: {{stop_after: {updates}u, precision: f32, threads: 1}}
validation: {{every: 0, bleu_every: 0, beam: 2}}
checkpoint: {{every: 1000000u}}
communication: {{deadline_s: 120}}
"""
PROFILES = """
bench:
  server: "http://127.0.0.1:{port}"
  max_running: 2
  command: [sh, -c, '{step_back}', sh, mpirun, -np, "{{ranks}}", --bind-to, none, --oversubscribe]
  environment: [OMPI_ALLOW_RUN_AS_ROOT=1, OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1]
fake:
  server: "http://127.0.0.1:{port}"
  worker: "{fake_worker}"
  command: [mpirun, -np, "{{ranks}}", --bind-to, none, --oversubscribe]
  environment: [OMPI_ALLOW_RUN_AS_ROOT=1, OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1]
"""
# Linux divides time between sessions first, where it has autogroups; mpirun leads one.
STEP_BACK = '{{ echo {nice} >/proc/self/autogroup; }} 2>/dev/null; exec nice -n {nice} "$@"'
# The figures are the server's: how two busy ranks and a server share two cores is the kernel's affair.
TRAINING_NICE = 5


class Site(Target):
    """Asks as administrator."""

    def __init__(self, programs: pathlib.Path, folder: pathlib.Path, proxy: HeartbeatProxy) -> None:
        self.folder, self.programs, self.proxy = folder, programs, proxy
        self.config = ""
        self.runs = dict(RUN_IDS)
        (folder / "runs").mkdir()
        profiles = folder / "profiles.yaml"
        fake_worker = pathlib.Path(__file__).with_name("hostile_fake_worker.py")
        step_back = STEP_BACK.format(nice=TRAINING_NICE)
        profiles.write_text(
            PROFILES.format(port=proxy.port, step_back=step_back, fake_worker=fake_worker), encoding="utf-8"
        )
        with open(folder / "server.log", "w", encoding="utf-8") as log:
            started = start_program(programs, folder, "runs", "--profiles", str(profiles), log=log)
        super().__init__("server", *started)
        proxy.target_port = self.port

    def make_token(self, name: str, scope: str, **members: Any) -> str:
        return str(self.must("POST", "/tokens", {"name": name, "scope": scope, **members})["secret"])

    def make_wide_token(self, name: str) -> str:
        """A token for reports of all runs that it begins, if the server makes tokens for more than one run."""
        body = {"name": name, "scope": "ingest", "any_run": True}
        status, answer = self.ask("POST", "/tokens", body)
        if status == 400:  # a server of the time before any_run
            return self.make_token(name, "ingest")
        if status != 201:
            raise Refused(f"POST /tokens: {status} {answer}")
        return str(answer["secret"])

    def prepare_data(self) -> pathlib.Path:
        """A toy corpus, made by `nmt prepare`."""
        chance, data = random.Random(1), self.folder / "prepared"
        command: list[str | pathlib.Path] = [program(self.programs, "nmt"), "prepare", "--output", data]
        for name, lines in (("train", 600), ("valid", 20)):
            source = [chance.choices(WORDS, k=8) for _ in range(lines)]
            files = [self.folder / f"{name}.{side}" for side in ("en", "de")]
            for file, order in zip(files, (1, -1)):
                file.write_text("".join(" ".join(words[::order]) + "\n" for words in source), encoding="utf-8")
            command += [f"--{name}", *files]
        subprocess.run([*command, "--test", *files, "--vocabulary-size", "60"], check=True, capture_output=True)
        return data

    def wait_state(self, run: str, *states: str) -> None:
        end = time.monotonic() + 300
        while time.monotonic() < end:
            item = self.must("GET", f"/runs/{run}")
            if item["state"] in states and (item["state"] != "running" or item["update"] > 0):
                return
            if item["state"] in ("failed", "lost", "stopped"):
                logs = "\n".join(
                    log.read_text(encoding="utf-8", errors="replace")[-1500:]
                    for log in (self.folder / "data" / "runs" / run).glob("launcher-*.log")
                )
                raise Refused(f"run {run} is {item['state']}: {item['detail']}\n{logs}")
            time.sleep(0.1)
        raise Refused(f"run {run} is not {' or '.join(states)} after 300 s")

    def fill(self, steps: int = 40_000, ranks: int = 4) -> None:
        """The run whose series are expensive."""
        for rank in range(ranks):
            for first in range(1, steps + 1, 8000):
                records = ",".join(
                    f'{{"sequence":{i},"kind":"step","time_ms":{1795233600000 + i},"update":{i},"loss":{1 + 9 / i:.6f},'
                    f'"nll":{1 + 8 / i:.6f},"step_ms":{100 + i % 7},"target_tokens":{1000 + i % 13}}}'
                    for i in range(first, min(first + 8000, steps + 1))
                )
                body = f'{{"attempt":1,"rank":{rank},"host":"h","records":[{records}]}}'
                self.must("POST", f"/runs/{self.runs['large']}/records", body)

    def start_runs(self, fake: bool) -> str:
        """The finished run and the one that trains. The checkpoint of the finished one."""
        data = self.prepare_data()
        self.config = CONFIG.format(name="training", data=data, updates=100_000_000)
        brief = CONFIG.format(name="finished", data=data, updates=20)
        for name, config, profile, state in (
            ("finished", brief, "bench", "succeeded"),
            ("managed", self.config, "fake" if fake else "bench", "running"),
        ):
            run = self.must("POST", "/runs", {"config": config, "profile": profile, "world_size": 2})
            self.runs[name] = run["id"]
            self.wait_state(run["id"], state)
        return str(self.must("GET", f"/runs/{self.runs['finished']}/checkpoints")["items"][0]["id"])

    def victims(self) -> dict[str, tuple[str, ...]]:
        """State, attempt and all changes of state of each run that must not change."""
        found = {}
        for name in ("managed", "external", "finished"):
            item = self.must("GET", f"/runs/{self.runs[name]}")
            changes = self.must("GET", f"/runs/{self.runs[name]}/transitions")["items"]
            found[name] = (
                f"{item['state']}, attempt {item['attempt']}",
                *(f"{change['from']} -> {change['to']}: {change['cause']}" for change in changes),
            )
        return found

    def audit_has(self, path: str) -> bool:
        """Whether the audit has a row about this object, however old."""
        cursor = ""
        while True:
            page = self.must("GET", f"/audit?actor=admin.token&limit=500{cursor}")
            if any(item["object"] == path for item in page["items"]):
                return True
            if page["next_cursor"] is None:
                return False
            cursor = f"&cursor={page['next_cursor']}"

    def resident(self) -> tuple[float, float]:
        """MB of the server now, and the most since the last call."""
        folder = pathlib.Path(f"/proc/{self.process.pid}")
        try:
            text = (folder / "status").read_text(encoding="utf-8")
            now, peak = (int(text.split(name)[1].split()[0]) * 1024 / 1e6 for name in ("VmRSS:", "VmHWM:"))
            (folder / "clear_refs").write_text("5", encoding="utf-8")
        except (OSError, IndexError):  # the server is gone
            return 0.0, 0.0
        return now, peak

    def end(self) -> None:
        """The server, and the runs that it started, which would outlive it: those whose arguments name the folder."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        mark = str(self.folder).encode()
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and int(entry.name) != os.getpid() and mark in (entry / "cmdline").read_bytes():
                    os.kill(int(entry.name), signal.SIGKILL)
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
