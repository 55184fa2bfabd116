"""`nmt run …` against a real server: a run that is submitted, watched, stopped, resumed, read and downloaded."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import time
from pathlib import Path

from cases import SystemTest
from system import AS_ROOT, BIN, OVER, Server, call, make_certificate, wait_for

SLOW = ["training.stop_after=100000u", "checkpoint.every=10u"]


class RunsTest(SystemTest):
    def setUp(self) -> None:
        super().setUp()
        os.environ.update(AS_ROOT)  # for the runs that the server starts
        self.at = self.server()
        self.environment = self.at.environment() | {"HOME": str(self.folder)}

    def nmt(self, *words: str, code: int = 0, **environment: str) -> str:
        done = call("nmt", "run", *words, env=self.environment | environment, cwd=self.folder)
        self.assertEqual(done.returncode, code, f"{words}\n{done.stdout}\n{done.stderr}")
        if code != 0:
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stderr if code else done.stdout

    def submit(self, *words: str) -> str:
        """The id of a run that was started."""
        return json.loads(self.nmt("submit", "--config", str(self.config), "--json", *words))["id"]

    def state(self, run: str) -> str:
        return json.loads(self.nmt("show", run, "--json"))["state"]

    def end_runs(self) -> None:
        """Stops all runs, so that no rank outlives the test."""
        for item in json.loads(self.nmt("list", "--json")):
            if item["state"] not in OVER:
                self.nmt("stop", item["id"], "--now", "--wait")

    def test_a_run_from_submission_to_translation(self) -> None:
        self.addCleanup(self.end_runs)
        blocker = self.submit(
            "--name", "blocker", *SLOW
        )  # while it runs, the first one waits: all of it can be watched
        overrides = [
            "training.stop_after=30u",
            "checkpoint.every=10u",
            "validation.every=10u",
            "validation.bleu_every=0",
        ]
        options = ["--name", "first", "--world-size", "2", "--label", "team=a", "--watch"]
        command = [BIN / "nmt", "run", "submit", "--config", self.config, *overrides, *options]
        watching = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=self.environment)
        wait_for("its event stream", lambda: b"\nbabelring_sse_subscribers 1\n" in self.at.get_bytes("/metrics"))
        self.nmt("stop", blocker, "--now")
        text, _ = watching.communicate(timeout=300)
        self.assertEqual(watching.returncode, 0, text)
        self.assertRegex(text, r"^submitted r_\w{26} \(first\): \w+\n")
        self.assertIn("is running", text)
        self.assertIn("validation on valid after update 30", text)
        self.assertRegex(text, r"run first \(r_\w{26}\) succeeded")
        self.assertNotIn("\x1b", text)
        run = re.search(r"r_\w{26}", text)[0]

        table = self.nmt("list")
        self.assertRegex(table.splitlines()[0], r"^ID +NAME +STATE +UPDATE")
        self.assertRegex(table, rf"{run} +first +● succeeded +30/30 +\[##########\] 100 %")
        self.assertIn("ranks           2\n", self.nmt("show", "fir"))
        self.assertRegex(
            self.nmt("show", "fir"), r"last validation +update 30, valid, teacher-forced BLEU \d+\.\d\d, loss \d"
        )
        self.assertIn("tokens_per_update: 400", self.nmt("show", run[:20], "--config"))
        log = self.nmt("logs", "first", "--tail", "50")
        self.assertRegex(log, r"Z \[rank 0\] info: .* sentence pairs")
        self.assertRegex(log, r"Z \[rank 0\] info: validation on valid after update 30: loss")
        self.assertEqual(self.nmt("logs", "first", "--level", "error"), "")
        rows = json.loads(self.nmt("checkpoints", "first", "--json"))
        self.assertEqual([row["update"] for row in rows], [30, 20, 10])
        self.assertRegex(self.nmt("checkpoints", "first"), rf"{rows[0]['id']} +30")
        self.check_downloads(run, rows)

    def check_downloads(self, run: str, rows: list[dict]) -> None:
        self.assertIn("verified", self.nmt("download", "first", "--latest", "--output", "latest"))
        for line in (self.folder / "latest" / "SHA256SUMS").read_text().splitlines():
            digest, name = line.split("  ")
            self.assertEqual(hashlib.sha256((self.folder / "latest" / name).read_bytes()).hexdigest(), digest)
        original = self.at.folder / "runs" / run / "checkpoints" / rows[0]["name"]
        words = [self.translate(folder) for folder in (self.folder / "latest", original)]
        self.assertEqual(words[0], words[1])
        self.assertNotEqual(words[0].strip(), "")
        self.nmt("download", rows[1]["id"])
        self.assertTrue((self.folder / rows[1]["name"] / "state.json").exists())
        self.assertIn("already exists", self.nmt("download", rows[1]["id"], code=1))
        self.assertIn("no checkpoint", self.nmt("download", "c_" + "0" * 26, code=1))
        # An interrupted download continues: a download's folder holds this file.
        part = self.folder / "again.part-w_0"
        part.mkdir()
        (part / ".babelring-work").write_text("checkpoint " + rows[0]["id"])
        weights = (original / "weights.safetensors").read_bytes()
        (part / "weights.safetensors").write_bytes(weights[:1000])
        self.nmt("download", "first", "--checkpoint", rows[0]["id"], "--output", "again")
        self.assertEqual((self.folder / "again" / "weights.safetensors").read_bytes(), weights)

    def translate(self, folder: Path) -> str:
        text = "the old cat sees the dog .\n"
        return call("nmt", "translate", "--checkpoint", folder, input=text, check=True).stdout

    def test_stop_with_a_checkpoint_and_resume(self) -> None:
        self.addCleanup(self.end_runs)
        run = self.submit("--name", "endless", *SLOW)
        watching = subprocess.Popen(
            [BIN / "nmt", "run", "watch", run], stdout=subprocess.PIPE, text=True, env=self.environment
        )
        self.addCleanup(watching.stdout.close)
        follower = subprocess.Popen(
            [BIN / "nmt", "run", "logs", run, "--follow"], stdout=subprocess.DEVNULL, env=self.environment
        )
        wait_for("the first update", lambda: (json.loads(self.nmt("show", run, "--json"))["update"] or 0) > 0)
        self.assertIn("stopping " + run, self.nmt("stop", "endless", "--wait"))
        self.assertEqual(self.state(run), "stopped")
        self.assertEqual(watching.wait(timeout=120), 0)
        self.assertIn("stopped", watching.stdout.read().splitlines()[-1])
        self.assertEqual(follower.wait(timeout=120), 0, "the run has ended, and so do its logs")
        self.assertIn("409", self.nmt("stop", run, code=1))
        before = json.loads(self.nmt("show", run, "--json"))
        self.assertIn("resuming", self.nmt("resume", run, "--world-size", "2"))
        after = wait_for("the next attempt", lambda: self.further_than(run, before["update"]))
        self.assertEqual(after["attempt"], before["attempt"] + 1)

    def further_than(self, run: str, update: int) -> dict | None:
        shown = json.loads(self.nmt("show", run, "--json"))
        return shown if shown["state"] == "running" and (shown["update"] or 0) > update else None

    def test_ctrl_c_of_a_watcher_leaves_the_run_alone(self) -> None:
        self.addCleanup(self.end_runs)
        run = self.submit("--name", "endless", *SLOW)
        terminal, side = pty.openpty()
        self.addCleanup(os.close, terminal)
        watching = subprocess.Popen(
            [BIN / "nmt", "run", "watch", "endless"], stdout=side, env=self.environment | {"TERM": "xterm"}
        )
        os.close(side)
        seen = self.read_terminal(terminal, "\r\x1b[K[")
        watching.send_signal(signal.SIGINT)
        self.assertEqual(watching.wait(timeout=120), 0)
        seen += self.read_terminal(terminal, "the run continues")
        self.assertIn("\r\x1b[K[", seen, "a bar is drawn on a terminal")
        self.assertIn(f"no longer watching; the run continues (`nmt run stop {run}` ends it)", seen)
        wait_for("the run to go on", lambda: self.state(run) == "running")

    @staticmethod
    def read_terminal(terminal: int, until: str) -> str:
        text, end = "", time.monotonic() + 120
        while until not in text and time.monotonic() < end:
            if not select.select([terminal], [], [], 1)[0]:
                continue
            try:
                text += os.read(terminal, 4096).decode(errors="replace")
            except OSError:
                break
        return text

    def test_complaints_are_one_line(self) -> None:
        self.assertIn("no run with an id or name that starts with 'nowhere'", self.nmt("show", "nowhere", code=1))
        self.assertIn("server says 404: no run", self.nmt("show", "r_" + "0" * 26, code=1))
        self.assertIn("server says 401", self.nmt("list", code=1, BABELRING_TOKEN="wrong"))
        self.assertIn("connect: Connection refused", self.nmt("list", "--server", "http://127.0.0.1:1", code=1))
        self.assertIn("expected http://host:port", self.nmt("list", "--server", "nonsense", code=2))
        self.assertIn("token file", self.nmt("list", "--token-file", "nowhere", code=2))
        self.assertIn("did you mean 'list'?", self.nmt("lsit", code=2))
        self.assertIn("did you mean '--follow'?", self.nmt("logs", "x", "--folow", code=2))
        self.assertIn("nowhere.yaml", self.nmt("submit", "--config", "nowhere.yaml", code=2))
        self.assertIn("did you mean", self.nmt("submit", "--config", str(self.config), "trainig.seed=2", code=2))
        self.assertIn(
            "no profile 'moon'", self.nmt("submit", "--config", str(self.config), "--profile", "moon", code=1)
        )
        self.assertIn(
            "--label: expected key=value", self.nmt("submit", "--config", str(self.config), "--label", "x", code=2)
        )

    def start_with_certificate(self, name: str) -> str:
        """The port of a server that listens with the certificate."""
        files = ["--tls-cert", self.folder / f"{name}.pem", "--tls-key", self.folder / f"{name}.key"]
        server = Server(self.folder / f"server-{name}", options=[*files, "--log-level", "error"])
        self.addCleanup(server.end)
        server.start(wait=False)
        return re.search(r":(\d+)", server.said)[1]

    def test_https_with_trusted_certificates(self) -> None:
        for name in ("localhost", "elsewhere"):
            make_certificate(name, self.folder / f"{name}.pem", self.folder / f"{name}.key")
            port = self.start_with_certificate(name)
            secret = str(self.folder / f"server-{name}" / "admin.token")
            token = ["--token-file", secret, "--server", f"https://localhost:{port}"]
            authority = ["--ca-file", str(self.folder / f"{name}.pem")]
            self.assertIn(
                "TLS handshake: certificate verify failed: self-signed certificate; BABELRING_CA_FILE names",
                self.nmt("list", *token, code=1),
            )
            if name == "localhost":
                self.assertEqual(self.nmt("list", *token, *authority), "no runs\n")
                self.assertEqual(self.nmt("list", *token, BABELRING_CA_FILE=authority[1]), "no runs\n")
            else:
                self.assertIn("the certificate is not for localhost", self.nmt("list", *token, *authority, code=1))
            self.assertIn(
                "cannot load trusted certificates", self.nmt("list", *token, "--ca-file", str(self.config), code=2)
            )

    def test_a_name_of_several_runs_is_ambiguous(self) -> None:
        for name in ("toy-a", "toy-b"):
            self.finish_run(name, 1, self.at.address, ["training.stop_after=2u", "checkpoint.every=0", f"name={name}"])
        self.assertIn("matches 2 runs", self.nmt("show", "toy", code=1))
        self.assertIn("toy-b", self.nmt("show", "toy-b"))
        self.assertEqual(self.nmt("list", "--search", "elsewhere"), "no runs\n")
        self.assertEqual(len(json.loads(self.nmt("list", "--limit", "1", "--json"))), 1)

    def losses(self, run: str) -> list[float]:
        points = self.at.get(f"/api/v1/runs/{run}/metrics/loss?agg=raw&points=1000")
        return points["value"]

    def test_runs_of_other_programs_are_imported_once_and_compared(self) -> None:
        overrides = ["training.stop_after=20u", "checkpoint.every=0", "validation.every=10u", "tensorboard=true"]
        run = self.finish_run("ours", 1, self.at.address, [*overrides, "validation.bleu_every=10u", "name=ours"])
        ours = self.losses(json.loads(self.nmt("show", "ours", "--json"))["id"])
        words = ["import", str(self.folder / "ours" / "tensorboard"), "--name", "theirs", "--label", "team=mt"]
        self.assertRegex(self.nmt(*words, "--dry-run"), r"theirs: TensorBoard, 20 updates, 2 evaluations")
        self.assertEqual(len(json.loads(self.nmt("list", "--json"))), 1)
        sent = json.loads(self.nmt(*words, "--json"))["runs"][0]
        self.assertGreater(sent["sent"], 22)
        self.assertEqual(json.loads(self.nmt(*words, "--json"))["runs"][0] | {"sent": 0}, sent | {"sent": 0})
        theirs = self.losses(sent["run"])
        self.assertEqual(len(theirs), 20)
        for one, other in zip(ours, theirs):
            self.assertAlmostEqual(one, other, delta=1e-6 * one)  # event files have 32 bits
        shown = json.loads(self.nmt("show", "theirs", "--json"))
        self.assertEqual((shown["state"], shown["health"]["level"]), ("succeeded", "good"))
        self.assertEqual(shown["labels"], {"imported": "TensorBoard", "team": "mt"})
        best = json.loads(self.nmt("show", "ours", "--json"))["best"]
        self.assertEqual(shown["best"]["update"], best["update"])
        self.assertAlmostEqual(shown["best"]["sacrebleu"], best["sacrebleu"], places=4)

    def test_an_imported_run_without_losses_of_its_evaluations_is_healthy_and_has_a_best(self) -> None:
        log = self.folder / "scores.csv"
        log.write_text("step,loss,dev/bleu\n100,5,\n200,4,0.1\n300,3,0.2\n400,2,0.15\n", encoding="utf-8")
        self.assertIn("from 0 to 1 to percent", self.nmt("import", str(log)))
        shown = json.loads(self.nmt("show", "scores", "--json"))
        self.assertEqual(shown["health"]["level"], "good")
        self.assertEqual((shown["best"]["update"], shown["best"]["sacrebleu"], shown["best"]["loss"]), (300, 20, None))
        report = call("nmt", "report", "scores", env=self.environment, cwd=self.folder)
        self.assertIn("20.00", report.stdout)  # the best of its validation set
        self.assertNotIn("no evaluation was recorded", report.stdout)
        self.assertIn("all records have the same time", report.stdout)
        self.assertIn("expected a TensorBoard event file", self.nmt("import", str(self.config), code=2))
