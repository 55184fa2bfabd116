"""A timeline of several ranks, from the configuration key to `nmt trace`."""

import json
import socket
import subprocess
import unittest

from system import BIN, SystemTest
from timeline_check import TimelineCheck, slices

FEW = ["training.stop_after=12u", "checkpoint.every=0", "validation.every=0"]


class TimelineTest(SystemTest):
    def nmt(self, *arguments: object) -> subprocess.CompletedProcess:
        return subprocess.run([BIN / "nmt", "trace", *map(str, arguments)], capture_output=True, text=True)

    def test_two_ranks_write_one_file(self) -> None:
        wanted = ["lab.trace.start=5u", "lab.trace.updates=3", "communication.all_reduce=ring"]
        run = self.start_run(overrides=FEW + wanted)
        self.assertEqual(run.wait(), 0, run.text())
        files = sorted((self.folder / "run" / "lab").iterdir())
        self.assertEqual([file.name for file in files], ["trace-update-00000005.json.gz"])
        check = TimelineCheck(self, files[0], [socket.gethostname()] * 2)
        check.all()
        for own in slices(check.trace, "op").values():
            shapes = [op["args"]["shapes"] for op in own if op["name"] == "linear_forward"]
            self.assertGreater(len(shapes), 0)
            self.assertTrue(all({"x", "weight", "y"} <= set(shape) for shape in shapes))
        self.assertGreater(len(slices(check.trace, "batch")[0]), 0)
        shown = self.nmt("timeline", self.folder / "run")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("Updates 5 to 7 of run r_", shown.stdout)
        self.assertIn("the other ranks waited", shown.stdout)
        self.light_has_a_line_for_each_update()

    def light_has_a_line_for_each_update(self) -> None:
        shown = self.nmt("light", self.folder / "run", "--rank", 1)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        lines = [json.loads(line) for line in shown.stdout.splitlines()]
        steps = self.records("run", "step", 1)
        self.assertEqual([line["step"] for line in lines], [step["update"] for step in steps])
        for line, step in zip(lines, steps):
            self.assertAlmostEqual(line["data_io_time"] + line["model_time"], step["step_ms"] / 1e3)
            self.assertEqual(line["flops"], step["flops"])
            self.assertAlmostEqual(line["mem_GiB"], step["memory_bytes"]["peak"] / 2**30)

    def test_wrong_input_is_explained(self) -> None:
        for arguments, code, text in (
            (("timeline", self.folder), 2, "found no lab/trace-update-*.json.gz, expected one"),
            (("timeline", self.config), 1, "config.yaml: "),
            (("timeline", "nowhere.json.gz"), 1, "nowhere.json.gz"),
            (("light", self.folder), 2, "found no spool/attempt-*/rank-0.jsonl, expected the folder of a run"),
        ):
            shown = self.nmt(*arguments)
            self.assertEqual(shown.returncode, code, shown.stderr)
            self.assertIn(text, shown.stderr)
        run = self.start_run(overrides=["lab.trace.start=2e"])
        self.assertEqual(run.wait(), 2)
        self.assertIn("lab.trace.start: expected the number of an update (20u), found '2e'", run.text())


if __name__ == "__main__":
    unittest.main()
