"""`nmt probe backends`: forms of output, exit codes, messages."""

from __future__ import annotations

import json
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from system import call  # noqa: E402

UPDATE = "--preset transformer-tiny --batch random:2x3/3 --precision f32 --threads 1 model.encoder_layers=1 model.decoder_layers=1"


class BackendsTest(unittest.TestCase):
    def compare(self, words: str) -> subprocess.CompletedProcess:
        return call("nmt", "probe", "backends", *words.split())

    def test_a_backend_is_the_same_as_itself(self) -> None:
        done = self.compare(f"--a cpu --b cpu {UPDATE} --json")
        self.assertEqual(done.returncode, 0, done.stderr)
        ops = json.loads(done.stdout)["transformer-tiny"]["ops"]
        self.assertEqual({op["different"] for op in ops}, {0})
        self.assertLessEqual({"linear_forward", "decode_attention", "adam_update"}, {op["op"] for op in ops})

    def test_a_table_has_a_line_for_each_result(self) -> None:
        done = self.compare(f"--a cpu --b cpu {UPDATE}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^a: cpu \(.*\nb: cpu \(")
        self.assertRegex(done.stdout, r"(?m)^linear_backward_weight +dweight +f32 +\d+ +0\.00 % +0 +0$")

    def test_wrong_usage_is_refused(self) -> None:
        for words, message in (
            (f"--a tpu {UPDATE}", "--a"),
            ("--a cpu", "expected one of --config, --checkpoint and --preset, found 0"),
            ("--a cpu --preset transformer-tiny --batch random:2", "--batch: expected corpus or random:"),
        ):
            with self.subTest(words):
                done = self.compare(words)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertIn(message, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_a_device_that_is_absent_is_refused(self) -> None:
        words = "save --preset transformer-tiny --device cuda --output /dev/null"
        for command, message in ((words, "nmt: device cuda: "), (f"backends --a cuda {UPDATE}", "nmt: --a: ")):
            with self.subTest(command):
                done = call("nmt", "probe", *command.split())
                if done.returncode == 0:
                    self.skipTest("this machine has a GPU")
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertTrue(done.stderr.startswith(message), done.stderr)


if __name__ == "__main__":
    unittest.main()
