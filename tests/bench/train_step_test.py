#!/usr/bin/env python3
"""Runs bench_train_step on a tiny model and checks that its last line is JSON whose figures fit each other and the
model: not how long anything took.

    train_step_test.py one_rank|two_ranks PROGRAM [--mpirun MPIRUN]
"""
import argparse
import json
import math
import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from system import AS_ROOT, MPIRUN  # noqa: E402

SIZES = ["--preset", "tiny", "--vocabulary", "100", "--sentences", "4", "--source-length", "6", "--target-length", "5"]
BRIEF = ["--threads", "1", "--updates", "3", "--warmup", "1", "--observed", "1", "--peak-seconds", "0.002"]


class TrainStep(unittest.TestCase):
    program = mpirun = ""

    def result(self, *arguments, ranks=1):
        launcher = [self.mpirun, *MPIRUN[1:], "-np", str(ranks)] if ranks > 1 else []
        command = [*launcher, self.program, *SIZES, *BRIEF, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | AS_ROOT)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def check(self, result):
        self.assertEqual((result["source_tokens_per_step"], result["target_tokens_per_step"]), (24, 20))
        self.assertAlmostEqual(result["target_tokens_per_s"], 20e3 / result["step_ms"], places=3)
        self.assertLessEqual(result["target_tokens_per_s_min"], result["target_tokens_per_s"])
        self.assertLessEqual(result["target_tokens_per_s"], result["target_tokens_per_s_max"])
        peaks = result["peaks"]
        floor = (
            result["matmul_gflop_per_step"] / peaks[f"{result['precision']}_gflop_per_s"]
            + result["unavoidable_megabytes_per_step"] / 1e3 / peaks["triad_gb_per_s"]
        ) * 1e3
        self.assertAlmostEqual(result["roofline_ms"], floor, delta=1e-6 * floor)
        self.assertGreater(result["roofline_fraction"], 0)
        self.assertGreater(result["peak_memory_bytes"], 4 * 4 * result["parameters"])
        # A model that knows nothing is about as wrong as one that finds all pieces alike.
        self.assertAlmostEqual(result["first_loss"], math.log(100), delta=1)
        self.assertNotEqual(result["first_loss"], result["last_loss"])


class OneRank(TrainStep):
    def test_figures_fit_each_other(self):
        for precision in ("bf16", "f32"):
            result = self.result("--precision", precision)
            self.check(result)
            self.assertAlmostEqual(sum(op["gflop"] for op in result["ops"]), result["matmul_gflop_per_step"], places=9)

    def test_tools_of_the_lab_change_no_loss(self):
        plain = self.result("--precision", "f32")
        for tool in ("parameters", "timeline", "ledger"):
            with self.subTest(tool=tool):
                result = self.result("--precision", "f32", "--lab", tool)
                self.check(result)
                self.assertEqual((result["lab"], result["last_loss"]), (tool, plain["last_loss"]))

    def test_a_wrong_option_is_refused(self):
        with self.assertRaises(AssertionError):
            self.result("--norm", "sideways")


class TwoRanks(TrainStep):
    def test_two_ranks_train_on_the_same_update(self):
        one, two = self.result("--precision", "f32"), self.result("--precision", "f32", ranks=2)
        self.check(two)
        self.assertEqual(two["ranks"], 2)
        self.assertAlmostEqual(one["first_loss"], two["first_loss"], places=5)
        self.assertAlmostEqual(one["last_loss"], two["last_loss"], places=4)
        self.assertAlmostEqual(one["matmul_gflop_per_step"], two["matmul_gflop_per_step"], places=9)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=["one_rank", "two_ranks"])
    parser.add_argument("program")
    parser.add_argument("--mpirun", default="mpirun")
    chosen = parser.parse_args()
    TrainStep.program, TrainStep.mpirun = chosen.program, chosen.mpirun
    case = OneRank if chosen.case == "one_rank" else TwoRanks
    outcome = unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromTestCase(case))
    raise SystemExit(not outcome.wasSuccessful())
