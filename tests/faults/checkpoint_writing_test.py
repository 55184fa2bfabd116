"""Checkpoints on a slow disk. While one is being written, training continues, a stop waits for it, and a kill leaves the
checkpoint before, from which the run goes on with the same bits."""

import os
import signal
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from cases import SystemTest  # noqa: E402
from system import wait_for  # noqa: E402

DEADLINE_S = 20  # longer than any step of a start takes on a busy machine
OVERRIDES = ["training.stop_after=1000000u", "checkpoint.every=20u"]


class CheckpointWritingTest(SystemTest):
    def setUp(self) -> None:
        super().setUp()
        self.faults, self.control = self.io_faults()

    def held_run(self, ranks: int):
        """A run with at least one checkpoint that now writes another one and cannot complete it."""
        run = self.start_run(ranks=ranks, overrides=OVERRIDES, environment=self.faults)
        run.wait_for("a first checkpoint", self.checkpoints)
        self.control.write_text("hold safetensors", encoding="utf-8")
        run.wait_for("one that is being written", self.control.with_suffix(".held").exists)
        self.wait_steps(run, 10)
        self.assertTrue(self.unfinished(), "it was completed")
        return run

    def unfinished(self) -> list[str]:
        return self.checkpoints(prefix=".tmp-update-")

    def test_a_stop_waits_for_it_and_saves_where_it_stopped(self) -> None:
        run = self.held_run(ranks=1)
        os.kill(run.rank_pids()[0], signal.SIGTERM)
        wait_for("training to stand still", self.stands_still)
        self.assertIsNone(run.process.poll(), "it did not wait")
        self.control.unlink()
        self.assertEqual(run.wait(), 0, run.text())
        self.assertEqual(int(self.checkpoints()[-1].split("-")[1]), self.steps()[-1]["update"])
        self.assertEqual(self.unfinished(), [])
        listed = {record["name"] for record in self.records("run", "checkpoint")}
        self.assertLessEqual(set(self.checkpoints()), listed)

    def test_a_kill_leaves_the_one_before_and_the_run_goes_on_with_the_same_bits(self) -> None:
        run = self.held_run(ranks=2)
        kept = self.checkpoints()
        for pid in run.rank_pids():
            os.kill(pid, signal.SIGKILL)
        self.assertNotEqual(run.wait(), 0)
        self.assertEqual(self.checkpoints(), kept)
        self.assertTrue(self.unfinished())
        self.control.unlink()
        first = {step["update"]: step["weights_digest"] for step in self.steps()}
        last = max(first)
        self.finish_run(overrides=[f"training.stop_after={last}u", "checkpoint.every=20u"])
        self.assertEqual(self.unfinished(), [])
        again = self.steps()[len(first) :]
        self.assertEqual(again[0]["update"], int(kept[-1].split("-")[1]) + 1)
        self.assertEqual(again[-1]["update"], last)
        for step in again:
            self.assertEqual(step["weights_digest"], first[step["update"]], step["update"])

    def hold_at_the_end(self, files: str) -> str:
        """A run whose rank 0 cannot complete `files` for longer than the other ranks wait for a collective. Its log."""
        self.control.write_text(f"hold {files}", encoding="utf-8")
        overrides = ["checkpoint.every=0", f"communication.deadline_s={DEADLINE_S}"]
        run = self.start_run(overrides=overrides, environment=self.faults)
        run.wait_for("the last update", lambda: len(self.steps()) == 60)
        time.sleep(1.5 * DEADLINE_S)
        self.assertIsNone(run.process.poll(), run.text())
        self.control.unlink()
        self.assertEqual(run.wait(), 0, run.text())
        self.assertNotIn("MPI_Finalize", run.text())
        return run.text()

    def test_ranks_wait_longer_than_the_deadline_for_the_last_checkpoint(self) -> None:
        text = self.hold_at_the_end("safetensors")
        self.assertEqual(self.checkpoints(), ["update-00000060"])
        self.assertRegex(text, r"warning: checkpoint of update 60: a write has taken 10 s: its file system may hang")
        self.assertIn("checkpoint of update 60: the write has returned after", text)

    def test_ranks_wait_longer_than_the_deadline_for_the_report(self) -> None:
        text = self.hold_at_the_end("report.html")
        self.assertIn("finished: 60u of training", text)
        self.assertTrue((self.folder / "run" / "report.json").exists())


if __name__ == "__main__":
    unittest.main()
