"""`worker --tensorboard`: its files, read by third-party code."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any

from cases import SystemTest

READER = Path(__file__).with_name("event_reader.py")


def reading_python() -> str | None:
    """An interpreter with the reader's packages (Debian's: python3-protobuf, python3-crcmod)."""
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            if (
                subprocess.run(
                    [python, "-c", "import google.protobuf, crcmod.predefined"], capture_output=True
                ).returncode
                == 0
            ):
                return python
        except FileNotFoundError:
            continue
    return None


class TensorBoardTest(SystemTest):
    def setUp(self) -> None:
        super().setUp()
        if reading_python() is None:
            self.skipTest("python3-protobuf and python3-crcmod are not installed")

    def read(self, *files: Path) -> list[dict[str, Any]]:
        done = subprocess.run([reading_python(), READER, *files], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def train(self, *overrides: str) -> None:
        board = self.folder / "board"
        untied = "model.tied_embeddings=none"  # tied ones have no teacher-forced BLEU after so few updates
        self.finish_run(overrides=["--tensorboard", str(board), untied, *overrides])

    def test_scalars_and_samples_of_a_run_and_of_its_resumption(self) -> None:
        self.train("validation.every=10u", "validation.bleu_every=20u", "training.stop_after=20u")
        [first] = (self.folder / "board").iterdir()
        self.assertIn("tfevents", first.name)
        events = self.read(first)
        self.assertEqual(events[0]["file_version"], "brain.Event:2")
        self.assertEqual((events[1]["session_log"], events[1]["step"]), (1, 1), "readers ignore a folder's first start")
        self.assertIn("tokens_per_update: 400", events[2]["texts"]["configuration"])
        self.check_steps(events, range(1, 21))
        self.check_evals(events)

        self.train("validation.every=0", "validation.bleu_every=0", "training.stop_after=30u")
        files = sorted((self.folder / "board").iterdir())
        self.assertEqual(len(files), 2)
        self.assertEqual(files[0], first, "a later file sorts behind an earlier one")
        events = self.read(files[1])
        self.assertEqual((events[1]["session_log"], events[1]["step"]), (1, 21), "what follows replaces from here on")
        self.check_steps(events, range(21, 31))

    def test_the_configuration_may_ask_for_them(self) -> None:
        self.finish_run(overrides=["tensorboard=true", "training.stop_after=5u"])
        self.check_steps(self.read(*(self.folder / "run" / "tensorboard").iterdir()), range(1, 6))

    def check_steps(self, events: list[dict[str, Any]], updates: range) -> None:
        """One event an update, with the numbers that rank 0's spool has."""
        steps = [event for event in events if "train/loss" in event["scalars"]]
        self.assertEqual([event["step"] for event in steps], list(updates))
        records = {record["update"]: record for record in self.records("run", "step")}
        for event in steps:
            record = records[event["step"]]
            self.assertAlmostEqual(event["wall_time"], record["time_ms"] / 1000, delta=600)
            for tag, key in {
                "train/loss": "loss",
                "train/nll": "nll",
                "train/learning_rate": "learning_rate",
                "train/gradient_norm": "gradient_norm",
                "time_ms/step": "step_ms",
                "time_ms/forward": "forward_ms",
                "time_ms/exposed_communication": "exposed_communication_ms",
            }.items():
                self.assertTrue(
                    math.isclose(float(event["scalars"][tag]), record[key], rel_tol=1e-6), (tag, event, record)
                )
            speed = record["update_target_tokens"] / record["step_ms"] * 1000
            self.assertTrue(
                math.isclose(float(event["scalars"]["speed/target_tokens_per_second"]), speed, rel_tol=1e-5)
            )

    def check_evals(self, events: list[dict[str, Any]]) -> None:
        evals = {event["step"]: event for event in events if "valid/loss" in event["scalars"]}
        self.assertEqual(sorted(evals), [10, 20])
        self.assertNotIn("valid/sacrebleu", evals[10]["scalars"], "this one did not translate")
        record = [record for record in self.records("run", "eval") if record["update"] == 20][0]
        self.assertIn("valid/teacher_forced_bleu", evals[10]["scalars"], "no translation is needed for it")
        for key in ("loss", "nll", "accuracy", "teacher_forced_bleu", "sacrebleu", "chrf"):
            self.assertTrue(
                math.isclose(float(evals[20]["scalars"][f"valid/{key}"]), record[key], rel_tol=1e-5, abs_tol=1e-6), key
            )
        table = evals[20]["texts"]["valid/samples"]
        self.assertTrue(table.startswith("| source | reference | hypothesis |\n|---|---|---|\n"), table)
        self.assertIn(record["samples"][0]["source"], table)


if __name__ == "__main__":
    unittest.main()
