"""F5 and F6: the database's disk is full, fails, or writes only half of the data."""

import time
import unittest

from reporters import FaultTest, run_id

from system import show_figures, wait_for


class FullDiskTest(FaultTest):
    def test_full_disk_refuses_but_loses_nothing_and_heals(self) -> None:
        disk = self.tmpfs(self.folder / "tmpfs", "96m")
        server = self.server(disk / "server")
        reporters = self.report(server, ranks=2)
        wait_for("points", lambda: all(len(r.acknowledged) > 200 for r in reporters))
        filled = time.monotonic()
        filler = self.fill(disk)
        refusals = {503, 507}
        wait_for("a refusal", lambda: refusals & set().union(*(r.statuses for r in reporters)))
        detected = time.monotonic() - filled
        wait_for("readiness to say so", lambda: server.request("GET", "/readyz")[1]["disk"] == "failing")
        self.assertEqual(server.request("GET", "/healthz")[0], 200)
        self.assertEqual(server.request("GET", f"/api/v1/runs/{run_id(1)}/metrics/loss")[0], 200)  # reads work
        self.assertLessEqual(set().union(*(r.statuses for r in reporters)), {200, *refusals})
        filler.unlink()
        freed, before = time.monotonic(), [len(r.acknowledged) for r in reporters]
        wait_for("points again", lambda: all(len(r.acknowledged) > n + 50 for r, n in zip(reporters, before)))
        recovered = time.monotonic() - freed
        wait_for("readiness", lambda: server.request("GET", "/readyz")[0] == 200)
        self.end(reporters)
        points = self.check_history(server, reporters)
        self.assertEqual(server.stop(), 0)
        show_figures("F5", detect_s=detected, recover_s=recovered, acknowledged_points=points, lost=0)

    def test_a_full_disk_at_a_start_is_named(self) -> None:
        disk = self.tmpfs(self.folder / "tmpfs", "16m")
        server = self.server(disk)  # its log lies beside the full disk
        self.assertEqual(server.stop(), 0)
        self.fill(disk)
        server.start(wait=False)
        self.assertEqual(server.process.wait(120), 1)
        self.assertIn("no space left: 32 KiB needed beside the database", (self.folder / "tmpfs.log").read_text())


class BadDiskTest(FaultTest):
    """A library before libc lets writes and syncs of the database fail."""

    def setUp(self) -> None:
        super().setUp()
        self.faults, self.control = self.io_faults()

    def bad_disk(self, mode: str) -> None:
        server = self.server(**self.faults)
        reporters = self.report(server, ranks=2)
        wait_for("points", lambda: all(len(r.acknowledged) > 100 for r in reporters))
        self.control.write_text(f"{mode} babelring.db")
        wait_for("a refusal", lambda: any(r.refused for r in reporters))
        self.assertEqual(server.request("GET", "/healthz")[0], 200)
        self.assertEqual(server.request("GET", f"/api/v1/runs/{run_id(1)}/metrics/loss")[0], 200)
        self.control.unlink()
        healed, before = time.monotonic(), [len(r.acknowledged) for r in reporters]
        wait_for("points again", lambda: all(len(r.acknowledged) > n + 50 for r, n in zip(reporters, before)))
        recovered = time.monotonic() - healed
        self.assertLessEqual(set().union(*(r.statuses for r in reporters)), {200, 503, 507})
        self.end(reporters)
        points = self.check_history(server, reporters)
        server.kill()  # acknowledged rows must survive without an orderly end
        server.start()
        self.assertEqual(self.check_history(server, reporters), points)
        show_figures(
            f"F6 {mode}",
            recover_s=recovered,
            acknowledged_points=points,
            lost=0,
            refused=sum(r.refused for r in reporters),
        )

    def test_failing_writes(self) -> None:
        self.bad_disk("eio")

    def test_failing_syncs(self) -> None:
        self.bad_disk("fsync")

    def test_a_failed_checkpoint_of_the_log_does_not_end_the_server(self) -> None:
        server = self.server(**self.faults)
        log = self.folder / "server.log"
        self.assertEqual(server.send_steps(1, 500)[0], 200)
        self.control.write_text("eio babelring.db")  # now the server is idle, and copies its log into the database
        wait_for("the failure", lambda: "write-ahead log: checkpoint failed" in log.read_text())
        self.assertEqual(server.request("GET", "/healthz")[0], 200)
        self.control.unlink()
        self.assertEqual(server.send_steps(501, 600)[0], 200)
        self.assertEqual(server.stop(), 0)
        server.start()
        series = server.get(f"/api/v1/runs/{run_id(1)}/metrics/loss?agg=raw&points=1000")
        self.assertEqual(series["value"], [u / 7 for u in range(1, 601)])

    def test_short_writes_are_written_whole(self) -> None:
        self.control.write_text("short babelring.db")
        server = self.server(**self.faults)
        self.assertEqual(server.send_steps(1, 500), (200, {"accepted": 500, "duplicates": 0}))
        server.kill()
        self.control.unlink()
        server.start()
        series = server.get(f"/api/v1/runs/{run_id(1)}/metrics/loss?agg=raw&points=1000")
        self.assertEqual(series["value"], [u / 7 for u in range(1, 501)])


if __name__ == "__main__":
    unittest.main()
