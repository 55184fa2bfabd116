"""deploy/backup/restore_drill.py: a backup made while a run reports is restored elsewhere and compared."""

from __future__ import annotations

import subprocess
import sys
import unittest
from pathlib import Path

from cases import SystemTest
from system import BIN, wait_for

DRILL = Path(__file__).resolve().parents[2] / "deploy" / "backup" / "restore_drill.py"


class RestoreDrillTest(SystemTest):
    def drill(self, *options: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, DRILL, "--server", self.live.address, "--program", BIN / "server"]
        command += ["--token-file", self.folder / "server" / "admin.token", *options]
        return subprocess.run(list(map(str, command)), capture_output=True, text=True)

    def test_a_backup_under_load_restores_all_rows(self) -> None:
        self.live = self.server()
        run = self.start_run(
            server=self.live.address, overrides=["training.stop_after=100000u", "validation.every=20u"]
        )
        wait_for("some updates", lambda: [r for r in self.live.get("/api/v1/runs")["items"] if (r["update"] or 0) > 25])
        done = self.drill()
        self.assertIsNone(run.process.poll(), "the run goes on")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("its 1 runs are equal", done.stdout)

        backup = next((self.folder / "server" / "backups").glob("*.db"))
        again = self.drill("--backup", backup)
        self.assertEqual((again.returncode, again.stderr), (0, ""))
        damaged = self.folder / "damaged.db"
        content = bytearray(backup.read_bytes())
        content[4096 : len(content) // 2] = bytes(len(content) // 2 - 4096)
        damaged.write_bytes(content)
        refused = self.drill("--backup", damaged)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("restore_drill: the restore failed: ", refused.stderr)

    def test_a_difference_is_named(self) -> None:
        self.live = self.server()
        self.finish_run(server=self.live.address)
        self.assertEqual(self.drill().returncode, 0)
        run = self.live.first_run()
        self.assertEqual(self.live.ask("PATCH", f"/runs/{run}", {"name": "renamed"})[0], 200)
        done = self.drill("--backup", next((self.folder / "server" / "backups").glob("*.db")))
        self.assertEqual(done.returncode, 1)
        self.assertIn("name is toy, was renamed", done.stderr)


if __name__ == "__main__":
    unittest.main()
