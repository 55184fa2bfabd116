"""Reports of workers with tokens that are bound to runs, as operators hand them out."""

from __future__ import annotations

import os
import signal
import unittest
from pathlib import Path

from cases import ControlTest
from system import Run, wait_ended, wait_for

ENDLESS = ["training.stop_after=100000u"]


class TokensTest(ControlTest):
    def make_token(self, name: str, **members: object) -> Path:
        status, token = self.control.ask("POST", "/tokens", {"name": name, "scope": "ingest", **members})
        self.assertEqual(status, 201, token)
        file = self.folder / f"{name}.token"
        file.write_text(token["secret"] + "\n", encoding="utf-8")
        return file

    def by_hand(self, token: Path, name: str, overrides: list[str], folder: str = "run") -> Run:
        return self.start_run(
            folder, server=self.control.address, overrides=[f"name={name}", *overrides], token_file=token
        )

    def test_ranks_do_not_wait_for_a_rank_whose_token_is_refused(self) -> None:
        unknown = self.folder / "unknown.token"
        unknown.write_text("unknown\n", encoding="utf-8")
        run = self.by_hand(unknown, "refused", ["training.stop_after=5u"])
        self.assertEqual(run.wait(), 0, run.text())
        self.assertIn("rank 0 sends no more: rank 1 sends its records itself", run.text())

    def test_a_run_by_hand_outlives_its_server_and_continues_with_its_prefix_token(self) -> None:
        token = self.make_token("team", run_prefix="mt-")
        run = self.by_hand(token, "mt-hand", ENDLESS)
        run_id = self.control.first_run()
        self.wait_update(run_id, 10)
        self.assertEqual(self.control.stop(), 0)
        self.control.start()
        seen = self.run_item(run_id)
        self.assertEqual(self.wait_update(run_id, seen["update"] + 10)["attempt"], 1)
        wait_for("heartbeat", lambda: self.control.get("/api/v1/nodes")["items"])
        self.assertEqual(self.control.ask("POST", f"/runs/{run_id}/stop", {})[0], 202)
        self.assertEqual(run.wait(), 0, run.text())
        stopped = self.wait_state(run_id, "stopped")
        # Somebody else of the team starts its folder again, with another token for the same names.
        run = self.by_hand(
            self.make_token("team-2", run_prefix="mt-"), "mt-hand", [f"training.stop_after={stopped['update'] + 20}u"]
        )
        self.assertEqual(run.wait(), 0, run.text())
        done = self.wait_state(run_id, "succeeded")
        self.assertEqual((done["attempt"], done["update"]), (2, stopped["update"] + 20))
        for rank in (0, 1):
            self.assertEqual(self.control.series(run_id, "loss", rank), list(range(1, done["update"] + 1)))
        self.assertNotIn("answered 4", run.text())

    def test_a_run_of_another_name_trains_on_and_is_sent_when_a_token_fits(self) -> None:
        token = self.make_token("team", run_prefix="mt-")
        run = self.by_hand(token, "asr-1", ["training.stop_after=10u"])
        self.assertEqual(run.wait(), 0, run.text())
        self.assertRegex(
            run.text(), "answered 403 .*this token is only for runs with names that begin with 'mt-', found 'asr-1'"
        )
        self.finish_run(server=self.control.address, overrides=["name=asr-1", "training.stop_after=20u"])
        run_id = self.control.first_run()
        self.assertEqual(self.run_item(run_id)["name"], "asr-1")
        for rank in (0, 1):
            self.assertEqual(self.control.series(run_id, "loss", rank), list(range(1, 21)))

    def test_a_managed_run_is_restarted_and_takes_no_attempt_by_hand(self) -> None:
        token = self.make_token("any", any_run=True)
        run_id = self.submit(self.config_text(training_stop_after="100000u", checkpoint_every="5u"))
        self.wait_update(run_id, 10)
        self.control.kill()
        self.control.start()
        os.kill(self.rank_pids(run_id)[1], signal.SIGKILL)
        self.wait_update(run_id, 20, attempt=2)
        for forged in (
            {"attempt": 3, "rank": 0, "host": "elsewhere"},
            {"attempt": 9007199254740991, "host": "elsewhere"},
        ):
            status, answer = self.control.ask("POST", f"/runs/{run_id}/heartbeat", forged)
            self.assertEqual((status, answer["code"]), (409, "attempt_refused"))
        pids = self.rank_pids(run_id)
        self.end(run_id)
        wait_ended(pids.values())
        folder = self.folder / "server" / "runs" / run_id
        (self.folder / "byhand").symlink_to(folder)
        run = self.by_hand(token, "toy", ENDLESS, "byhand")  # somebody starts the folder, with a token of their own
        wait_for("refusal", lambda: "was started by the server" in run.text())
        self.assertEqual(self.run_item(run_id)["attempt"], 2)
        self.assertEqual(self.run_item(run_id)["state"], "stopped")
        run.end()
        run = self.start_run("byhand", server=self.control.address, overrides=ENDLESS)  # as an administrator
        self.assertNotEqual(run.wait(), 0, run.text())
        self.assertRegex(run.text(), r"this attempt is over: 409 .*continue it with `nmt run resume`")
        self.assertEqual(self.run_item(run_id)["state"], "stopped")


if __name__ == "__main__":
    unittest.main()
