"""scripts/bench.sh server --hostile: attackers beside a training run that the server started and ordinary users. Measures what they do
to others, and holds that against the rule of docs/reliability.md."""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable

import figures
import hostile_attacks
from hostile_attacker import Orders
from hostile_site import MARK, RUN_IDS, Site
from hostile_users import Answers, HeartbeatProxy, Page, Reporter, User, summary
from load_target import Client, Refused
from runs import processor_times

MAX_ABOVE_IDLE_MB = 256
MAX_LEFT_MB = 64  # above idle, when the attack has been over for a minute
READ_TOKENS = 50  # of eight event streams each
#: Name, key of the summary, unit, limit.
USER_ROWS = (("  slowest", "max_ms", "ms", None), ("  refused or not answered", "not_answered", "", None))
HEARTBEAT_ROWS = (
    ("heartbeats", "count", "", None),
    ("  slowest answer", "max_ms", "ms", None),
    ("  p99", "p99_ms", "ms", None),
    ("  later than 1 s", "over_1_s", "", 0),
    ("  refused or not answered", "not_answered", "", 0),
)


def declare(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("attackers beside a training run, instead of the load bars")
    group.add_argument(
        "--hostile", action="store_true", help="exit code 1 if the rule of docs/reliability.md is broken"
    )
    group.add_argument(
        "--attack",
        action="append",
        choices=sorted(hostile_attacks.ATTACKS),
        metavar="NAME",
        help=f"these alone, repeated: {', '.join(hostile_attacks.ATTACKS)}",
    )
    group.add_argument(
        "--each", action="store_true", help="run each attack alone against a fresh server, then all together"
    )
    group.add_argument("--fake-worker", action="store_true", help="the managed run only reports, instead of training")
    group.add_argument("--quiet-seconds", type=float, default=20, help="measured before it")
    group.add_argument("--settle-seconds", type=float, default=60, help="measured after it, until memory is judged")


@dataclasses.dataclass
class Phase:
    """A part of the time, and the server's memory in it."""

    name: str
    first: float = 0.0  # monotonic
    last: float = 0.0
    peak_mb: float = 0.0
    end_mb: float = 0.0


class Measurement:
    """One server from its start to its end."""

    def __init__(
        self, options: argparse.Namespace, programs: pathlib.Path, folder: pathlib.Path, attacks: list[str]
    ) -> None:
        self.options, self.attacks = options, attacks
        self.answers = Answers()
        self.proxy = HeartbeatProxy(self.answers)
        self.proxy.start()
        self.site = Site(programs, folder, self.proxy)
        self.users: list[User | Page] = []
        self.processes: dict[str, subprocess.Popen[str]] = {}  # attackers
        self.phases: list[Phase] = []
        self.attackers: dict[str, dict[str, object]] = {}
        self.broken: list[str] = []  # each point of the rule that is, in a line
        self.changes: list[str] = []  # of runs that should not have
        self.rows: list[dict[str, object]] = []

    def prepare(self) -> Orders:
        site = self.site
        time.sleep(1)
        self.idle_mb = site.resident()[0]
        read = [site.make_token(f"attacker {number}", "read") for number in range(READ_TOKENS)]
        ingest = [site.make_wide_token(f"attacker {number}") for number in range(2)]
        bound = [site.make_token("attacker's own", "ingest", run=RUN_IDS["own"])]
        Client(site.port, bound[0]).must("POST", f"/runs/{RUN_IDS['own']}/records", Reporter(RUN_IDS["own"]).started())
        self.user = Client(site.port, site.make_token("user", "read"))
        self.elsewhere = Client(site.port, site.make_token("reporter", "ingest", run=RUN_IDS["external"]))
        self.mark = "/api/v1/tokens/" + site.must("POST", "/tokens", {"name": MARK, "scope": "read"})["id"]
        checkpoint = site.start_runs(self.options.fake_worker)
        self.reporter = Reporter(RUN_IDS["external"])
        self.elsewhere.must("POST", f"/runs/{RUN_IDS['external']}/records", self.reporter.started())
        self.reporter.update = 1
        site.fill()
        return Orders(site.port, self.options.seconds, site.runs, read, ingest, bound, checkpoint, site.config)

    def start_users(self) -> None:
        run = f"/api/v1/runs/{self.site.runs['managed']}"
        paths = (
            ("status", 0.25, run),
            ("list", 0.5, "/api/v1/runs?limit=50"),
            ("series", 0.5, f"{run}/metrics/loss?points=1200"),
        )
        self.page = Page(self.user, self.site.runs["managed"])
        nobody = Client(self.site.port)
        self.users = [
            *(
                User(self.answers, name, self.user, period, lambda path=path: ("GET", path, ""))
                for name, period, path in paths
            ),
            User(self.answers, "healthz", nobody, 0.2, lambda: ("GET", "/healthz", ""), fresh=True),
            User(self.answers, "records", self.elsewhere, 0.5, self.reporter.records),
            User(self.answers, "heartbeat elsewhere", self.elsewhere, 1, self.reporter.heartbeat),
            self.page,
        ]
        for one in self.users:
            one.start()

    def phase(self, name: str, seconds: float) -> None:
        phase = Phase(name, first=time.monotonic())
        self.site.resident()  # forgets the peak before
        while time.monotonic() < phase.first + seconds:
            phase.end_mb, peak = self.site.resident()
            phase.peak_mb = max(phase.peak_mb, peak)
            time.sleep(0.1)
        phase.last = time.monotonic()
        self.phases.append(phase)

    def attack(self, orders: Orders) -> None:
        script = pathlib.Path(hostile_attacks.__file__)
        for name in self.attacks:
            command = [sys.executable, str(script), name]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            assert process.stdin is not None
            process.stdin.write(json.dumps(dataclasses.asdict(orders)))
            process.stdin.close()
            self.processes[name] = process
        self.phase("during", orders.seconds)
        for name, process in self.processes.items():
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            assert process.stdout is not None
            text = process.stdout.read()
            process.stdout.close()
            nothing = {"answers": {}, "errors": f"exit code {process.returncode}"}
            self.attackers[name] = json.loads(text) if text else nothing

    def run(self) -> None:
        orders = self.prepare()
        before = self.site.victims()
        self.start_users()
        time.sleep(3)
        self.phase("before", self.options.quiet_seconds)
        self.attack(orders)
        self.phase("after", self.options.settle_seconds)
        for user in self.users:
            user.stopping.set()
        for user in self.users:
            user.join(200)
        self.judge(before)

    def judge(self, before: dict[str, tuple[str, ...]]) -> None:
        self.answer_rows({"heartbeat", "heartbeat elsewhere"}, HEARTBEAT_ROWS)
        for kind in ("status", "list", "series", "records", "healthz"):
            self.answer_rows({kind}, ((f"{kind}: p99", "p99_ms", "ms", None), *USER_ROWS))
        gaps = {phase.name: self.page.longest_gap_s(phase.first, phase.last) for phase in self.phases}
        self.row("page: longest gap between events", gaps, "s")
        peaks = {phase.name: phase.peak_mb - self.idle_mb for phase in self.phases}
        self.row("memory above idle, peak", peaks, "MB", MAX_ABOVE_IDLE_MB)
        settle_s, left = self.options.settle_seconds, self.phases[-1].end_mb - self.idle_mb
        limit = MAX_LEFT_MB if settle_s >= 60 else None
        self.row(f"  {settle_s:.0f} s after the attack", {"after": left}, "MB", limit)
        self.judge_state(before)

    def answer_rows(self, kinds: set[str], rows: Iterable[tuple[str, str, str, float | None]]) -> None:
        """Rows of the answers of these kinds: name, key of their summary, unit, limit."""
        found = {phase.name: summary(self.answers.between(kinds, phase.first, phase.last)) for phase in self.phases}
        for name, key, unit, limit in rows:
            values = {phase: one[key] for phase, one in found.items()}
            self.row(name, values, unit, limit, timed=key != "not_answered")

    def judge_state(self, before: dict[str, tuple[str, ...]]) -> None:
        alive = self.site.process.poll() is None
        self.row("server ended", {"after": int(not alive)}, "", 0)
        changed, lost = 0, 1
        if alive:
            try:
                now = self.site.victims()
                for name, was in before.items():
                    if now[name] != was:
                        changed += 1
                        noted = "; ".join(now[name][len(was) :]) or "no change noted"
                        self.changes.append(f"the {name} run was {was[0]}, now {now[name][0]}: {noted}")
                lost = int(not self.site.audit_has(self.mark))
            except Refused as refused:
                self.broken.append(f"the state after the attack cannot be read: {refused}")
                changed = len(before)
        self.row("runs of others that changed", {"after": changed}, "", 0)
        self.row("audit rows lost", {"after": lost}, "", 0)

    def row(
        self, name: str, values: dict[str, float], unit: str, limit: float | None = None, timed: bool = False
    ) -> None:
        """Values by phase. The limit holds for those from the attack on; `timed`: it depends on how busy the machine is."""
        attacked = [value for phase, value in values.items() if phase != "before"]
        met = None if limit is None else max(attacked) <= limit
        row = {"what": name.strip(), "values": values, "unit": unit, "must": limit, "met": met, "timed": timed}
        self.rows.append(row)
        phases = ("before", "during", "after")
        shown = "".join(f"{values[phase]:>12,.1f}" if phase in values else " " * 12 for phase in phases)
        must = "" if limit is None else f"<= {limit:,}"
        print(f"{name:<40}{shown} {unit:<3} {must:<8} {'' if met is None else 'met' if met else 'BROKEN'}", flush=True)
        if met is False:
            self.broken.append(f"{name.strip()}: {max(attacked):,.1f} {unit}, must be at most {limit:,}")

    def end(self) -> None:
        for user in self.users:
            user.stopping.set()
        for process in self.processes.values():
            process.kill()
            process.wait()
        self.site.end()
        self.proxy.end()


def measure(options: argparse.Namespace, programs: pathlib.Path, attacks: list[str]) -> dict[str, object]:
    print(f"{'attacks: ' + ', '.join(attacks)}\n{'':<40}{'before':>12}{'during':>12}{'after':>12}", flush=True)
    before = processor_times()
    with tempfile.TemporaryDirectory(prefix="babelring-hostile-", ignore_cleanup_errors=True) as folder:
        measurement = Measurement(options, programs, pathlib.Path(folder).resolve(), attacks)
        try:
            measurement.run()
        finally:
            measurement.end()
    after = processor_times()
    for name, found in measurement.attackers.items():
        answers = ", ".join(f"{status} {count:,}" for status, count in found["answers"].items())  # type: ignore[attr-defined]
        print(f"  {name} ({hostile_attacks.ATTACKS[name][0]}): {answers or 'no answers'}; {found['errors']} errors")
    for line in measurement.broken + measurement.changes:
        print(f"BROKEN: {line}")
    return {
        "attacks": attacks,
        "rows": measurement.rows,
        "attackers": measurement.attackers,
        "broken": measurement.broken,
        "changes": measurement.changes,
        "idle_mb": measurement.idle_mb,
        "steal": figures.disturbance(before, after, 0, 1)["steal"],
    }


def main(options: argparse.Namespace, programs: pathlib.Path) -> dict[str, object]:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the runs that the server started must end, too
    every = list(hostile_attacks.ATTACKS)
    turns = [[name] for name in every] + [every] if options.each else [options.attack or every]
    found = [measure(options, programs, attacks) for attacks in turns]
    return {"turns": found, "broken": sum(len(turn["broken"]) for turn in found)}  # type: ignore[arg-type,misc]
