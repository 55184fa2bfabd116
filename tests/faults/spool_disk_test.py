"""A full disk under a run's folder: training continues, its records reach the server from memory, and the spool is written
again when there is room."""

import os
import signal
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from cases import SystemTest  # noqa: E402

ENDLESS = ["training.stop_after=1000000u", "checkpoint.every=0"]


class SpoolDiskTest(SystemTest):
    def newest_update(self) -> int:
        runs = self.server_.get("/api/v1/runs")["items"]
        return runs[0]["update"] if runs else 0

    def test_full_disk_ends_neither_training_nor_reporting(self):
        folder = self.tmpfs(self.folder / "run", "8m")
        self.server_ = self.server()
        run = self.start_run(ranks=1, server=self.server_.address, overrides=ENDLESS)
        run.wait_for("updates", lambda: self.newest_update() > 20)
        filler = self.fill(folder)
        warning = "training continues, records are kept in memory"
        run.wait_for("the warning", lambda: warning in run.text())
        reached = self.newest_update()
        run.wait_for("updates from memory", lambda: self.newest_update() > reached + 50)
        filler.unlink()
        run.wait_for("the spool", lambda: "can be written again" in run.text())
        self.assertEqual(run.text().count(warning), 1)

    def test_a_hung_disk_is_reported_and_loses_no_record(self):
        faults, control = self.io_faults()
        self.server_ = self.server()
        run = self.start_run(server=self.server_.address, overrides=ENDLESS, environment=faults)
        run.wait_for("updates", lambda: self.newest_update() > 20)
        control.write_text("hang .jsonl", encoding="utf-8")
        for rank in (0, 1):
            line = f"rank-{rank}.jsonl: a write has taken 10 s: its file system may hang"
            run.wait_for(line, lambda line=line: line in run.text())
        reached = self.newest_update()
        run.wait_for("updates from memory", lambda: self.newest_update() > reached + 50)
        control.unlink()
        run.wait_for("the spool", lambda: run.text().count("the write has returned after") == 2)
        os.kill(run.rank_pids()[0], signal.SIGTERM)
        self.assertEqual(run.wait(), 0, run.text())
        run_id = self.server_.first_run()
        for rank in (0, 1):
            last = self.records("run", "step", rank)[-1]["update"]
            query = f"metrics/loss?agg=raw&rank={rank}&from={last - 900}&points=1000"
            steps = self.server_.get(f"/api/v1/runs/{run_id}/{query}")["step"]
            self.assertEqual(steps, list(range(steps[0], last + 1)))


if __name__ == "__main__":
    unittest.main()
