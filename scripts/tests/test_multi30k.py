"""Tests of scripts/multi30k.sh with stand-ins for the programs."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

#: `worker` is started by `mpirun` and leaves its seed; `nmt` scores 40 + the seed, and `nmt score` fails for the seed in FAULT.
MPIRUN = """#!/bin/sh
echo "mpirun $*" >>"$LOG"
for word in "$@"; do case $word in */run) folder=$word ;; training.seed=*) seed=${word#*=} ;; esac; done
mkdir -p "$folder" && echo "$seed" >"$folder/seed"
"""
NMT = """#!/bin/sh
case $1 in
  prepare) mkdir -p "$5" && echo {} >"$5/manifest.json" ;;
  average) mkdir -p "$5" && cp "$6/seed" "$5/seed" ;;
  evaluate) cp "$3/seed" "$9" && echo "{\\"sacrebleu\\": $((40 + $(cat "$3/seed"))), \\"chrf\\": 60.5}" ;;
  score)
    [ "$(cat "$5")" != "$FAULT" ] || exit 1
    echo "{\\"lines\\": 9, \\"scores\\": [{\\"name\\": \\"BLEU\\", \\"score\\": $((41 + $(cat "$5")))}]}" ;;
esac
"""


class Multi30kTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name, text in (("mpirun", MPIRUN), ("nmt", NMT), ("worker", "#!/bin/sh\n")):
            (self.folder / name).write_text(text, encoding="utf-8")
            (self.folder / name).chmod(0o755)

    def call(self, *arguments: str, fault: str = "") -> subprocess.CompletedProcess[str]:
        path = f"{self.folder}:{os.environ['PATH']}"
        environment = {
            **os.environ,
            "PATH": path,
            "BABELRING_BIN": str(self.folder),
            "LOG": str(self.folder / "log"),
            "FAULT": fault,
        }
        command = [str(ROOT / "scripts/multi30k.sh"), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    def trained(self) -> list[str]:
        lines = (self.folder / "log").read_text(encoding="utf-8").splitlines()
        return [word for line in lines for word in line.split() if word.startswith("training.seed=")]

    def test_seeds_have_a_mean_and_an_interval(self) -> None:
        results = str(self.folder / "results")
        done = self.call("--seeds", "3", "text", results, "training.max_minutes=5")
        self.assertEqual(done.returncode, 0, done.stderr)
        summary = json.loads(done.stdout)
        self.assertEqual([scores["bleu"] for scores in summary["seeds"]], [41, 42, 43])
        self.assertEqual(summary["mean"], {"bleu": 42, "chrf": 60.5, "lowercased_bleu": 43})
        # By Student's t with 2 degrees of freedom: 4.303 * 1 / sqrt(3).
        self.assertEqual(summary["half_interval_95"], {"bleu": 2.484, "chrf": 0, "lowercased_bleu": 2.484})
        self.assertRegex(done.stderr, r"lowercased_bleu +43\.00 ± 2\.48 +42\.00 43\.00 44\.00\n")
        self.assertIn("training.max_minutes=5", (self.folder / "log").read_text(encoding="utf-8"))
        # More seeds continue.
        self.assertEqual(self.call("--seeds", "4", "text", results).returncode, 0)
        self.assertEqual(self.trained(), [f"training.seed={seed}" for seed in (1, 2, 3, 4)])

    def test_a_seed_alone_has_no_interval_and_an_interrupted_one_is_trained_again(self) -> None:
        results = str(self.folder / "results")
        self.assertNotEqual(self.call("text", results, fault="1").returncode, 0)
        done = self.call("text", results)
        self.assertEqual(json.loads(done.stdout)["half_interval_95"]["bleu"], None)
        self.assertEqual(self.trained(), ["training.seed=1"] * 2)

    def test_wrong_usage_is_refused(self) -> None:
        for arguments, message in (
            ((), "found no folder with the text"),
            (("--seeds", "0", "text"), "--seeds: found '0', expected a number from 1 to 999"),
            (("text", "training.seed=3"), "found 'training.seed=3' for the folder of the results"),
        ):
            done = self.call(*arguments)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(message, done.stderr)


if __name__ == "__main__":
    unittest.main()
