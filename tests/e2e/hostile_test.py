"""The short form of scripts/bench.sh server --hostile: every attacker beside a training run and ordinary users. Asserts what does
not depend on how busy the machine is; the bench judges the times, too."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import unittest

from system import BIN, ROOT

BENCH = ROOT / "scripts/bench/main.py"
SECONDS = os.environ.get("BABELRING_HOSTILE_SECONDS", "15")


class HostileTest(unittest.TestCase):
    def test_no_client_harms_other_runs(self) -> None:
        if shutil.which("mpirun") is None:
            self.skipTest("mpirun is not installed")
        options = f"server --hostile --seconds {SECONDS} --quiet-seconds 2 --settle-seconds 5".split()
        command = [sys.executable, BENCH, "--programs", BIN, *options]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        print(done.stdout)
        self.assertIn(done.returncode, (0, 1))
        (turn,) = json.loads(done.stdout.splitlines()[-1])["turns"]
        for row in turn["rows"]:
            if row["must"] is not None and not row["timed"]:
                self.assertTrue(row["met"], row)
        self.assertEqual(turn["changes"], [])
        answered = {name for name, attacker in turn["attackers"].items() if attacker["answers"]}
        self.assertGreaterEqual(
            answered, {"refused", "held", "guessed", "audit", "batches", "ranks", "attempts"}, turn["attackers"]
        )


if __name__ == "__main__":
    unittest.main()
