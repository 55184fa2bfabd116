"""F1: ranks killed at random moments of a run, BABELRING_SEEDS of them (3), with the figures at the end."""

import os
import random
import signal
import statistics
import time
import unittest

from cases import ControlTest
from system import is_running, show_figures, spool_records, wait_for

SEEDS = int(os.environ.get("BABELRING_SEEDS", "3"))
LAST, INTERVAL = 150, 20


class KillsTest(ControlTest):
    def kill_one(self, config: str, seed: int) -> dict:
        rng = random.Random(seed)
        run = self.submit(config)
        self.wait_update(run, rng.randrange(INTERVAL + 1, LAST - 60))
        time.sleep(rng.random() * 0.1)
        pids = self.rank_pids(run)
        before = self.run_item(run)["update"]
        began = time.monotonic()
        os.kill(pids[rng.randrange(2)], signal.SIGKILL)
        wait_for("fault noticed", lambda: len(self.transitions(run)) > 3)
        detected = time.monotonic() - began
        self.wait_state(run, "running")
        resumed = time.monotonic() - began
        # The server shows the update of the attempt before until the new one trains.
        wait_for(f"update {LAST}", lambda: max(self.attempt_updates(run, 2), default=0) >= LAST)
        self.end(run)
        first = min(self.attempt_updates(run, 2))
        self.assertFalse(any(map(is_running, pids.values())), "no stray rank")
        return {"detected": detected, "resumed": resumed, "lost": max(before - first + 1, 0), "run": run}

    def attempt_updates(self, run: str, attempt: int) -> list[int]:
        file = self.folder / "server" / "runs" / run / "spool" / f"attempt-{attempt}" / "rank-0.jsonl"
        records = spool_records(file) if file.exists() else []
        return [record["update"] for record in records if record["kind"] == "step"]

    def test_every_killed_run_ends_with_the_weights_of_an_undisturbed_one(self) -> None:
        undisturbed = self.submit(self.config_text(training_stop_after=f"{LAST}u"))
        self.wait_state(undisturbed, "succeeded")
        config = self.config_text(training_stop_after="100000u", checkpoint_every=f"{INTERVAL}u")
        wanted = self.digests(undisturbed)[LAST]
        found = [self.kill_one(config, seed) for seed in range(SEEDS)]
        for one in found:
            self.assertEqual(self.digests(one["run"])[LAST], wanted)
            self.assertLessEqual(one["lost"], INTERVAL + 5, "at most what was trained since the last checkpoint")
            steps = self.control.series(one["run"], "loss", 1)
            self.assertEqual(steps, list(range(1, len(steps) + 1)))
        figures = {}
        for key in ("detected", "resumed", "lost"):
            values = [float(one[key]) for one in found]
            figures |= {f"{key}_median": statistics.median(values), f"{key}_max": max(values)}
        show_figures("F1", rounds=SEEDS, strays=0, **figures)


if __name__ == "__main__":
    unittest.main()
