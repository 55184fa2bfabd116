"""Guided alignment: from `nmt prepare --align` to the alignments of `nmt translate`."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from cases import FolderTest, TINY  # noqa: E402
from system import call, prepare, spool_records, toy_corpus  # noqa: E402


class GuidedAlignmentTest(FolderTest):
    def setUp(self) -> None:
        super().setUp()
        self.change_to_folder()
        train, valid = toy_corpus(Path("."), 400, 1), toy_corpus(Path("."), 20, 2)
        prepare(Path("data"), train, valid, "--vocabulary-size", 120, "--align")
        prepare(Path("plain"), train, valid, "--vocabulary-size", 120)
        self.source = valid[0]
        Path("config.yaml").write_text(TINY, encoding="utf-8")

    def train(self, folder: str, *overrides: str, check: bool = True):
        words = ["--config", "config.yaml", "--run-dir", folder, "--server", "none", *overrides]
        return call("worker", *words, check=check)

    def test_a_model_learns_to_align_and_translates_with_that_head(self) -> None:
        options = ["training.stop_after=150u", "optimizer.schedule=constant", "optimizer.learning_rate=0.01"]
        done = self.train(
            "run", "training.guided_alignment=1", "training.log_every=50u", *options, "optimizer.warm_up=0u"
        )
        self.assertRegex(done.stderr, r"update 50 .*nll [0-9.]+, alignment loss [0-9.]+,")
        values = [
            record["alignment_loss"]
            for record in spool_records(Path("run/spool/attempt-1/rank-0.jsonl"))
            if record["kind"] == "step"
        ]
        self.assertEqual(len(values), 150)
        self.assertLess(values[-1], 0.6 * values[0])

        def pairs(*words: str) -> list[str]:
            command = ["--checkpoint", "run", "--alignment", "soft", *words]
            return call("nmt", "translate", *command, input=self.source.read_text(), check=True).stdout.splitlines()

        guided = pairs()
        self.assertEqual(guided, pairs("--alignment-layer", "1", "--alignment-head", "1"))
        self.assertNotEqual(guided, pairs("--alignment-layer", "1"), "the mean of all heads")

    def test_data_without_alignments_are_refused(self) -> None:
        done = self.train("run", "data.folder=plain", "training.guided_alignment=0.1", check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("training.guided_alignment: 0.1, but set 'train' of plain has no alignments", done.stderr)
        self.assertIn("`nmt prepare --align`", done.stderr)
        done = self.train("run", "validation.every=5%", check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(
            "validation.every: expected updates (u), epochs (e) or target tokens (t), found '5%'", done.stderr
        )

    def test_alignments_change_neither_the_data_nor_an_unguided_run(self) -> None:
        for name in ("train.source.ids", "train.target.ids", "spm.model"):
            self.assertEqual(Path("data", name).read_bytes(), Path("plain", name).read_bytes(), name)
        for folder in ("data", "plain"):
            self.train("run-" + folder, f"data.folder={folder}")
        weights = [Path(f"run-{folder}/checkpoints/update-00000004/spm.model") for folder in ("data", "plain")]
        self.assertEqual(weights[0].read_bytes(), weights[1].read_bytes())


if __name__ == "__main__":
    unittest.main()
