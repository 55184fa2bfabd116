"""Runs that the server starts: to their end, stopped, resumed, with a rank killed or stopped, with the server gone."""

import os
import signal
import sqlite3
import subprocess
import time
import unittest

from cases import ControlTest
from system import CONTAINER, is_running, wait_ended, wait_for


class ControlPlaneTest(ControlTest):
    def test_a_submitted_run_succeeds_with_all_transitions(self) -> None:
        run = self.submit(self.config_text(), name="mine", labels={"team": "a"}, notes="first")
        item = self.wait_state(run, "succeeded")
        self.assertEqual((item["name"], item["labels"], item["profile"]), ("mine", {"team": "a"}, "mpirun-local"))
        self.assertEqual((item["update"], item["world_size"], item["restarts"]), (60, 2, 0))
        story = [(step["from"], step["to"]) for step in self.transitions(run)]
        self.assertEqual(
            story, [(None, "queued"), ("queued", "launching"), ("launching", "running"), ("running", "succeeded")]
        )
        attempt = self.control.get(f"/api/v1/runs/{run}/attempts")["items"][0]
        self.assertEqual((attempt["exit_code"], attempt["launcher"]), (0, "mpirun"))
        self.assertFalse(is_running(attempt["pid"]))
        self.assertEqual(len(self.control.get("/api/v1/runs?label=team=a&state=succeeded")["items"]), 1)
        self.assertEqual(len(self.control.get("/api/v1/runs?label=team=b")["items"]), 0)

    def test_the_server_removes_a_deleted_run_after_a_week(self) -> None:
        run = f"r_{26 * '1'}"
        finished = {"sequence": 1, "kind": "lifecycle", "time_ms": 1, "event": "finished"}
        batch = {"attempt": 1, "rank": 0, "host": "h", "records": [finished]}
        self.assertEqual(self.control.ask("POST", f"/runs/{run}/records", batch)[0], 200)
        self.assertEqual(self.control.ask("DELETE", f"/runs/{run}")[0], 200)
        self.assertEqual(self.control.stop(), 0)
        with sqlite3.connect(self.control.folder / "babelring.db") as database:
            database.execute("UPDATE runs SET deleted_ms = deleted_ms - 7 * 86400 * 1000 - 1")
        database.close()
        self.control.start()
        mine = wait_for("the server's row", lambda: self.control.get("/api/v1/audit?actor=server")["items"])
        self.assertEqual(
            [(row["method"], row["object"], row["status"]) for row in mine], [("DELETE", f"/api/v1/runs/{run}", 204)]
        )
        self.assertEqual(self.control.ask("GET", f"/runs/{run}")[0], 404)

    def test_a_busy_session_leaves_no_token_in_any_log(self) -> None:
        ask = self.control.ask
        self.control.stop()
        self.control.options = ["--access-log", "all", "--log-level", "trace"]
        self.control.start()
        admin = self.control.token()
        secret = ask("POST", "/tokens", {"name": "laptop", "scope": "read"})[1]["secret"]
        for path in (f"/runs?token={secret}", f"/tokens/{secret}", f"/runs/{admin}/logs?q={admin}", f"/{admin}"):
            ask("GET", path)
        ask("DELETE", f"/tokens/{secret}")
        ask("POST", "/tokens", {"name": secret})
        self.wait_state(self.submit(self.config_text(), name="busy"), "succeeded")
        self.control.stop()
        logs = self.control.logs()
        self.assertTrue(any(name.endswith("/launcher-1.log") for name in logs), list(logs))
        access = next(text for name, text in logs.items() if name.endswith("/access.log"))
        self.assertIn("/api/v1/tokens/[token]", access)
        self.assertIn("/api/v1/runs?token=[hidden]", access)
        self.assertIn("/heartbeat", access)
        for name, text in logs.items():
            self.assertNotIn("bbr_", text, name)

    def test_impossible_requests_are_refused_with_their_place(self) -> None:
        ask = self.control.ask
        status, problem = ask("POST", "/runs", {"config": "training:\n  stop_afte: 5u\n"})
        self.assertEqual((status, problem["code"]), (422, "config_invalid"))
        self.assertEqual(
            (problem["errors"][0]["pointer"], problem["errors"][0]["line"], problem["errors"][0]["column"]),
            ("/training/stop_afte", 2, 3),
        )
        status, problem = ask("POST", "/runs:validate", {"config": "data: {folder: /no/such/folder}\n"})
        self.assertEqual((status, problem["errors"][0]["pointer"]), (422, "/data/folder"))
        for body in (
            {},
            {"config": "x", "config_ref": "r_1"},
            {"config": "", "profile": "none"},
            {"config": "", "world_size": 100000},
            {"config": "", "surprise": 1},
            {"config": "", "labels": {"a": 1}},
        ):
            self.assertEqual(ask("POST", "/runs", body)[0], 400, body)
        status, valid = ask("POST", "/runs:validate", {"config": self.config_text(), "world_size": 3})
        self.assertEqual((status, valid["max_updates"], valid["command"][:3]), (200, 60, ["mpirun", "-np", "3"]))
        self.assertGreater(valid["memory"]["activations"], 0)
        self.assertEqual(valid["memory"]["moments"], 8 * valid["memory"]["parameters"])
        self.assertIsNone(valid["step_ms"])
        self.assertTrue(any("step_ms" in text for text in valid["not_estimated"]))
        self.assertEqual(self.control.get("/api/v1/runs")["items"], [])

    def test_stops_with_a_checkpoint_and_resumes_with_another_world_size(self) -> None:
        run = self.submit(self.config_text(training_stop_after="100000u", checkpoint_every="0"))
        self.wait_update(run, 20)
        status, request = self.control.ask("POST", f"/runs/{run}/checkpoint")
        self.assertEqual((status, request["number"]), (202, 1))
        wait_for("checkpoint", lambda: self.control.get(f"/api/v1/runs/{run}/checkpoints")["items"])
        self.assertEqual(self.control.ask("DELETE", f"/runs/{run}")[1]["code"], "run_active")
        status, item = self.control.ask("POST", f"/runs/{run}/stop", {"grace_s": 60})
        self.assertEqual((status, item["state"]), (202, "stopping"))
        item = self.wait_state(run, "stopped")
        checkpoints = self.control.get(f"/api/v1/runs/{run}/checkpoints")["items"]
        self.assertEqual(len(checkpoints), 2, "one requested, one at the stop")
        self.assertEqual(checkpoints[0]["update"], item["update"])
        # From the older one: later training is discarded.
        status, item = self.control.ask(
            "POST", f"/runs/{run}/resume", {"world_size": 1, "checkpoint": checkpoints[1]["id"]}, key="once"
        )
        self.assertEqual((status, item["state"]), (202, "queued"))
        self.assertEqual(
            self.control.ask(
                "POST", f"/runs/{run}/resume", {"world_size": 1, "checkpoint": checkpoints[1]["id"]}, key="once"
            )[0],
            202,
        )
        item = self.wait_update(run, item["update"] + 20, attempt=2)
        self.assertEqual((item["attempt"], item["world_size"]), (2, 1))
        self.end(run)
        steps = self.control.get(f"/api/v1/runs/{run}/metrics/loss?agg=raw&rank=0&points=100000")["step"]
        self.assertEqual(steps, list(range(1, len(steps) + 1)))
        self.assertEqual(self.control.ask("POST", f"/runs/{run}/stop")[1]["code"], "state_conflict")
        status, item = self.control.ask("DELETE", f"/runs/{run}?checkpoints=delete")
        self.assertEqual(status, 200)
        self.assertEqual(self.control.get("/api/v1/runs")["items"], [])
        self.assertIsNone(self.control.ask("PATCH", f"/runs/{run}", {"deleted": False})[1]["deleted_at"])

    def test_a_killed_rank_is_named_and_the_run_continues_bit_for_bit(self) -> None:
        undisturbed = self.submit(self.config_text(training_stop_after="200u"))
        self.wait_state(undisturbed, "succeeded")
        run = self.submit(self.config_text(training_stop_after="100000u"))
        self.wait_update(run, 45)
        pids = self.rank_pids(run)
        began = time.monotonic()
        os.kill(pids[1], signal.SIGKILL)
        wait_for("fault noticed", lambda: len(self.transitions(run)) > 3)
        detected = time.monotonic() - began
        self.wait_update(run, 41, attempt=2)
        resumed = time.monotonic() - began
        item = self.wait_update(run, 200, attempt=2)
        self.assertEqual((item["attempt"], item["restarts"]), (2, 1))
        self.assertRegex(self.causes(run)[0], r"rank 1 on \S+ was killed by signal 9")
        state = item["health"]["parts"][0]["text"]
        self.assertRegex(state, r"^Restarted 1 of \d+ times, last \S+Z: rank 1 on \S+ was killed by signal 9$")

        def restarts() -> list[dict]:
            alerts = self.control.get(f"/api/v1/alerts?run={run}")["items"]
            return [alert for alert in alerts if alert["kind"] == "restarted"]

        # The rules are judged every two seconds, in which the new attempt may make all of its updates.
        told = wait_for("alert of the restart", restarts)
        self.assertEqual(len(told), 1)
        self.assertRegex(
            told[0]["message"], r"^restart 1 of \d+ at update [\d,]+: rank 1 on \S+ was killed by signal 9$"
        )
        self.assertFalse(any(map(is_running, pids.values())))
        one, other = self.digests(undisturbed), self.digests(run)
        self.assertEqual(one[200], other[200])
        self.end(run)
        print(f"\nkilled rank: noticed after {detected:.1f} s, training again after {resumed:.1f} s")

    def test_a_stopped_rank_is_named_fenced_and_replaced(self) -> None:
        self.assertEqual(self.control.stop(), 0)
        self.control.profile = "heartbeat_timeout_s: 10\n  cool_down_s: 0"
        self.control.start()
        run = self.submit(self.config_text(training_stop_after="100000u"))
        self.wait_update(run, 25)
        pid = self.rank_pids(run)[1]
        os.kill(pid, signal.SIGSTOP)
        time.sleep(1)
        os.kill(pid, signal.SIGCONT)
        self.wait_update(run, self.run_item(run)["update"] + 5)
        self.assertEqual(self.run_item(run)["attempt"], 1, "a short stop is endured")
        began = time.monotonic()
        os.kill(pid, signal.SIGSTOP)
        wait_for("fault noticed", lambda: self.run_item(run)["attempt"] == 2)
        detected = time.monotonic() - began
        self.assertFalse(is_running(pid))
        self.wait_update(run, 21, attempt=2)
        self.end(run)
        self.assertRegex(self.causes(run)[0], r"rank 1 on \S+ sent no heartbeat for \d+\.\d s")
        status, problem = self.control.ask("POST", f"/runs/{run}/heartbeat", {"attempt": 1, "rank": 1, "host": "h"})
        self.assertEqual((status, problem["code"]), (409, "stale_attempt"))
        print(f"\nstopped rank: replaced after {detected:.1f} s with a timeout of 10 s")

    def test_a_killed_mpirun_leaves_no_stray_rank(self) -> None:
        run = self.submit(self.config_text(training_stop_after="100000u"))
        self.wait_update(run, 25)  # far from the end: ranks live on for seconds without their mpirun
        pids = self.rank_pids(run)
        launcher = self.control.get(f"/api/v1/runs/{run}/attempts")["items"][0]["pid"]
        os.kill(launcher, signal.SIGKILL)
        wait_for("next attempt", lambda: self.run_item(run)["attempt"] == 2)
        self.assertFalse(any(map(is_running, pids.values())))
        self.wait_update(run, 21, attempt=2)
        self.end(run)

    def test_a_killed_server_finds_its_run_again(self) -> None:
        run = self.submit(self.config_text(training_stop_after="100000u"))
        self.wait_update(run, 20)
        pids = self.rank_pids(run)
        self.control.kill()
        self.control.start()
        self.assertEqual(self.run_item(run)["state"], "running")
        self.assertEqual(self.wait_update(run, 60)["attempt"], 1)
        self.assertEqual(self.rank_pids(run), pids)
        os.kill(pids[0], signal.SIGKILL)  # it watches, too
        self.wait_update(run, 61, attempt=2)
        self.end(run)

    def test_the_server_ends_well_in_every_state_and_runs_survive(self) -> None:
        run = self.submit(self.config_text(training_stop_after="100000u", checkpoint_every="0"))
        for state in ("launching", "running", "stopping"):
            self.wait_state(run, state, "running")
            if state == "stopping":
                for pid in self.rank_pids(run).values():
                    os.kill(pid, signal.SIGSTOP)
                self.assertEqual(
                    self.control.ask("POST", f"/runs/{run}/stop", {"grace_s": 600})[1]["state"], "stopping"
                )
            self.assertEqual(self.control.stop(), 0)
            self.control.start()
            if state == "launching":
                self.wait_update(run, 1)
        self.assertTrue(all(map(is_running, self.rank_pids(run).values())))
        self.assertEqual(self.run_item(run)["state"], "stopping")
        self.end(run)
        self.assertEqual(self.control.stop(), 0)
        self.control.start()

    def test_a_server_may_let_its_runs_save_and_the_next_continues_them(self) -> None:
        run = self.submit(self.config_text(training_stop_after="100000u", checkpoint_every="0"), max_restarts=0)
        self.wait_update(run, 5)
        pids = self.rank_pids(run)
        self.assertEqual(self.control.stop(), 0)
        self.control.options = ["--checkpoint-runs-on-exit"]
        self.control.start()
        self.wait_state(run, "running")
        self.assertEqual(self.control.stop(), 0)
        self.assertFalse(any(map(is_running, pids.values())), "the server waits for them")
        (saved,) = (self.folder / "server" / "runs" / run / "checkpoints").glob("update-*")
        self.control.start()
        item = self.wait_update(run, int(saved.name.removeprefix("update-")) + 1, attempt=2)
        self.assertEqual((item["attempt"], item["restarts"]), (2, 0))
        self.assertIn("the server ended", [entry["cause"] for entry in self.transitions(run)])
        self.end(run)

    def test_a_run_survives_container_restarts_and_a_moved_folder(self) -> None:
        if subprocess.run([*CONTAINER, "true"], capture_output=True).returncode != 0:
            self.skipTest("no new PID namespaces here")
        self.control.stop()
        self.control.wrapper = CONTAINER
        self.control.start()
        run = self.submit(self.config_text(training_stop_after="100000u", checkpoint_every="0"), max_restarts=0)
        for attempt, signal_number in ((1, signal.SIGTERM), (2, signal.SIGKILL), (3, signal.SIGTERM)):
            item = self.wait_update(run, 25 * attempt, attempt)
            self.assertEqual((item["attempt"], item["restarts"]), (attempt, 0))
            code = self.control.end_container(signal_number)
            self.assertEqual(code == 0, signal_number == signal.SIGTERM)
            if attempt == 3:
                self.control.folder = self.control.folder.rename(self.folder / "moved")
            self.control.start()
        item = self.wait_update(run, 100, 4)
        self.assertEqual((item["attempt"], item["restarts"]), (4, 0))
        causes = [entry["cause"] for entry in self.transitions(run)]
        self.assertEqual(causes.count("the server ended"), 2)
        self.assertEqual(causes.count("it ended with the machine or the container of the server"), 1)
        checkpoints = self.control.get(f"/api/v1/runs/{run}/checkpoints")["items"]
        before_the_move = min((one for one in checkpoints if not one["removed"]), key=lambda one: one["update"])
        archive = self.control.get_bytes(f"/api/v1/checkpoints/{before_the_move['id']}/archive.tar")
        self.assertGreater(len(archive), 1000)
        self.end(run)
        self.control.end_container(signal.SIGTERM)

    def test_a_run_started_by_hand_is_stopped_through_its_heartbeats(self) -> None:
        run = self.start_run(
            server=self.control.address, overrides=["training.stop_after=100000u", "checkpoint.every=0"]
        )
        run_id = self.control.first_run()
        wait_for("heartbeat", lambda: self.control.get("/api/v1/nodes")["items"])
        self.assertEqual(self.run_item(run_id)["profile"], "external")
        self.assertEqual(self.control.ask("POST", f"/runs/{run_id}/resume")[1]["code"], "not_managed")
        self.assertEqual(self.control.ask("POST", f"/runs/{run_id}/stop", {"mode": "now"})[0], 202)
        self.assertEqual(run.wait(), 0, run.text())
        self.wait_state(run_id, "stopped")
        self.assertEqual(self.control.get(f"/api/v1/runs/{run_id}/checkpoints")["items"], [])

    def test_a_replaced_attempt_ends_itself(self) -> None:
        run = self.start_run(
            server=self.control.address, overrides=["training.stop_after=100000u", "checkpoint.every=0"]
        )
        run_id = self.control.first_run()
        self.wait_update(run_id, 5)
        pids = run.rank_pids()
        newer = {"attempt": 2, "rank": 0, "host": "elsewhere"}
        self.assertEqual(self.control.ask("POST", f"/runs/{run_id}/heartbeat", newer)[0], 200)
        self.assertEqual(self.run_item(run_id)["attempt"], 2)
        self.assertNotEqual(run.wait(), 0)
        wait_ended(pids)
        self.assertRegex(run.text(), r"this attempt is over: 409 .*attempt 1 of run \S+ is over")


if __name__ == "__main__":
    unittest.main()
