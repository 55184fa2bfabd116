"""Corpora with names: `nmt prepare --as`, `data.mix`, and the losses by corpus of a run."""

from __future__ import annotations

import json
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from cases import FolderTest, TINY  # noqa: E402
from system import BIN, call, spool_records, toy_corpus, wait_for  # noqa: E402

STAGES = "data.mix=[{until: 50%, clean: 0.3, crawl: 0.7}, {clean: 1}]"


def files(lines: int, seed: int, folder: str) -> list[str]:
    Path(folder).mkdir(exist_ok=True)
    return [str(file) for file in toy_corpus(Path(folder), lines, seed)]


class NamedCorporaTest(FolderTest):
    def setUp(self) -> None:
        super().setUp()
        self.change_to_folder()
        self.clean, self.crawl, self.valid = files(150, 1, "a"), files(300, 2, "b"), files(20, 3, "v")

    def prepare(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        words = (*words, "--output", "data", "--vocabulary-size", "120")
        return call("nmt", "prepare", "--valid", *self.valid, *words, check=check)

    def prepare_two(self) -> subprocess.CompletedProcess[str]:
        tagged = ["--train", *self.crawl, "--as", "crawl", "--tag", "<BT>"]
        return self.prepare("--train", *self.clean, "--as", "clean", *tagged)

    def train(self, folder: str, *overrides: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        Path("config.yaml").write_text(TINY, encoding="utf-8")
        words = ["--config", "config.yaml", "--run-dir", folder, "--server", "none", *overrides]
        return call("worker", *words, check=check)

    def test_losses_by_corpus_are_logged_and_recorded(self) -> None:
        done = self.prepare_two()
        self.assertRegex(done.stdout, r"train: 450 pairs read, \d+ kept\n")
        self.assertRegex(done.stdout, r"train, clean: 150 pairs read, \d+ kept\n")
        self.assertRegex(done.stdout, r"train, crawl: 300 pairs read, \d+ kept\n")
        options = [
            STAGES,
            "training.stop_after=30u",
            "training.log_every=5u",
            "checkpoint.every=4u",
            "tensorboard=true",
        ]
        whole = self.train("whole", *options)
        self.assertIn("mixed by sentences: clean 30 %, crawl 70 % until 15 updates; clean 100 %", whole.stderr)
        self.assertRegex(whole.stderr, r"update 5 .*by corpus: clean [0-9.]+, crawl [0-9.]+, ")
        steps = [
            record for record in spool_records(Path("whole/spool/attempt-1/rank-0.jsonl")) if record["kind"] == "step"
        ]
        named = {step["update"]: step for step in steps if "corpus_loss" in step}
        self.assertEqual(sorted(named), [5, 10, 15, 20, 25, 30])
        self.assertEqual(sorted(named[5]["corpus_loss"]), ["clean", "crawl"])
        self.assertEqual(sorted(named[20]["corpus_tokens"]), ["clean"])
        events = b"".join(file.read_bytes() for file in Path("whole/tensorboard").iterdir())
        self.assertIn(b"train_loss_by_corpus/crawl", events)

    def test_a_killed_run_with_stages_goes_on_with_the_same_bits(self) -> None:
        self.prepare_two()
        options = ["data.mix=[{until: 15u, clean: 0.3, crawl: 0.7}, {clean: 1}]", "checkpoint.every=4u"]
        Path("config.yaml").write_text(TINY, encoding="utf-8")
        words = ["--config", "config.yaml", "--run-dir", "parts", "--server", "none", *options]
        endless = [BIN / "worker", *words, "training.stop_after=1000000u"]
        with subprocess.Popen(endless, stderr=subprocess.DEVNULL) as killed:
            try:
                wait_for("a checkpoint", lambda: list(Path("parts/checkpoints").glob("update-*")))
            finally:
                killed.kill()
        newest = max(int(folder.name.split("-")[1]) for folder in Path("parts/checkpoints").glob("update-*"))
        for run in ("parts", "whole"):
            self.train(run, *options, f"training.stop_after={newest + 20}u")
        for name in ("weights.safetensors", "optimizer.safetensors"):
            parts, whole = (
                Path(run, f"checkpoints/update-{newest + 20:08}", name).read_bytes() for run in ("parts", "whole")
            )
            self.assertEqual(parts, whole, name)

    def test_a_wrong_mix_is_refused_before_training(self) -> None:
        self.prepare_two()
        refused = {
            "data.mix={crwl: 1}": "data.mix: unknown corpus 'crwl', data has clean, crawl; did you mean 'crawl'?",
            "data.mix={clean: 0}": "data.mix: clean: expected a weight above 0, found '0'",
            "data.mix=clean": "override data.mix: expected a map such as {a: 1, b: 2} or a list of maps, found 'clean'",
        }
        for override, message in refused.items():
            done = self.train("run", override, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(message, done.stderr)
            self.assertFalse(Path("run").exists())
        self.prepare("--train", *self.clean)
        done = self.train("run", "data.mix_temperature=5", check=False)
        message = (
            "data.mix_temperature: the training set of data has no named corpora; expected a folder of `nmt prepare"
        )
        self.assertIn(message, done.stderr)
        self.assertEqual(done.returncode, 2)

    def test_wrong_names_and_tags_are_refused(self) -> None:
        clean, crawl = ["--train", *self.clean], ["--train", *self.crawl]
        for words, message in (
            (["--as", "a", *clean], "--as: found 'a' before any --train"),
            ([*clean, "--as", "a b"], "--as: found 'a b', expected 1 to 40 letters, digits, _ or -, and not until"),
            ([*clean, "--as", "until"], "--as: found 'until', expected 1 to 40 letters"),
            ([*clean, "--as", "a", "--as", "b"], "--as: found 'a' and 'b' for one --train, expected one of them"),
            ([*clean, "--as", "a", *crawl], f"--train: '{self.crawl[0]}' has no name but other text has one"),
            ([*clean, "--tag", "<BT>"], f"--train: '{self.clean[0]}' has no name but a --tag, expected --as NAME"),
            ([*clean, "--as", "a", "--tag", "x y"], "--tag: found 'x y', expected text without space"),
            ([*clean, "--as", "a", *crawl, "--as", "a", "--tag", "<B>"], "--tag: found none and '<B>' for corpus a"),
            (
                [*clean, "--as", "a", *clean, "--as", "b"],
                "--as: all files of corpus b were given before, expected another file",
            ),
        ):
            done = self.prepare(*words, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(message, done.stderr)
            self.assertFalse(Path("data").exists())

    def test_texts_of_one_name_are_one_corpus(self) -> None:
        done = self.prepare("--train", *self.clean, "--as", "a", "--train", *self.crawl, "--as", "a", "--json")
        report = json.loads(done.stdout)["sets"][0]
        self.assertEqual([corpus["corpus"] for corpus in report["corpora"]], ["a"])
        self.assertEqual(report["corpora"][0]["pairs_read"], 450)


if __name__ == "__main__":
    unittest.main()
