"""F23: the server has little memory. It refuses, and neither it nor the ranks are killed."""

import os
import threading
import unittest
from pathlib import Path

from harness import LONG, Figures, FaultTest, run_id, wait_for

CGROUPS = Path("/sys/fs/cgroup/memory")


class MemoryTest(FaultTest):

    def test_little_memory_is_no_end(self) -> None:
        group = CGROUPS / f"babelring-fault-{os.getpid()}"
        try:
            group.mkdir()
            (group / "memory.limit_in_bytes").write_text(str(192 << 20))
        except OSError as error:
            self.skipTest(f"no memory cgroup (v1) can be made: {error}")
        self.addCleanup(lambda: wait_for("the cgroup's end", lambda: self.removed(group)))
        server = self.server()
        server.start(["sh", "-c", f'echo $$ >{group}/cgroup.procs && exec "$@"', "sh"])
        self.addCleanup(server.kill)
        statuses, acknowledged = set(), []
        text = "x" * 2000

        def post(rank: int) -> None:
            for round_ in range(20 if LONG else 5):
                records = ",".join(f'{{"sequence":{round_ * 400 + i + 1},"kind":"log","time_ms":1,"level":"info","text":"{text}"}}'
                                   for i in range(400))
                body = f'{{"attempt":1,"rank":{rank},"records":[{records}]}}'
                status, _ = server.request("POST", f"/api/v1/runs/{run_id(1)}/records", body, 60)
                statuses.add(status)
                if status == 200:
                    acknowledged.append(rank)

        threads = [threading.Thread(target=post, args=(rank,)) for rank in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        self.assertTrue(server.alive(), f"exit code {server.process.poll()}")
        self.assertLessEqual(statuses, {200, 503})
        stored = sum(row["records"] for row in server.get(f"/api/v1/runs/{run_id(1)}/ranks")["items"])
        self.assertEqual(stored, 400 * len(acknowledged))
        peak = int((group / "memory.max_usage_in_bytes").read_text())
        Figures.show("F23", limit_mb=192, peak_mb=peak / 1e6, acknowledged_records=stored, lost=0, killed=0,
                     statuses=sorted(statuses))
        self.assertEqual(server.stop(), 0)

    @staticmethod
    def removed(group: Path) -> bool:
        try:
            group.rmdir()
        except OSError:
            return not group.exists()
        return True


if __name__ == "__main__":
    unittest.main()
