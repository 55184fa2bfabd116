"""Losses of training pairs: a run notes them, and `nmt prepare` drops the pairs that it did not learn."""

from __future__ import annotations

import json
import struct
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from cases import FolderTest, TINY  # noqa: E402
from system import call, prepare, toy_corpus  # noqa: E402

TRAIN = ("--train", "toy1.en", "toy1.de", "--valid", "toy2.en", "toy2.de")


class PairLossesTest(FolderTest):
    def setUp(self) -> None:
        super().setUp()
        self.change_to_folder()
        source, target = toy_corpus(Path("."), 400, 1)
        lines = target.read_text().splitlines()
        self.wrong = list(range(7, 400, 40))
        moved = [lines[i] for i in self.wrong]
        for i, line in zip(self.wrong, moved[1:] + moved[:1]):
            lines[i] = line
        target.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        prepare(Path("data"), (source, target), toy_corpus(Path("."), 20, 2), "--vocabulary-size", 120)
        options = ["model.width=32", "model.inner=64", "optimizer.learning_rate=0.01", "optimizer.warm_up=50u"]
        Path("config.yaml").write_text(TINY, encoding="utf-8")
        words = ["--config", "config.yaml", "--run-dir", "run", "--server", "none", "training.pair_losses=true"]
        call("worker", *words, "training.stop_after=40e", "checkpoint.every=0", *options, check=True)

    def prepared(self, *words: object):
        return call("nmt", "prepare", *TRAIN, "--output", "clean", *words)

    def test_pairs_with_a_wrong_translation_are_dropped(self) -> None:
        read = json.loads(Path("data/report.json").read_text())["sets"][0]["pairs_kept"]
        fraction = len(self.wrong) / read
        done = self.prepared("--vocabulary", "data", "--drop-suspects", "run", "--suspects", fraction, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)["sets"][0]["findings"]["suspect"]
        self.assertEqual(found["count"], len(self.wrong))
        self.assertRegex(found["examples"][0], r"^toy1\.en:\d+: keeps \d+ % of its loss: the .* \|\|\| das ")
        lines = [int(example.split(":")[1]) - 1 for example in found["examples"]]
        self.assertGreaterEqual(len(set(lines) & set(self.wrong)), 4, f"{lines}, expected of {self.wrong}")
        options = json.loads(Path("clean/manifest.json").read_text())["options"]
        self.assertEqual(options["drop_suspects"], "run/pair_losses.safetensors")
        again = self.prepared(
            "--vocabulary", "clean", "--drop-suspects", "run/pair_losses.safetensors", "--suspects", 0
        )
        self.assertNotIn("suspect", again.stdout)

    def test_the_file_is_what_its_format_says(self) -> None:
        content = Path("run/pair_losses.safetensors").read_bytes()
        (length,) = struct.unpack("<Q", content[:8])
        header = json.loads(content[8 : 8 + length])
        self.assertEqual(header.pop("__metadata__")["epochs"], "40")
        self.assertEqual(list(header)[:2], ["pairs", "epoch_1"])
        self.assertEqual(len(content), 8 + length + header["epoch_40"]["data_offsets"][1])

    def test_complaints(self) -> None:
        other = ["--vocabulary-size", "100", "--output", "other"]
        call("nmt", "prepare", *TRAIN, *other, check=True)
        for code, words, message in (
            (2, ["--drop-suspects", "run"], "--drop-suspects: expected --vocabulary too"),
            (2, ["--drop-suspects", "run", "--vocabulary", "data", "--dry-run"], "which --dry-run does not make"),
            (1, ["--drop-suspects", "run", "--vocabulary", "other"], "expected --vocabulary with the folder that the"),
            (1, ["--drop-suspects", "data", "--vocabulary", "data"], "data/pair_losses.safetensors"),
            (1, ["--drop-suspects", "toy1.en", "--vocabulary", "data"], "safetensors toy1.en: byte 0"),
            (2, ["--drop-suspects", "absent", "--vocabulary", "data"], "absent"),
            (2, ["--suspects", "2"], "--suspects"),
        ):
            done = self.prepared(*words)
            self.assertEqual(done.returncode, code, f"{words}: {done.stderr}")
            self.assertIn(message, done.stderr)
            self.assertFalse(Path("clean").exists())


if __name__ == "__main__":
    unittest.main()
