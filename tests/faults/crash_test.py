"""F3: the server is killed while ranks report, at random moments and at the points around its commit."""

import random
import time
import unittest

from harness import LONG, SEED, Figures, FaultTest

FAILPOINTS = ["applied", "committed", "acknowledged"]


class CrashTest(FaultTest):

    def rounds(self, count: int, environment, fault: str) -> None:
        """Kill and restart `count` times; the reporters go on all the while."""
        rng = random.Random(SEED)
        server = self.server()
        server.start()
        reporters = self.report(server)
        ready, temporary = [], 0
        for _ in range(count):
            wanted = environment(rng)
            if wanted:  # with a failpoint it must begin anew to know it
                server.kill()
                server.start(wait=False, **wanted)
                server.process.wait(30)
            else:
                time.sleep(rng.uniform(0.05, 0.6))
                server.kill()
            ready.append(server.start())
        time.sleep(0.5)
        self.end(reporters)
        points = self.check_history(server, reporters)
        self.assertGreater(points, 100)
        self.assertEqual(server.stop(), 0)
        temporary = len([path for path in server.folder.iterdir() if ".tmp" in path.name or path.name.endswith("-wal")])
        self.assertEqual(temporary, 0)
        Figures.show(fault, rounds=count, acknowledged_points=points, lost=0, twice=0,
                     resent_and_dropped=sum(r.duplicates for r in reporters), ready_s_max=max(ready),
                     ready_s_median=sorted(ready)[len(ready) // 2], leaked_files=temporary)

    def test_killed_at_random_moments(self) -> None:
        self.rounds(70 if LONG else 4, lambda rng: {}, "F3 random")

    def test_killed_around_the_commit(self) -> None:
        self.rounds(30 if LONG else 6,
                    lambda rng: {"BABELRING_FAILPOINT": f"{rng.choice(FAILPOINTS)}@{rng.randint(1, 40)}"}, "F3 failpoints")


if __name__ == "__main__":
    unittest.main()
