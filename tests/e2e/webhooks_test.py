"""Webhooks and the commands that change runs: a real server, a run that fails, a receiver that fails, too, and a restart between."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import signal
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cases import ControlTest
from system import call, held_port, wait_for

SECRET = "the-secret-of-the-test"


class Receiver:
    """A receiver on loopback that answers by `statuses`, then by 204. It can be away while its port stays its own."""

    def __init__(self, statuses: list[int]) -> None:
        self.statuses, self.requests = statuses, []
        self.server: ThreadingHTTPServer | None = None
        self.holder = held_port()
        self.port = self.holder.getsockname()[1]

    def start(self) -> None:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.requests.append((dict(self.headers), body))
                self.send_response(receiver.statuses.pop(0) if receiver.statuses else 204)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *words: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        if self.server:
            self.server.shutdown()
            self.server.server_close()
            self.server = None

    def end(self) -> None:
        self.stop()
        self.holder.close()


class WebhooksTest(ControlTest):
    def nmt(self, *words: object, code: int = 0, text: str = "") -> str:
        done = call("nmt", *words, env=self.control.environment(), input=text)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code == 0 else done.stderr

    def failed_run(self) -> str:
        """A run that failed, as one of its ranks was killed."""
        run = self.submit(self.config_text(training_stop_after="100000u"), name="victim", max_restarts=0)
        self.wait_update(run, 3)
        os.kill(self.rank_pids(run)[1], signal.SIGKILL)
        self.wait_state(run, "failed")
        return run

    def test_tells_of_a_failure_through_a_failing_receiver_and_a_restart(self) -> None:
        receiver = Receiver([500, 503])
        self.addCleanup(receiver.end)
        receiver.start()
        secret = self.folder / "secret"
        secret.write_text(SECRET + "\n", encoding="utf-8")
        url = f"http://127.0.0.1:{receiver.port}/hook"
        self.nmt(
            *["webhook", "add", "ops", "--kind", "json", "--url", url, "--alerts", "failed", "--secret-file", secret]
        )
        run = self.failed_run()
        wait_for("the tries that fail", lambda: len(receiver.requests) >= 2)
        receiver.stop()
        self.assertEqual(self.control.stop(), 0)
        self.control.start()
        waiting = json.loads(self.nmt("webhook", "list", "--json"))[0]
        self.assertEqual((waiting["waiting"], waiting["last"]["state"]), (1, "waiting"))
        receiver.start()
        wait_for("the delivery", lambda: self.last()["state"] == "delivered")
        self.assertGreaterEqual(self.last()["tries"], 3)
        headers, body = receiver.requests[-1]
        self.assertEqual({request[0]["X-Babelring-Delivery"] for request in receiver.requests}, {self.last()["id"]})
        sign = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        self.assertEqual(headers["X-Babelring-Signature"], f"sha256={sign}")
        told = json.loads(body)
        self.assertEqual((told["title"], told["run"]["id"]), ("victim: failed", run))
        self.assertEqual(told["link"], f"{self.control.address}/#/runs/{run}")
        self.assertIn("killed by signal 9", told["alert"]["message"])

    def last(self) -> dict[str, Any]:
        return self.control.get("/api/v1/webhooks")["items"][0]["last"]

    def test_adds_tests_changes_and_removes_a_webhook_in_a_terminal(self) -> None:
        receiver = Receiver([403])
        self.addCleanup(receiver.end)
        receiver.start()
        url = f"http://127.0.0.1:{receiver.port}/hook"
        self.assertEqual(self.nmt("webhook", "list"), "no webhooks\n")
        added = self.nmt("webhook", "add", "ops", "--kind", "slack", "--url", url, "--unsigned")
        self.assertRegex(added, r"^created w_\w{26} \(ops\)\n$")
        edit = ["nmt", "webhook", "edit", "ops", "--alerts", "finished,failed"]
        told = call(*edit, env=self.control.environment()).stderr
        self.assertEqual(told.count("no rule that is on"), 1, told)
        self.assertIn("raises alerts of kind finished: see `nmt rule`", told)
        self.assertIn("failed", call("nmt", "webhook", "test", "ops", env=self.control.environment()).stdout)
        self.assertIn("delivered", self.nmt("webhook", "test", "ops"))
        self.assertEqual(
            json.loads(receiver.requests[-1][1])["text"].splitlines()[1], "Messages of the webhook “ops” arrive."
        )
        self.nmt("webhook", "edit", "ops", "--alerts", "failed,silent", "--enabled", "false", "--name", "night")
        listed = self.nmt("webhook", "list")
        for word in ("night (off)", "failed, silent", url, "delivered"):
            self.assertIn(word, listed)
        self.assertIn("has no webhook 'ops'", self.nmt("webhook", "remove", "ops", code=1))
        self.assertIn(
            "url: expected http://host/path", self.nmt("webhook", "edit", "night", "--url", "irc://a", code=1)
        )
        self.nmt("webhook", "remove", "night")
        self.assertEqual(self.nmt("webhook", "list"), "no webhooks\n")

    def test_lists_adds_changes_and_removes_rules_and_acknowledges_alerts_in_a_terminal(self) -> None:
        run = self.failed_run()
        wait_for("the alert", lambda: self.control.get(f"/api/v1/alerts?run={run}&state=open")["items"])
        self.assertIn("killed by signal 9", self.nmt("alert", "list", "victim"))
        alert = json.loads(self.nmt("alert", "list", "victim", "--json"))[0]
        self.assertIn("acknowledged failed: ", self.nmt("alert", "ack", alert["id"]))
        self.assertIsNotNone(json.loads(self.nmt("alert", "list", "victim", "--json"))[0]["acknowledged_at"])
        self.assertEqual(self.nmt("alert", "ack", "--all"), "no alerts to acknowledge\n")
        self.assertIn("expected ids of alerts, or --all", self.nmt("alert", "ack", code=2))
        self.assertIn("no alert 'a_none'", self.nmt("alert", "ack", "a_none", code=1))

        rule = ("rule", "add", "stuck", "--kind", "stall", "--threshold", 600, "--run", "victim")
        self.assertEqual(self.nmt(*rule), "added rule stuck\n")
        self.assertIn("has a rule 'stuck'", self.nmt(*rule, code=1))
        self.assertEqual(self.nmt("rule", "edit", "stuck", "--after", 30, "--enabled", "false"), "changed rule stuck\n")
        self.assertRegex(self.nmt("rule", "list"), r"stuck \(off\) +stall +600 +30 +0 +" + run)
        wanted = {"name": "stuck", "kind": "stall", "threshold": 600, "hold_s": 30, "clear_s": 0, "run": run}
        self.assertEqual(json.loads(self.nmt("rule", "list", "--json"))[-1], wanted | {"enabled": False})
        self.nmt("rule", "edit", "stuck", "--run", "")
        self.assertIsNone(json.loads(self.nmt("rule", "list", "--json"))[-1]["run"])
        self.assertIn("threshold: expected", self.nmt("rule", "edit", "stuck", "--threshold", -1, code=1))
        self.assertIn("expected at least one of --threshold", self.nmt("rule", "edit", "stuck", code=2))
        self.assertIn("has no rule 'strange'", self.nmt("rule", "edit", "strange", "--after", 1, code=1))
        self.assertEqual(self.nmt("rule", "remove", "stuck"), "removed rule stuck\n")
        self.assertIn("has no rule 'stuck'", self.nmt("rule", "remove", "stuck", code=1))

    def test_changes_archives_deletes_and_explains_a_run_in_a_terminal(self) -> None:
        run = self.failed_run()
        self.assertIn("expected at least one of --name", self.nmt("run", "edit", "victim", code=2))
        changed = self.nmt("run", "edit", "victim", "--name", "renamed", "--label", "team=mt", "--label", "trial=1")
        self.assertIn('  name: "renamed", before: "victim"\n', changed)
        self.nmt("run", "edit", "renamed", "--remove-label", "trial", "--note", "-", text="as read\n")
        item = self.run_item(run)
        self.assertEqual((item["name"], item["labels"], item["notes"]), ("renamed", {"team": "mt"}, "as read\n"))
        self.assertIn("--label: expected KEY=VALUE", self.nmt("run", "edit", "renamed", "--label", "team", code=2))

        wait_for("the alert", lambda: self.control.get(f"/api/v1/alerts?run={run}")["items"])
        told = self.nmt("run", "why", "renamed")
        for line in (
            "killed by signal 9",
            "what to do",
            "open alerts",
            "changes of state",
            "running → failed",
            "attempts",
            "the last minute of attempt 1, until ",
            "free memory of ",
        ):
            self.assertIn(line, told)
        why = json.loads(self.nmt("run", "why", run, "--json"))
        self.assertEqual(set(why), {"run", "verdict", "alerts", "transitions", "attempts", "ends", "log"})
        end = why["ends"][0]
        self.assertIn("killed by signal 9", end["cause"])
        self.assertEqual([rank["rank"] for rank in end["ranks"]], [0, 1])
        self.assertGreater(end["ranks"][1]["resident_bytes"][-1], 1_000_000)
        self.assertGreater(end["hosts"][0]["memory_left_bytes"][-1], 1_000_000)
        self.assertEqual([alert["kind"] for alert in why["alerts"]], ["failed"])
        self.assertEqual(why["transitions"][-1]["to"], "failed")

        self.assertEqual(self.nmt("run", "archive", "renamed"), f"archived {run} (renamed)\n")
        self.assertTrue(self.run_item(run)["archived"])
        self.assertEqual(self.nmt("run", "list"), "no runs\n")
        self.assertIn("renamed", self.nmt("run", "list", "--archived"))
        self.nmt("run", "archive", "renamed", "--undo")
        self.assertFalse(self.run_item(run)["archived"])

        self.assertIn("--yes is required", self.nmt("run", "delete", "renamed", code=2))
        self.assertIn(f"deleted {run} (renamed)\n", self.nmt("run", "delete", "renamed", "--yes"))
        self.assertEqual(self.control.get("/api/v1/runs")["items"], [])
        self.nmt("run", "delete", run, "--undo")
        self.assertIsNone(self.run_item(run)["deleted_at"])

    def test_pins_the_newest_checkpoint(self) -> None:
        run = self.submit(self.config_text(training_stop_after="10u", checkpoint_every="5u"), name="saved")
        self.wait_state(run, "succeeded")

        def pinned() -> list[bool]:
            return [each["pinned"] for each in self.control.get(f"/api/v1/runs/{run}/checkpoints")["items"]]

        self.assertRegex(self.nmt("run", "pin", "saved", "--latest"), r"^pinned checkpoint c_\w{26} after update 10\n$")
        self.assertEqual(pinned()[0], True)
        self.nmt("run", "pin", "saved", "--latest", "--undo")
        self.assertEqual(pinned()[0], False)
        self.assertIn("exclude each other", self.nmt("run", "pin", "saved", "--best", "--latest", code=2))


if __name__ == "__main__":
    unittest.main()
