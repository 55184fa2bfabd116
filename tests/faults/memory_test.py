"""F23: the server has little memory. It refuses, and neither it nor the ranks are killed."""

import os
import threading
import time
import unittest
from pathlib import Path

from reporters import LONG, FaultTest, OpenServer, records_path, run_id

from system import show_figures, wait_for

CGROUPS = Path("/sys/fs/cgroup/memory")


class MemoryTest(FaultTest):
    def squeezed(self, megabytes: int, **environment: str) -> OpenServer:
        """A server that is killed when it exceeds the memory limit."""
        self.group = CGROUPS / f"babelring-fault-{os.getpid()}"
        try:
            self.group.mkdir()
            (self.group / "memory.limit_in_bytes").write_text(str(megabytes << 20))
        except OSError as error:
            self.skipTest(f"no memory cgroup (v1) can be made: {error}")
        self.addCleanup(lambda: wait_for("the cgroup's end", self.removed))
        return self.server(
            wrapper=["sh", "-c", f'echo $$ >{self.group}/cgroup.procs && exec "$@"', "sh"], **environment
        )

    @staticmethod
    def batch(rank: int, round_: int, lines: int) -> str:
        text = "x" * 2000
        records = ",".join(
            f'{{"sequence":{round_ * lines + i + 1},"kind":"log","time_ms":1,"level":"info","text":"{text}"}}'
            for i in range(lines)
        )
        return f'{{"attempt":1,"rank":{rank},"records":[{records}]}}'

    def send_all(self, threads: list[threading.Thread], pause: float = 0) -> None:
        for thread in threads:
            thread.start()
            time.sleep(pause)

    def finish(
        self, server: OpenServer, threads: list[threading.Thread], fault: str, records: int, **figures: object
    ) -> None:
        for thread in threads:
            thread.join(400)
        self.assertTrue(server.alive(), f"exit code {server.process.poll()}")
        stored = sum(row["records"] for row in server.get(f"/api/v1/runs/{run_id(1)}/ranks?limit=500")["items"])
        self.assertEqual(stored, records)
        peak = int((self.group / "memory.max_usage_in_bytes").read_text())
        limit = int((self.group / "memory.limit_in_bytes").read_text())
        show_figures(
            fault, limit_mb=limit / 1e6, peak_mb=peak / 1e6, acknowledged_records=stored, lost=0, killed=0, **figures
        )
        self.assertEqual(server.stop(), 0)

    def test_little_memory_is_no_end(self) -> None:
        server = self.squeezed(192)
        statuses, acknowledged = set(), []

        def post(rank: int) -> None:
            for round_ in range(20 if LONG else 5):
                status, _ = server.request("POST", records_path(), self.batch(rank, round_, 400), timeout=300)
                statuses.add(status)
                if status == 200:
                    acknowledged.append(rank)

        threads = [threading.Thread(target=post, args=(rank,)) for rank in range(16)]
        self.send_all(threads)
        for thread in threads:
            thread.join(400)
        self.assertLessEqual(statuses, {200, 503})
        self.finish(server, threads, "F23", 400 * len(acknowledged), statuses=sorted(statuses))

    def test_requests_that_wait_for_a_slow_disk_are_bounded(self) -> None:
        faults, control = self.io_faults()
        server = self.squeezed(400, **faults)
        senders, lines = 48, 1900  # of 4 MB: all together do not fit
        bodies = [self.batch(rank, 0, lines) for rank in range(senders)]
        refused = []

        def post(rank: int) -> None:
            while True:
                status, answer = server.request("POST", records_path(), bodies[rank], timeout=300)
                if status not in (0, 503):
                    break
                if status == 503:
                    refused.append(answer["code"])
                else:  # a refused connection has an end in time, which may come while its body is still being sent
                    self.assertEqual(server.request("GET", "/healthz")[0], 200, "only a server that lives may refuse")
                time.sleep(0.5)
            self.assertEqual(status, 200, answer)

        control.write_text("slow babelring.db")
        threads = [threading.Thread(target=post, args=(rank,)) for rank in range(senders)]
        self.send_all(threads, pause=0.03)
        wait_for("a refusal", lambda: refused)
        self.assertEqual(server.request("GET", "/healthz")[0], 200)
        control.unlink()
        self.finish(server, threads, "F23 slow disk", senders * lines, refused=len(refused))

    def removed(self) -> bool:
        try:
            self.group.rmdir()
        except OSError:
            return not self.group.exists()
        return True


if __name__ == "__main__":
    unittest.main()
