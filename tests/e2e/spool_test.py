"""Records that a server lacks reach it in the end: those of a run that ended while it was away, those that it lost with a
damaged log, and those that came after the backup that it was restored from."""

import os
import signal
import subprocess
import time
import unittest
from datetime import datetime

from cases import ControlTest, SystemTest
from system import Run, Server, call, wait_ended, wait_for

LONG = ["training.stop_after=1000000u", "checkpoint.every=0"]


class SpoolTest(SystemTest):
    def begin(self) -> tuple[Server, Run, str]:
        """A run that trains and reports, and its id."""
        server = self.server()
        run = self.start_run(server=server.address, overrides=LONG)
        self.wait_steps(run, 30)
        return server, run, server.first_run()

    def check_series(self, server: Server, run_id: str) -> None:
        """The server has every update of both ranks, once and in order."""
        trained = len(self.steps())
        for rank in (0, 1):
            self.assertEqual(server.series(run_id, "nll", rank), list(range(1, trained + 1)))
        self.assertEqual([rank["missing"] for rank in server.get(f"/api/v1/runs/{run_id}/ranks")["items"]], [0, 0])

    def sync(self, server: Server) -> subprocess.CompletedProcess:
        token = ["--token-file", server.folder / "admin.token"]
        return call("nmt", "run", "sync", self.folder / "run", "--server", server.address, *token)

    def test_a_run_that_ends_without_its_server_is_taken_from_its_folder(self) -> None:
        server, run, run_id = self.begin()
        refused = self.sync(server)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("a process still trains there", refused.stderr)
        server.kill()
        self.wait_steps(run, 30)
        os.kill(run.rank_pids()[0], signal.SIGTERM)
        self.assertEqual(run.wait(), 0, run.text())
        self.assertRegex(
            run.text(), r"\d+ records of rank 0 are not confirmed by \S+ yet; waiting for them for at most 30 s"
        )
        self.assertIn(f"send them with `nmt run sync {self.folder / 'run'}`", run.text())
        began = time.time()
        server.start()
        ended = wait_for(
            "the run's end", lambda: (one := server.get(f"/api/v1/runs/{run_id}"))["state"] == "stopped" and one
        )
        finished = datetime.fromisoformat(ended["finished_at"]).timestamp()
        self.assertLess(finished, began - 20, "the time of the record, not of its arrival")
        self.check_series(server, run_id)
        self.assertIn("the server has all records", self.sync(server).stdout)
        # A server that does not reach the folder.
        (self.folder / "elsewhere").mkdir()
        other = Server(self.folder / "other", self.folder / "elsewhere")
        self.addCleanup(other.end)
        other.start()
        sent = self.sync(other)
        self.assertEqual(sent.returncode, 0, sent.stderr)
        self.assertRegex(sent.stdout, rf"run {run_id}: [\d,]+ records sent, updates 1 to {len(self.steps())}\n")
        self.check_series(other, run_id)
        self.assertEqual(other.get(f"/api/v1/runs/{run_id}")["finished_at"], ended["finished_at"])
        self.assertIn("the server has all records", self.sync(other).stdout)

    def test_a_run_that_begins_and_ends_without_its_server_is_taken_once(self) -> None:
        server = self.server()
        server.kill()
        run = self.finish_run(server=server.address, overrides=["training.stop_after=30u", "checkpoint.every=0"])
        self.assertIn("send them with `nmt run sync", run.text())
        server.start()
        runs = wait_for("the run", lambda: server.get("/api/v1/runs")["items"])
        self.assertEqual(len(runs), 1)
        run_id = runs[0]["id"]
        ended = wait_for(
            "its end", lambda: (one := server.get(f"/api/v1/runs/{run_id}"))["state"] == "succeeded" and one
        )
        self.assertEqual(ended["update"], 30)
        self.check_series(server, run_id)
        times = [record["time_ms"] / 1000 for record in self.records("run", "lifecycle") if record["rank"] == 0]
        self.assertAlmostEqual(ended["elapsed_seconds"], max(times) - min(times), delta=0.1)
        self.assertAlmostEqual(datetime.fromisoformat(ended["started_at"]).timestamp(), min(times), delta=0.01)
        shown = call(
            "nmt", "run", "show", run_id, "--server", server.address, "--token-file", server.folder / "admin.token"
        )
        self.assertRegex(shown.stdout, r"(?m)^took +\d+ ")

    def end_well(self, run: Run, server: Server, run_id: str) -> None:
        self.wait_steps(run, 30)
        os.kill(run.rank_pids()[0], signal.SIGTERM)
        self.assertEqual(run.wait(), 0, run.text())
        self.assertRegex(run.text(), r"has lost records \d+ to \d+ of spool \S+/rank-0.jsonl; sending them again")
        self.check_series(server, run_id)

    def test_a_flipped_bit_in_the_log_of_a_killed_server_loses_nothing(self) -> None:
        server, run, run_id = self.begin()
        wait_for("updates", lambda: server.get(f"/api/v1/runs/{run_id}")["update"] > 60)
        before = server.get("/readyz")["write_ahead_log"]
        server.kill()
        wal = server.folder / "babelring.db-wal"
        frame = 24 + 8192
        frames = (wal.stat().st_size - 32) // frame
        with open(wal, "r+b") as log:
            log.seek(32 + frames * 3 // 4 * frame + 3000)
            byte = log.read(1)[0] ^ 16
            log.seek(-1, os.SEEK_CUR)
            log.write(bytes([byte]))
        server.start()
        self.assertEqual((before, server.get("/readyz")["write_ahead_log"]), ("ok", "damaged"))
        self.end_well(run, server, run_id)

    def test_a_restored_backup_gets_later_records(self) -> None:
        server, run, run_id = self.begin()
        wait_for("updates", lambda: server.get(f"/api/v1/runs/{run_id}")["update"] > 20)
        self.assertIn(server.ask("POST", "/admin/backup")[0], (200, 202))
        wait_for("the backup", lambda: server.get("/api/v1/admin/backup")["state"] == "done")
        backup = server.get("/api/v1/admin/backup")["file"]
        saved = server.get(f"/api/v1/runs/{run_id}")["update"]
        wait_for("more updates", lambda: server.get(f"/api/v1/runs/{run_id}")["update"] > saved + 40)
        self.assertEqual(server.stop(), 0)
        call("server", "--data", server.folder, "--restore", backup, check=True)
        server.start()
        self.end_well(run, server, run_id)


class SupervisedSpoolTest(ControlTest):
    def test_a_run_that_ends_well_without_its_server_is_not_started_again(self) -> None:
        run = self.submit(self.config_text(training_stop_after="1000u", checkpoint_every="0"), max_restarts=1)
        self.wait_update(run, 20)
        pids = self.rank_pids(run)
        self.control.kill()
        wait_ended(pids.values())
        began = time.time()
        self.control.start()
        item = self.wait_state(run, "succeeded")
        self.assertEqual((item["attempt"], item["update"]), (1, 1000))
        self.assertLess(datetime.fromisoformat(item["finished_at"]).timestamp(), began - 20, "when its record says")
        self.assertEqual([rank["missing"] for rank in self.control.get(f"/api/v1/runs/{run}/ranks")["items"]], [0, 0])


if __name__ == "__main__":
    unittest.main()
