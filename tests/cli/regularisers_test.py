"""Regularisers and the average of the weights: what a run logs, records, stores and refuses."""

from __future__ import annotations

import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from cases import FolderTest, TINY  # noqa: E402
from system import call, prepare, spool_records, toy_corpus  # noqa: E402

ALL = ["ema=0.9", "r_drop=2", "layer_drop=0.2", "source_word_dropout=0.1", "target_word_dropout=0.1"]


class RegularisersTest(FolderTest):
    def setUp(self) -> None:
        super().setUp()
        self.change_to_folder()
        prepare(Path("data"), toy_corpus(Path("."), 400, 1), toy_corpus(Path("."), 20, 2), "--vocabulary-size", 120)
        Path("config.yaml").write_text(TINY, encoding="utf-8")

    def train(self, folder: str, *overrides: str, check: bool = True):
        words = ["--config", "config.yaml", "--run-dir", folder, "--server", "none", *overrides]
        return call("worker", *words, check=check)

    def test_a_resumed_run_writes_the_same_checkpoint(self) -> None:
        options = [f"training.{option}" for option in ALL] + ["training.log_every=5u", "tensorboard=true"]
        options += ["model.dropout=0.1", "validation.every=4u", "data.bpe_dropout=0.1"]
        done = self.train("whole", "training.stop_after=20u", *options)
        self.assertIn("training.ema: validations and checkpoints have the moving average of the weights", done.stderr)
        self.assertRegex(
            done.stderr, r"segmented anew in each epoch, into 1\.\d+ times as many source and 1\.\d+ times"
        )
        self.assertRegex(done.stderr, r"update 20 .*nll [0-9.]+, R-Drop loss [0-9.]+,")
        records = spool_records(Path("whole/spool/attempt-1/rank-0.jsonl"))
        losses = [record["r_drop_loss"] for record in records if record["kind"] == "step"]
        self.assertEqual(len(losses), 20)
        self.assertGreater(min(losses), 0)
        events = b"".join(file.read_bytes() for file in Path("whole/tensorboard").iterdir())
        self.assertIn(b"train/r_drop_loss", events)

        for end in ("9u", "20u"):
            self.train("parts", f"training.stop_after={end}", *options)
        for name in ("weights.safetensors", "optimizer.safetensors"):
            whole, parts = (Path(run, "checkpoints/update-00000020", name).read_bytes() for run in ("whole", "parts"))
            self.assertEqual(whole, parts, name)

    def test_the_average_takes_the_memory_of_a_moment(self) -> None:
        def memory(*overrides: str) -> dict[str, int]:
            words = ["--config", "config.yaml", "--check-config", *overrides]
            return json.loads(call("worker", *words, check=True).stdout)["memory"]

        plain, averaged = memory("model.dropout=0.1"), memory("model.dropout=0.1", "training.ema=0.999")
        twice = memory("model.dropout=0.1", "training.r_drop=1")
        self.assertEqual(averaged["moments"], plain["moments"] * 3 // 2)
        self.assertGreater(twice["activations"], 1.8 * plain["activations"])

    def test_what_has_no_effect_is_refused(self) -> None:
        for overrides, message in (
            (
                ["training.r_drop=1"],
                "training.r_drop: 1, but without dropout both passes are equal; expected model.dropout above 0",
            ),
            (
                ["training.layer_drop=0.2", "training.guided_alignment=0.1"],
                "training.layer_drop: 0.2, but training.guided_alignment needs its layer in each update",
            ),
            (
                ["data.sampled_sides=target"],
                "data.sampled_sides: given, but nothing is sampled; expected data.bpe_dropout or data.sampling above 0",
            ),
            (["data.sampling=0.2"], "data.sampling: 0.2, but the vocabulary is of BPE; use data.bpe_dropout"),
            (["training.ema=1"], "training.ema: expected a number from 0 to 0.9999999, found '1'"),
        ):
            done = self.train("run", *overrides, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(message, done.stderr)
            self.assertFalse(Path("run").exists())


if __name__ == "__main__":
    unittest.main()
