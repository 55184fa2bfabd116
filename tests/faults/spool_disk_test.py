"""A full disk under a run's folder: training continues, its records reach the server from memory, and the spool is written
again when there is room."""

import os
import signal
import subprocess
import sys
import unittest
import unittest.mock
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from harness import build_io_faults  # noqa: E402
from system import SystemTest, wait_for  # noqa: E402


class SpoolDiskTest(SystemTest):
    def ended(self) -> bool:
        return self.run_.process.poll() is not None

    def newest_update(self) -> int:
        runs = self.server_.get("/api/v1/runs")["items"]
        return runs[0]["update"] if runs else 0

    def test_full_disk_ends_neither_training_nor_reporting(self):
        folder = self.folder / "run"
        folder.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            self.skipTest(f"cannot mount a tmpfs: {done.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "-l", folder], check=False)
        self.server_ = self.server()
        self.run_ = self.start_run(
            ranks=1, server=self.server_.address, overrides=["training.stop_after=1000000u", "checkpoint.every=0u"]
        )
        wait_for("updates", lambda: self.ended() or self.newest_update() > 20)
        filler = folder / "filler"
        subprocess.run(["dd", "if=/dev/zero", f"of={filler}", "bs=4k"], capture_output=True, check=False)
        warning = "training continues, records are kept in memory"
        wait_for("the warning", lambda: self.ended() or warning in self.run_.text())
        reached = self.newest_update()
        wait_for("updates from memory", lambda: self.ended() or self.newest_update() > reached + 50)
        self.assertFalse(self.ended(), self.run_.text())
        filler.unlink()
        wait_for("the spool", lambda: self.ended() or "can be written again" in self.run_.text())
        self.assertFalse(self.ended(), self.run_.text())
        self.assertEqual(self.run_.text().count(warning), 1)

    def test_a_hung_disk_is_said_and_loses_no_record(self):
        control = self.folder / "control"
        self.server_ = self.server()
        faults = {"LD_PRELOAD": str(build_io_faults(self)), "IO_FAULTS": str(control)}
        with unittest.mock.patch.dict(os.environ, faults):
            self.run_ = self.start_run(
                ranks=2, server=self.server_.address, overrides=["training.stop_after=1000000u", "checkpoint.every=0"]
            )
        wait_for("updates", lambda: self.ended() or self.newest_update() > 20)
        control.write_text("hang .jsonl", encoding="utf-8")
        for rank in (0, 1):
            line = f"rank-{rank}.jsonl: a write has taken 10 s: its file system may hang"
            wait_for(line, lambda line=line: self.ended() or line in self.run_.text())
        reached = self.newest_update()
        wait_for("updates from memory", lambda: self.ended() or self.newest_update() > reached + 50)
        self.assertFalse(self.ended(), self.run_.text())
        control.unlink()
        wait_for("the spool", lambda: self.ended() or self.run_.text().count("the write has returned after") == 2)
        self.assertFalse(self.ended(), self.run_.text())
        os.kill(self.run_.rank_pids()[0], signal.SIGTERM)
        self.assertEqual(self.run_.wait(), 0, self.run_.text())
        run_id = self.server_.get("/api/v1/runs")["items"][0]["id"]
        for rank in (0, 1):
            last = self.records("run", "step", rank)[-1]["update"]
            query = f"metrics/loss?agg=raw&rank={rank}&from={last - 900}&points=1000"
            steps = self.server_.get(f"/api/v1/runs/{run_id}/{query}")["step"]
            self.assertEqual(steps, list(range(steps[0], last + 1)))


if __name__ == "__main__":
    unittest.main()
