"""F14: the wall clock jumps by hours and days while ranks report and a page listens. Monotonic time continues."""

import contextlib
import glob
import http.client
import pathlib
import threading
import time
import unittest

from reporters import FaultTest, run_id

from system import show_figures, wait_for

JUMPS = ["+3600", "-3600", "+2592000", "-5184000", "+0"]


def set_clock(file: pathlib.Path, jump: str) -> None:
    """In one step: a libfaketime of 2024 ends a process that reads the file while it is empty."""
    new = file.with_suffix(".new")
    new.write_text(jump + "\n")
    new.rename(file)


class ClockTest(FaultTest):
    def test_nothing_ends_early_when_the_clock_jumps(self) -> None:
        libraries = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1") or glob.glob(
            "/usr/lib/*/faketime/libfaketime.so.1"
        )
        if not libraries:
            self.skipTest("needs libfaketime (package faketime)")
        clock = self.folder / "clock"
        set_clock(clock, "+0")
        # libfaketime and jemalloc wait for each other before main(), so memory comes from libc here.
        server = self.server(
            LD_PRELOAD=f"{libraries[0]}:libc.so.6:libstdc++.so.6",
            FAKETIME_TIMESTAMP_FILE=str(clock),
            FAKETIME_NO_CACHE="1",
            FAKETIME_DONT_FAKE_MONOTONIC="1",
        )
        idle = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        idle.request("GET", "/healthz")
        healthy = idle.getresponse().read()
        stream = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
        stream.request("GET", f"/api/v1/events?run={run_id(1)}")
        events = stream.getresponse()
        self.assertEqual(events.status, 200)
        seen: list[bytes] = []

        def read_events() -> None:
            with contextlib.suppress(OSError, http.client.HTTPException):
                seen.extend(line for line in events if line.startswith(b"event: "))

        threading.Thread(target=read_events, daemon=True).start()
        used = time.monotonic()
        reporters = self.report(server, ranks=2)
        for jump in JUMPS:
            set_clock(clock, jump)
            before, told = [len(r.acknowledged) for r in reporters], len(seen)
            wait_for("points", lambda: all(len(r.acknowledged) > n + 50 for r, n in zip(reporters, before)))
            wait_for("events", lambda: len(seen) > told)
            time.sleep(2.5)  # the alerts' thread judges meanwhile
            if time.monotonic() - used < 50:  # of the 60 s that it may be idle
                idle.request("GET", "/healthz")  # the same connection: no timeout fired early
                self.assertEqual(idle.getresponse().read(), healthy)
            used = time.monotonic()
        self.end(reporters)
        self.assertEqual({200}, set().union(*(r.statuses for r in reporters)))
        points = self.check_history(server, reporters)
        series = server.get(f"/api/v1/runs/{run_id(1)}/metrics/loss?agg=raw&rank=0&points=100000")
        self.assertEqual(series["step"], sorted(series["step"]))
        alerts = [alert for alert in server.get("/api/v1/alerts")["items"] if alert["kind"] != "disk_low"]
        self.assertEqual(alerts, [])
        self.assertIn(server.get(f"/api/v1/runs/{run_id(1)}/verdict")["verdict"], ("healthy", "compute_bound"))
        self.assertEqual(server.stop(), 0)
        show_figures("F14", jumps=len(JUMPS), acknowledged_points=points, lost=0, early_timeouts=0, false_alerts=0)


if __name__ == "__main__":
    unittest.main()
