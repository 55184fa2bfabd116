"""`nmt prepare`, `evaluate`, `average` and `translate` as programs: what they print, how they end, how they complain."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from system import BIN, toy_corpus  # noqa: E402

CONFIG = """
name: tiny
preset: transformer-tiny
model: {encoder_layers: 1, decoder_layers: 1, width: 16, inner: 32, heads: 2, dropout: 0}
data: {folder: data, tokens_per_update: 400}
training: {stop_after: 4u, precision: f32, threads: 1}
validation: {every: 0, bleu_every: 0}
checkpoint: {every: 2u}
"""


def setUpModule() -> None:
    """A prepared corpus, and a model that was trained for four updates, in the current folder."""
    folder = tempfile.mkdtemp(prefix="babelring-cli-")
    unittest.addModuleCleanup(shutil.rmtree, folder)
    unittest.addModuleCleanup(os.chdir, os.getcwd())
    os.chdir(folder)
    here = Path(".")
    for lines, seed in ((400, 1), (20, 2)):
        toy_corpus(here, lines, seed)
    prepared = nmt("prepare --train toy1.en toy1.de --valid toy2.en toy2.de --test toy2.en toy2.de --output data "
                   "--vocabulary-size 120")
    assert prepared.returncode == 0, prepared.stderr
    Path("config.yaml").write_text(CONFIG, encoding="utf-8")
    trained = subprocess.run([BIN / "worker", "--config", "config.yaml", "--run-dir", "run", "--server", "none"],
                             capture_output=True, text=True)
    assert trained.returncode == 0, trained.stderr
    Path("bad.en").write_bytes(b"the old cat .\nthe \xff dog .\n")
    Path("two.de").write_text("eins .\nzwei .\n", encoding="utf-8")


def nmt(command: str, text: str = "") -> subprocess.CompletedProcess:
    return subprocess.run([BIN / "nmt", *command.split()], input=text, capture_output=True, text=True, timeout=300)


def copy_of_checkpoint(name: str) -> Path:
    shutil.copytree("run/checkpoints/update-00000004", name)
    return Path(name)


class ProgramsTest(unittest.TestCase):

    def succeeds(self, command: str, text: str = "") -> str:
        done = nmt(command, text)
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stderr}")
        return done.stdout

    def complains(self, command: str, code: int, *words: str) -> None:
        """Ends with the code, and with one line on standard error (after what the log says) that has all the words."""
        with self.subTest(command):
            done = nmt(command)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertEqual(done.stdout, "")
            lines = [line for line in done.stderr.splitlines() if " info: " not in line]
            self.assertEqual(len(lines), 1, done.stderr)
            self.assertTrue(lines[0].startswith("nmt: "), lines[0])
            for word in words:
                self.assertIn(word, lines[0])

    def test_wrong_words_are_usage(self) -> None:
        self.complains("", 2, "expected a command: prepare, translate")
        self.complains("tranlsate", 2, "did you mean 'translate'?")
        self.complains("translate --chekpoint run", 2, "did you mean '--checkpoint'?")
        self.complains("translate --checkpoint run --precision f16", 2, "--precision", "f16", "bf16")
        self.complains("translate --checkpoint run --beam 0", 2, "beam: found 0, expected 1")
        self.complains("translate --checkpoint run --n-best 9", 2, "n-best: found 9")
        self.complains("evaluate --checkpoint run", 2, "--data, or --source and --reference")
        self.complains("evaluate --checkpoint run --data data --source toy2.en", 2, "--data, or --source and --reference")
        self.complains("evaluate --checkpoint run --source toy2.en", 2, "--data, or --source and --reference")
        self.complains("prepare --train toy1.en toy1.de", 2, "--output is required")
        self.complains("prepare --train toy1.en --output x", 2, "--train", "two files", "--output")
        self.complains("prepare --train toy1.en toy1.de --output x --vocabulary-size 3", 2, "--vocabulary-size", "16")
        self.complains("average --output x", 2, "checkpoints is required")
        self.complains("average --output x --last 1 run run", 2, "--last takes the folder of one run, found 2")

    def test_outputs_are_opened_when_all_else_is_in_order(self) -> None:
        Path("kept").write_text("the cat .\n", encoding="utf-8")
        self.complains("translate --checkpoint nowhere --output kept", 1, "nowhere: no such folder")
        self.complains("translate --checkpoint run --input kept --output ./kept", 2, "--output: ./kept is the input")
        self.complains("evaluate --checkpoint run --data data --max-sentences 1 --output nowhere/out", 1, "nowhere/out: cannot create")
        self.assertEqual(Path("kept").read_text(encoding="utf-8"), "the cat .\n")

    def test_missing_files_are_named(self) -> None:
        self.complains("prepare --train nowhere.en toy1.de --output x", 1, "nowhere.en: No such file")
        self.complains("prepare --train toy1.en toy1.de --output x --vocabulary nowhere.model", 1, "nowhere.model: No such file")
        self.complains("translate --checkpoint nowhere", 1, "nowhere: no such folder")
        self.complains("translate --checkpoint data", 1, "data: no checkpoint here; expected state.json")
        self.complains("translate --checkpoint run --input nowhere.en", 1, "nowhere.en: cannot be read")
        self.complains("translate --checkpoint run --input data", 1, "data: cannot be read: it is a folder")
        self.complains("translate --checkpoint run --input /proc/self/mem", 1, "/proc/self/mem: cannot be read after line 0")
        self.complains("translate --checkpoint run --output nowhere/out.de", 1, "nowhere/out.de: cannot be written")
        self.complains("evaluate --checkpoint run --data nowhere", 1, "nowhere: no manifest.json")
        self.complains("evaluate --checkpoint run --data data --set nowhere", 1, "no set 'nowhere', only train, valid, test")
        self.complains("evaluate --checkpoint run --source toy2.en --reference nowhere.de", 1, "nowhere.de: No such file")
        self.complains("average --output none nowhere", 1, "nowhere/state.json: No such file")
        self.complains("average --output bad.en/mean run/checkpoints/update-00000004", 1, "average: ", "bad.en: Not a directory")
        self.complains("average --output none --last 3 run", 1, "run: found 2 checkpoints, expected 3")

    def test_unequal_files_are_refused(self) -> None:
        self.complains("prepare --train toy1.en toy2.de --output x", 1, "toy1.en has 400 lines, toy2.de has 20", "--unequal truncate")
        self.complains("evaluate --checkpoint run --source toy1.en --reference toy2.de", 1, "toy1.en has 400 lines, toy2.de has 20")
        self.succeeds("prepare --train toy1.en toy2.de --output x --vocabulary data/spm.model --unequal truncate")

    def test_invalid_text_is_named_by_file_and_line(self) -> None:
        self.complains("translate --checkpoint run --input bad.en", 1, "bad.en:2: byte 5 is not UTF-8")
        self.complains("evaluate --checkpoint run --source bad.en --reference two.de", 1, "bad.en:2: byte 5 is not UTF-8")
        report = json.loads(self.succeeds("prepare --train bad.en two.de --output x --vocabulary data/spm.model --json"))
        found = report["sets"][0]["findings"]["invalid_utf8"]
        self.assertEqual(found["count"], 1)
        self.assertIn("bad.en:2", found["examples"][0])

    def test_damaged_checkpoints_are_refused(self) -> None:
        weights = copy_of_checkpoint("flipped") / "weights.safetensors"
        content = bytearray(weights.read_bytes())
        content[-100] ^= 1
        weights.write_bytes(content)
        (copy_of_checkpoint("cut") / "weights.safetensors").write_bytes(content[:-8])
        (copy_of_checkpoint("torn") / "state.json").write_text('{"format":', encoding="utf-8")
        (copy_of_checkpoint("partial") / "spm.model").unlink()
        for command in ("translate --checkpoint {}", "evaluate --data data --checkpoint {}", "average --output none {}"):
            self.complains(command.format("flipped"), 1, "flipped", "weights.safetensors: SHA-256 is")
            self.complains(command.format("cut"), 1, "cut", "weights.safetensors", "bytes, expected")
            self.complains(command.format("torn"), 1, "torn/state.json", "incomplete JSON")
            self.complains(command.format("partial"), 1, "partial/spm.model: No such file")

    def test_vocabularies_must_be_the_models_own(self) -> None:
        self.succeeds("prepare --train toy1.en toy1.de --test toy2.en toy2.de --output other --vocabulary-size 100")
        self.complains("evaluate --checkpoint run --data other --set test", 1, "other: prepared with the vocabulary")
        self.complains("prepare --train toy1.en toy1.de --output x --vocabulary toy1.en", 1, "toy1.en: not a SentencePiece model")

    def test_bf16_on_a_processor_without_it_runs_or_says_so_at_once(self) -> None:
        old = {"ONEDNN_MAX_CPU_ISA": "AVX2", "BABELRING_CPU_ISA": "avx2"}
        worker = [BIN / "worker", "--config", "config.yaml", "--server", "none"]
        for command, way_out in (([BIN / "nmt", "translate", "--checkpoint", "run", "--precision", "bf16"], "--precision f32"),
                                 ([*worker, "--run-dir", "old", "training.precision=bf16"], "training.precision=f32")):
            done = subprocess.run(command, input="the cat .\n", capture_output=True, text=True, env={**os.environ, **old})
            if done.returncode == 0:
                continue  # computed another way
            self.assertEqual(done.returncode, 1)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertRegex(done.stderr, f"precision: cpu .*avx2.* has no products of bf16 .*; use {way_out}")
            self.assertFalse(Path("old").exists(), "nothing was begun")
        subprocess.run([*worker, "--run-dir", "old32", "training.precision=f32"], env={**os.environ, **old}, check=True,
                       capture_output=True)

    def test_a_run_whose_last_checkpoint_cannot_be_written_fails(self) -> None:
        disk = Path("full/checkpoints")
        disk.mkdir(parents=True)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True, text=True)
        if mounted.returncode != 0:
            self.skipTest(f"cannot mount a tmpfs: {mounted.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "-l", disk.resolve()], check=False)
        mpirun = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", "2", BIN / "worker", "--config", "config.yaml", "--run-dir", "full", "--server", "none"]
        done = subprocess.run(mpirun, capture_output=True, text=True, timeout=600,
                              env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, "error: checkpoint of update 2 was not written, training goes on: .*No space left on device")
        self.assertRegex(done.stderr, "error: checkpoint of update 4 was not written, and what was trained since update 0 is lost: "
                                      ".*No space left on device")
        self.assertIn('"event":"failed"', Path("full/spool/attempt-1/rank-0.jsonl").read_text(encoding="utf-8"))

    def test_a_run_folder_that_cannot_be_made_is_named(self) -> None:
        for folder in ("bad.en", "bad.en/run", "/proc/run"):
            done = subprocess.run([BIN / "worker", "--config", "config.yaml", "--server", "none", "--run-dir", folder], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn(f"run folder {folder}: cannot be made: ", done.stderr)

    def test_translate_answers_each_line(self) -> None:
        text = "the old cat sees the dog .\n\nthe green tree .\n"
        lines = self.succeeds("translate --checkpoint run --beam 2", text).split("\n")
        self.assertEqual(len(lines), 4)
        self.assertEqual(lines[1], "")
        answers = [json.loads(line) for line in self.succeeds("translate --checkpoint run --beam 2 --n-best 2 --json", text).splitlines()]
        self.assertEqual([answer["line"] for answer in answers], [1, 2, 3])
        self.assertEqual([answer["text"] for answer in answers], lines[:3])
        self.assertEqual(len(answers[0]["n_best"]), 2)
        self.assertEqual(self.succeeds("translate --checkpoint run --output out.de --beam 2", text), "")
        self.assertEqual(Path("out.de").read_text(encoding="utf-8").split("\n"), lines)

    def test_evaluate_and_average_go_together(self) -> None:
        self.assertIn("mean of 2 checkpoints", self.succeeds("average --output mean --last 2 run"))
        self.complains("average --output mean --last 2 run", 2, "mean exists already")
        losses = {}
        for checkpoint in ("run/checkpoints/update-00000002", "run/checkpoints/update-00000004", "mean"):
            out = self.succeeds(f"evaluate --checkpoint {checkpoint} --data data --max-sentences 3 --beam 1 --json")
            result = json.loads(out.splitlines()[-1])
            self.assertEqual((result["set"], result["sentences"]), ("test", 3))
            self.assertIn("tok:13a", result["signature"])
            self.assertTrue(0 <= result["teacher_forced_bleu"] <= 100)
            losses[checkpoint] = result["nll"]
        first, last, mean = losses.values()
        self.assertLess(last, first)
        self.assertLess(abs(mean - (first + last) / 2), abs(first - last) / 2, "between the two it is the mean of")
        table = self.succeeds("evaluate --checkpoint mean --source toy2.en --reference toy2.de --max-sentences 2 --beam 1")
        self.assertIn("BLEU = ", table)
        self.assertIn("teacher-forced BLEU ", table)


if __name__ == "__main__":
    unittest.main()
