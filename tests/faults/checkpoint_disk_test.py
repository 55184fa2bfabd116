"""F4 and F6 at the place where checkpoints are written: the disk is full, read-only, or fails to sync. Training continues, the
old checkpoint stays, the new one is never listed, and the next one is written when the disk is well again."""

import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from cases import SystemTest  # noqa: E402
from system import show_figures, wait_for  # noqa: E402


class CheckpointDiskTest(SystemTest):
    def training(self, environment: dict[str, str] | None = None):
        """A run whose checkpoints are on a separate small file system."""
        self.disk = self.tmpfs(self.folder / "run" / "checkpoints", "24m")
        self.server_ = self.server()
        overrides = ["training.stop_after=1000000u", "checkpoint.every=10u", "checkpoint.keep_last=2"]
        self.run_ = self.start_run(ranks=1, server=self.server_.address, overrides=overrides, environment=environment)
        self.run_.wait_for("a first checkpoint", self.checkpoints)

    def failures(self) -> list[str]:
        return [log["text"] for log in self.records("run", "log") if "was not written, training goes on" in log["text"]]

    def checkpoint_disk(self) -> str:
        """The answer of /readyz."""
        status, answer = self.server_.request("GET", "/readyz")
        self.assertEqual(status, 200 if answer["ready"] else 503)
        return answer["checkpoint_disk"]

    def alerts(self) -> list[dict]:
        """Open ones of the checkpoints' disk."""
        return [
            alert
            for alert in self.server_.get("/api/v1/alerts?state=open")["items"]
            if alert["kind"] == "disk_low" and alert["subject"] == str(self.disk)
        ]

    def expect_survival(self, fault: str, break_, heal, full: bool = False) -> None:
        wait_for("readiness", lambda: self.checkpoint_disk() == "ok")
        begin = time.monotonic()
        broken = break_()
        # Takes again the space that an unfinished checkpoint gives back.
        self.run_.wait_for("a refused checkpoint", lambda: self.failures() or (full and not break_()))
        detected, kept = time.monotonic() - begin, self.checkpoints()
        self.assertTrue(kept, "the old checkpoint is gone")
        self.wait_steps(self.run_, 26)
        self.assertEqual(self.checkpoints(), kept)
        path = f"/api/v1/runs/{self.server_.first_run()}/checkpoints"
        wait_for(
            "the server to list those that are there and no other",
            lambda: {item["name"] for item in self.server_.get(path)["items"]} == set(kept),
        )
        if full:
            wait_for("readiness to say so", lambda: self.checkpoint_disk() == "failing")
            wait_for("an alert", self.alerts)
        listed = {record["name"] for record in self.records("run", "checkpoint")}
        self.assertLessEqual(set(self.checkpoints()), listed)
        begin = time.monotonic()
        heal(broken)
        self.run_.wait_for("a new checkpoint", lambda: set(self.checkpoints()) - set(kept))
        recovered = time.monotonic() - begin
        if full:
            wait_for("readiness again", lambda: self.checkpoint_disk() == "ok")
            wait_for("the alert's end", lambda: not self.alerts())
        os.kill(self.run_.rank_pids()[0], signal.SIGTERM)
        self.assertEqual(self.run_.wait(), 0, self.run_.text())
        self.assertEqual(self.checkpoints(prefix=".tmp-"), [])
        for name in self.checkpoints():
            subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=self.disk / name, check=True)
        show_figures(fault, detect_s=detected, recover_s=recovered, kept=len(kept), leaked_files=0)

    def test_full_disk(self) -> None:
        self.training()
        rules = [{"name": "disk", "kind": "disk_low", "threshold": 1e6, "clear_s": 0}]  # the file system has 24 MB
        self.assertEqual(self.server_.ask("PUT", "/alert-rules", {"items": rules})[0], 200)
        self.expect_survival("F4", lambda: self.fill(self.disk), lambda filler: filler.unlink(), full=True)

    def test_read_only_file_system(self) -> None:
        self.training()

        def remount(how: str) -> None:
            command = ["mount", "-o", f"remount,{how}", self.disk]
            wait_for(f"remount {how}", lambda: subprocess.run(command, capture_output=True).returncode == 0)

        self.expect_survival("F6 read-only", lambda: remount("ro"), lambda _: remount("rw"))

    def test_failed_sync_is_no_checkpoint(self) -> None:
        faults, control = self.io_faults()
        self.training(faults)
        self.expect_survival("F6 fsync", lambda: control.write_text("fsync safetensors"), lambda _: control.unlink())


if __name__ == "__main__":
    unittest.main()
