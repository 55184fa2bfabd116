"""F15, F16 and F18: readers that hardly read, connections that hold still or drip, bodies made to be dear."""

import json
import selectors
import socket
import statistics
import time
import unittest
from pathlib import Path

from reporters import LONG, FaultTest, records_path, run_id

from system import show_figures, wait_for


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


class ClientsTest(FaultTest):
    def setUp(self) -> None:
        super().setUp()
        self.under_test = self.server()
        self.sequence = 10_000
        self.assertEqual(self.under_test.send_steps(1, 2000)[0], 200)

    def connect(self, data: bytes, receive_buffer: int = 0) -> socket.socket:
        client = socket.socket()
        if receive_buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.connect(("127.0.0.1", self.under_test.port))
        client.sendall(data)
        self.addCleanup(client.close)
        return client

    def latencies(self, count: int = 200) -> list[float]:
        """The times of requests for a run's status over one connection, in ms."""
        times = []
        for _ in range(count):
            began = time.monotonic()
            self.assertEqual(self.under_test.request("GET", f"/api/v1/runs/{run_id(1)}")[0], 200)
            times.append((time.monotonic() - began) * 1000)
        return times

    def flood(self, seconds: float) -> int:
        """Log records as fast as they are taken. Bytes sent."""
        sent, end = 0, time.monotonic() + seconds
        while time.monotonic() < end:
            log = {"kind": "log", "time_ms": 1795233600000, "level": "info", "text": "x" * 1000}
            records = [log | {"sequence": self.sequence + i} for i in range(200)]
            self.sequence += 200
            body = json.dumps({"attempt": 1, "rank": 0, "records": records})
            self.assertEqual(self.under_test.request("POST", records_path(), body)[0], 200)
            sent += len(body)
        return sent

    def test_slow_readers_cost_little_and_delay_nobody(self) -> None:
        readers = 200 if LONG else 40
        quiet = self.latencies()
        before = self.under_test.rss_bytes()
        request = f"GET /api/v1/events?run={run_id(1)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        slow = [self.connect(request, 4096) for _ in range(readers)]
        sent = self.flood(10 if LONG else 3)
        busy = self.latencies()
        grown = self.under_test.rss_bytes() - before
        closed = None
        if LONG:  # none of them takes a byte: closed 30 s after what lies between is full, however slowly that goes
            began = time.monotonic()
            while self.under_test.descriptors() >= readers:
                self.assertLess(time.monotonic() - began, 600, "slow readers are still there")
                self.flood(1)
            closed = time.monotonic() - began
        for client in slow:
            client.close()
        wait_for("all descriptors back", lambda: self.under_test.descriptors() < 40)
        # A copy per reader would multiply the events by the readers; the ring holds them once.
        self.assertLess(grown, 3 * sent + readers * (1 << 20) + (64 << 20))
        show_figures(
            "F15",
            slow_readers=readers,
            sent_mb=sent / 1e6,
            grown_mb=grown / 1e6,
            closed_after_s=closed,
            median_quiet_ms=statistics.median(quiet),
            median_ms=statistics.median(busy),
            p99_quiet_ms=percentile(quiet, 0.99),
            p99_ms=percentile(busy, 0.99),
        )

    def peak_bytes(self) -> int:
        """The most memory since the last call."""
        process = Path(f"/proc/{self.under_test.process.pid}")
        peak = int((process / "status").read_text().split("VmHWM:")[1].split()[0]) * 1024
        (process / "clear_refs").write_text("5")
        return peak

    def test_hostile_bodies_are_refused_and_cost_little(self) -> None:
        size = 4_000_000
        bodies = {
            "depth": "[" * size,
            "objects": '{"a":' * (size // 5),
            "digits": '{"a":' + "9" * (size - 10) + "}",
            "values": "[" + "1," * (size // 2 - 2) + "1]",
            "text": '{"a":"' + "x" * (size - 10) + '"}',
            "members": "{" + ",".join(f'"{i}":1' for i in range(size // 12)) + "}",
            "surrogates": '{"a":"' + "\\ud800" * (size // 6 - 2) + '"}',
            "overflow": '{"a":1e400}',
            "nan": '{"a":NaN}',
        }
        times, grown = {}, {}
        for name, body in bodies.items():
            self.peak_bytes()
            before = self.under_test.rss_bytes()
            began = time.monotonic()
            status, _ = self.under_test.request("POST", records_path(), body)
            times[name] = (time.monotonic() - began) * 1000
            self.assertIn(status, (400, 422), name)
            grown[name] = max(0, self.peak_bytes() - before) / size  # of what the large ones have
        self.assertLess(max(grown.values()), 30, grown)
        show_figures(
            "F18",
            bodies=len(bodies),
            slowest_ms=max(times.values()),
            slowest=max(times, key=times.get),
            memory_over_body=max(grown.values()),
            dearest=max(grown, key=grown.get),
        )

    def test_many_idle_or_dripping_connections(self) -> None:
        idle_count, dripping = (10_000, 500) if LONG else (800, 100)
        quiet = self.latencies()
        before, descriptors = self.under_test.rss_bytes(), self.under_test.descriptors()
        clients = [self.connect(b"") for _ in range(idle_count)]
        wait_for("all connections", lambda: self.under_test.descriptors() >= idle_count)
        heads = [self.connect(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Drip: ") for _ in range(dripping)]
        bodies = [
            self.connect(
                f"POST /api/v1/runs/{run_id(1)}/records HTTP/1.1\r\nHost: localhost\r\n"
                "Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n{".encode()
            )
            for _ in range(dripping)
        ]
        busy, began = [], time.monotonic()
        dripping_heads, closed = set(heads), 0
        selector = selectors.DefaultSelector()
        for client in heads + bodies:
            client.setblocking(False)
            selector.register(client, selectors.EVENT_READ)
        # The heads are closed 10 s after their first byte, even if more bytes follow.
        while time.monotonic() < began + (45 if LONG else 0) or (dripping_heads and time.monotonic() < began + 150):
            for client in heads + bodies:
                try:
                    client.send(b"a")
                except OSError:
                    pass
            for key, _ in selector.select(0):
                try:
                    if key.fileobj.recv(65536):
                        continue
                except OSError:
                    pass
                selector.unregister(key.fileobj)
                dripping_heads.discard(key.fileobj)
                closed += 1
            busy += self.latencies(20)
            self.assertEqual(self.under_test.request("GET", "/healthz")[0], 200)
            time.sleep(0.2)
        grown = self.under_test.rss_bytes() - before
        self.assertEqual(len(dripping_heads), 0, "heads that drip are still open")
        self.assertLess(grown / (idle_count + 2 * dripping), 64 << 10)
        for client in clients + heads + bodies:
            client.close()
        wait_for("all descriptors back", lambda: self.under_test.descriptors() <= descriptors + 8)
        show_figures(
            "F16",
            idle=idle_count,
            dripping=2 * dripping,
            closed=closed,
            grown_mb=grown / 1e6,
            bytes_a_connection=grown / (idle_count + 2 * dripping),
            p99_quiet_ms=percentile(quiet, 0.99),
            p99_ms=percentile(busy, 0.99),
            leaked_descriptors=0,
        )


if __name__ == "__main__":
    unittest.main()
