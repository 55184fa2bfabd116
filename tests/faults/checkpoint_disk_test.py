"""F4 and F6 at the place where checkpoints are written: the disk is full, read-only, or fails to sync. Training continues, the
old checkpoint stays, the new one is never listed, and the next one is written when the disk is well again."""

import json
import os
import signal
import subprocess
import sys
import time
import unittest
import unittest.mock
import urllib.error
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from harness import Figures, FaultTest, build_io_faults  # noqa: E402
from system import SystemTest, wait_for  # noqa: E402


class CheckpointDiskTest(SystemTest):
    def training(self, environment: dict[str, str] | None = None):
        """A run whose checkpoints are on a separate small file system."""
        self.checkpoints = self.folder / "run" / "checkpoints"
        self.checkpoints.mkdir(parents=True)
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", self.checkpoints],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            self.skipTest(f"cannot mount a tmpfs: {done.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "-l", self.checkpoints], check=False)
        self.server_ = self.server()
        with unittest.mock.patch.dict(os.environ, environment or {}):
            self.run_ = self.start_run(
                ranks=1,
                server=self.server_.address,
                overrides=["training.stop_after=1000000u", "checkpoint.every=10u", "checkpoint.keep_last=2"],
            )
        wait_for("a first checkpoint", lambda: self.ended() or self.names())
        self.assertFalse(self.ended(), self.run_.text())

    def ended(self) -> bool:
        return self.run_.process.poll() is not None

    def names(self) -> list[str]:
        return sorted(path.name for path in self.checkpoints.iterdir() if path.name.startswith("update-"))

    def updates(self) -> int:
        return len(self.records("run", "step"))

    def failures(self) -> list[str]:
        return [log["text"] for log in self.records("run", "log") if "was not written, training goes on" in log["text"]]

    def checkpoint_disk(self) -> str:
        """The answer of /readyz."""
        try:
            return self.server_.get("/readyz")["checkpoint_disk"]
        except urllib.error.HTTPError as error:
            self.assertEqual(error.code, 503)
            answer = json.load(error)
            self.assertFalse(answer["ready"])
            return answer["checkpoint_disk"]

    def alerts(self) -> list[dict]:
        """Open ones of the checkpoints' disk."""
        return [
            alert
            for alert in self.server_.get("/api/v1/alerts?state=open")["items"]
            if alert["kind"] == "disk_low" and alert["subject"] == str(self.checkpoints)
        ]

    def expect_survival(self, fault: str, break_, heal, full: bool = False) -> None:
        wait_for("readiness", lambda: self.checkpoint_disk() == "ok")
        begin = time.monotonic()
        broken = break_()
        # Takes again the space that an unfinished checkpoint gives back.
        wait_for("a refused checkpoint", lambda: self.ended() or self.failures() or (full and not break_()))
        detected, kept, updates = time.monotonic() - begin, self.names(), self.updates()
        self.assertTrue(kept, "the old checkpoint is gone")
        wait_for("training to go on", lambda: self.ended() or self.updates() > updates + 25)
        self.assertFalse(self.ended(), self.run_.text())
        self.assertEqual(self.names(), kept)
        run = self.server_.get("/api/v1/runs")["items"][0]["id"]
        path = f"/api/v1/runs/{run}/checkpoints"
        wait_for(
            "the server to list those that are there and no other",
            lambda: {item["name"] for item in self.server_.get(path)["items"]} == set(kept),
        )
        if full:
            wait_for("readiness to say so", lambda: self.checkpoint_disk() == "failing")
            wait_for("an alert", self.alerts)
        listed = {record["name"] for record in self.records("run", "checkpoint")}
        self.assertLessEqual(set(self.names()), listed)
        begin = time.monotonic()
        heal(broken)
        wait_for("a new checkpoint", lambda: self.ended() or set(self.names()) - set(kept))
        recovered = time.monotonic() - begin
        if full:
            wait_for("readiness again", lambda: self.checkpoint_disk() == "ok")
            wait_for("the alert's end", lambda: not self.alerts())
        os.kill(self.run_.rank_pids()[0], signal.SIGTERM)
        self.assertEqual(self.run_.wait(), 0, self.run_.text())
        unfinished = [path.name for path in self.checkpoints.iterdir() if path.name.startswith(".tmp-")]
        self.assertEqual(unfinished, [])
        for name in self.names():
            subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=self.checkpoints / name, check=True)
        Figures.show(fault, detect_s=detected, recover_s=recovered, kept=len(kept), leaked_files=0)

    def test_full_disk(self) -> None:
        self.training()
        rules = [{"name": "disk", "kind": "disk_low", "threshold": 1e6, "clear_s": 0}]  # the file system has 24 MB
        with urllib.request.urlopen(self.server_.request("/api/v1/alert-rules", "PUT", {"items": rules})) as answer:
            self.assertEqual(answer.status, 200)
        self.expect_survival("F4", lambda: FaultTest.fill(self.checkpoints), lambda filler: filler.unlink(), full=True)

    def test_read_only_file_system(self) -> None:
        self.training()

        def remount(how: str) -> None:
            wait_for(
                f"remount {how}",
                lambda: subprocess.run(
                    ["mount", "-o", f"remount,{how}", self.checkpoints], capture_output=True, check=False
                ).returncode
                == 0,
            )

        self.expect_survival("F6 read-only", lambda: remount("ro"), lambda _: remount("rw"))

    def test_failed_sync_is_no_checkpoint(self) -> None:
        library, control = build_io_faults(self), self.folder / "control"
        self.training({"LD_PRELOAD": str(library), "IO_FAULTS": str(control)})
        self.expect_survival("F6 fsync", lambda: control.write_text("fsync safetensors"), lambda _: control.unlink())


if __name__ == "__main__":
    unittest.main()
