"""`nmt score` as a program. The numbers of texts and references are held against sacreBLEU's in tests/nmt/metrics, too."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from cases import NmtTest, nmt, train_tiny_model  # noqa: E402
from system import BIN, wait_for  # noqa: E402


def setUpModule() -> None:
    train_tiny_model()
    Path("bad.en").write_bytes(b"the old cat .\nthe \xff dog .\n")
    Path("two.de").write_text("eins .\nzwei .\n", encoding="utf-8")


class ScoreTest(NmtTest):
    PAIRS = "score --checkpoint run --source toy2.en --target toy2.de"

    def test_scores_of_pairs_sum_to_the_loss_of_evaluate(self) -> None:
        out = self.succeeds("evaluate --checkpoint run --source toy2.en --reference toy2.de --beam 1 --json")
        evaluated = json.loads(out.splitlines()[-1])
        pairs = [json.loads(line) for line in self.succeeds(f"{self.PAIRS} --tokens --json").splitlines()]
        self.assertEqual([pair["line"] for pair in pairs], list(range(1, 21)))
        self.assertEqual(sum(pair["tokens"] for pair in pairs), evaluated["target_tokens"])
        nats = -sum(pair["log_probability"] for pair in pairs) / evaluated["target_tokens"]
        self.assertAlmostEqual(nats, evaluated["nll"], places=6)
        self.assertNotAlmostEqual(evaluated["loss"], nats, places=5, msg="without label smoothing")
        for pair in pairs:
            pieces = pair["pieces"]
            self.assertEqual((len(pieces), pieces[-1]["piece"]), (pair["tokens"], "</s>"))
            self.assertEqual(sum(piece["log_probability"] for piece in pieces), pair["log_probability"])
        done = nmt(self.PAIRS)
        summary = f"20 pairs, {evaluated['target_tokens']} target tokens: {evaluated['nll']:.4f} nats a token"
        self.assertIn(f"{summary} (perplexity {evaluated['perplexity']:.2f})", done.stderr)
        expected = [f"{pair['log_probability']:.6f}\t{pair['tokens']}" for pair in pairs]
        self.assertEqual(done.stdout.splitlines(), expected)
        table = self.succeeds(f"{self.PAIRS} --tokens").splitlines()
        for line, pair in zip(table, pairs, strict=True):
            words = [f"{piece['piece']}\t{piece['log_probability']:.6f}" for piece in pair["pieces"]]
            self.assertEqual(line.split("\t", 2)[2], "\t".join(words))

    def test_scores_of_pairs_depend_on_neither_batches_nor_threads(self) -> None:
        expected = self.succeeds(f"{self.PAIRS} --tokens --json")
        for options in ("--batch-tokens 1", "--batch-tokens 33 --threads 2", "--threads 1", "--device cpu"):
            self.assertEqual(self.succeeds(f"{self.PAIRS} --tokens --json {options}"), expected, options)
        Path("toy2.de.gz").write_bytes(gzip.compress(Path("toy2.de").read_bytes()))
        self.assertEqual(self.succeeds(f"{self.PAIRS.replace('toy2.de', 'toy2.de.gz')} --tokens --json"), expected)
        columns = zip(Path("toy2.en").read_text().splitlines(), Path("toy2.de").read_text().splitlines(), strict=True)
        Path("both.tsv").write_text("".join(f"{target}\t{source}\n" for source, target in columns))
        with Path("both.tsv").open("a", encoding="utf-8") as file:
            file.write("no column\n")
        command = "score --checkpoint run --columns 2,1 --tokens --json --source"
        self.assertEqual(self.succeeds(f"{command} both.tsv"), expected)
        self.assertIn("left out: 1 without both sides, the first both.tsv:21", nmt(f"{command} both.tsv").stderr)
        both = subprocess.run(
            ["bash", "-c", f"{BIN}/nmt {command} <(gzip -c both.tsv)"], capture_output=True, text=True
        )
        self.assertEqual(both.stdout, expected)
        piped = f"{BIN}/nmt {self.PAIRS.replace('toy2.en', '<(cat toy2.en)')} --tokens --json"
        done = subprocess.run(["bash", "-c", piped], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, expected)

    def test_pairs_below_a_limit_are_kept(self) -> None:
        pairs = [json.loads(line) for line in self.succeeds(f"{self.PAIRS} --json").splitlines()]
        nats = [-pair["log_probability"] / pair["tokens"] for pair in pairs]
        limit = sorted(nats)[7]
        done = nmt(f"{self.PAIRS} --json --keep-below {limit!r} --output kept.en kept.de")
        self.assertEqual([json.loads(line) for line in done.stdout.splitlines()], pairs)
        self.assertIn("kept 7 of 20 pairs, dropped 13", done.stderr)
        for side in ("en", "de"):
            lines = Path(f"toy2.{side}").read_text(encoding="utf-8").splitlines(keepends=True)
            expected = "".join(line for line, nat in zip(lines, nats, strict=True) if nat < limit)
            self.assertEqual(Path(f"kept.{side}").read_text(encoding="utf-8"), expected)
        self.assertEqual(list(Path().glob("*.tmp.*")), [])

    def test_kept_pairs_are_written_both_or_not_at_all(self) -> None:
        os.mkfifo("late.en")
        command = f"{self.PAIRS.replace('toy2.en', 'late.en')} --keep-below 99 --output both.en both.de"
        with subprocess.Popen(
            [BIN / "nmt", *command.split()], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as program:
            with Path("late.en").open("wb") as pipe:  # opens once the program reads
                wait_for("the files aside", lambda: len(list(Path().glob("both.*.tmp.*"))) == 2)
                Path("both.de/occupied").mkdir(parents=True)
                pipe.write(Path("toy2.en").read_bytes())
            error = program.communicate()[1]
        self.assertEqual(program.returncode, 1, error)
        self.assertIn("write both.de: rename: ", error)
        self.assertEqual([path.name for path in Path().glob("both.*")], ["both.de"])

    def test_pairs_that_cannot_be_scored_are_refused(self) -> None:
        Path("there").write_text("kept\n", encoding="utf-8")
        Path("long.de").write_text("eins .\n" + "zwei " * 300 + ".\n", encoding="utf-8")
        Path("no-lines").touch()
        many = b"eins .\n" * 12_000  # more than are read at a time
        Path("many.en").write_bytes(many + b"eins .\n")
        Path("many.de").write_bytes(many + b"eins \xff\n")
        modes = "expected --reference and --hypothesis, or --checkpoint, --source and --target"
        keep = f"{self.PAIRS} --keep-below 1 --output"
        self.complain_all(
            f"""
2 | score | score: {modes}
2 | score --json | score: {modes}
2 | score --reference toy2.de | --hypothesis is required; {modes}
2 | score --checkpoint run --source toy2.en | --target is required; {modes}
2 | score --tokens | --checkpoint is required; {modes}
2 | {self.PAIRS} --lowercase | score: found --lowercase and --checkpoint, {modes}
2 | score --reference toy2.de --hypothesis toy2.de --truncate | score: found --reference and --truncate, {modes}
2 | {self.PAIRS} --keep-below 1 | --keep-below requires --output
2 | {self.PAIRS} --output px py | --output requires --keep-below
2 | {self.PAIRS} --keep-below 0 --output px py | --keep-below: found 0, expected a number above 0
2 | {keep} px there | --output: there exists already
2 | {keep} px ./px | --output: found px twice, expected two files
1 | {keep} px nowhere/py | write nowhere/py: cannot create
1 | score --checkpoint run --source toy1.en --target toy2.de | toy1.en has 400 lines, toy2.de has 20; expected equal
1 | score --checkpoint run --source bad.en --target two.de --keep-below 9 --output px py | bad.en:2: byte 5 is not UTF-8
1 | score --checkpoint run --source many.en --target many.de | many.de:12001: byte 6 is not UTF-8
1 | score --checkpoint run --source two.de --target long.de | long.de:2: | pieces, expected at most 255, data.max_length
1 | score --checkpoint run --source no-lines --target no-lines | no-lines has no lines; expected a source per line
1 | score --checkpoint run --source nowhere --target toy2.de | cannot open nowhere: No such file
1 | score --checkpoint nowhere --source toy2.en --target toy2.de | nowhere: no such folder
1 | score --checkpoint run --source toy2.en --target run/checkpoints/best/weights.safetensors | is not UTF-8
"""
        )
        self.assertEqual(Path("there").read_text(encoding="utf-8"), "kept\n")
        self.assertEqual([name for name in ("px", "py") if Path(name).exists()] + list(Path().glob("*.tmp.*")), [])
        done = nmt("score --checkpoint run --source two.de --target long.de --truncate")
        self.assertEqual(done.stdout.split()[3], "256", "255 pieces and </s>")
        self.assertIn("--truncate: cut 1 line, the first long.de:2", done.stderr)

    def test_the_pieces_of_a_sentencepiece_model_are_tokens_of_bleu(self) -> None:
        pairs = [json.loads(line) for line in self.succeeds(f"{self.PAIRS} --json").splitlines()]
        out = self.succeeds("score --reference toy2.de --hypothesis toy2.de --json --tokenize spm:data/spm.model")
        score = json.loads(out)["scores"][0]
        digest = hashlib.sha256(Path("data/spm.model").read_bytes()).hexdigest()
        self.assertIn(f"|tok:spm[{digest[:12]}]|", score["signature"])
        pieces = sum(pair["tokens"] - 1 for pair in pairs)  # without </s>
        self.assertIn(f"hyp_len = {pieces} ref_len = {pieces})", score["text"])
        evaluated = self.succeeds(
            "evaluate --checkpoint run --source toy2.en --reference toy2.de --tokenize flores200:data/spm.model"
        )
        self.assertIn(f"|tok:flores200[{digest[:12]}]|", evaluated)


GOLDEN = json.loads((Path(__file__).resolve().parents[1] / "golden/significance.json").read_text(encoding="utf-8"))


class TextScoreTest(NmtTest):
    """Texts against references, by the golden corpus of three systems and that of two with three references."""

    def setUp(self) -> None:
        super().setUp()
        self.change_to_folder()
        for case in GOLDEN["cases"]:
            for kind in ("references", "systems"):
                for k, lines in enumerate(case[kind]):
                    text = "".join(line + "\n" for line in lines)
                    Path(f"{case['name']}.{kind[0]}{k}").write_text(text, encoding="utf-8")

    def expected(self, name: str, metric: str) -> dict:
        case = next(case for case in GOLDEN["cases"] if case["name"] == name)
        return next(entry for entry in case["expected"] if entry["metric"] == metric and not entry["options"])

    def test_intervals_are_printed_as_sacrebleu_prints_them(self) -> None:
        for metric in ("bleu", "chrf", "ter"):
            golden = self.expected("de40", metric)["systems"][0]
            out = self.succeeds(f"score --reference de40.r0 --hypothesis de40.s0 --metrics {metric} --confidence")
            text, signature = out.splitlines()
            self.assertEqual(text, golden["ci_text"])
            self.assertEqual(signature.split("version:")[0], golden["ci_signature"].split("version:")[0])

    def test_systems_are_compared_with_the_first(self) -> None:
        command = "score --reference de40.r0 --hypothesis de40.s0,de40.s1 --hypothesis de40.s2 --metrics bleu,chrf,ter"
        for test, samples in (("bs", 1000), ("ar", 1000)):
            scores = json.loads(self.succeeds(f"{command} --paired {test} --samples {samples} --json"))
            self.assertEqual([system["name"] for system in scores["systems"]], ["de40.s0", "de40.s1", "de40.s2"])
            for k, metric in enumerate(("bleu", "chrf", "ter")):
                golden = self.expected("de40", metric)
                found = [system["scores"][k] for system in scores["systems"]]
                self.assertNotIn("p_value", found[0])
                self.assertEqual([score["p_value"] for score in found[1:]], [entry["p"] for entry in golden[test][1:]])
                self.assertEqual([score.get("best", False) for score in found], [True, False, False])
                for score, entry in zip(found, golden[test], strict=True):
                    self.assertAlmostEqual(score["score"], entry["score"], places=9)
                    self.assertEqual("mean" in score, test == "bs")
                    if test == "bs":
                        self.assertAlmostEqual(score["mean"], entry["mean"], places=9)
                        self.assertAlmostEqual(score["half_width"], entry["ci"], places=9)
                signature = golden[f"{test}_signature"].split("version:")[0]
                self.assertEqual(found[0]["signature"].split("version:")[0], signature)

    def test_a_table_shows_the_best_the_p_values_and_equal_systems(self) -> None:
        out = self.succeeds(
            "score --reference de40.r0 --hypothesis de40.s0 de40.s2 de40.s0 --metrics bleu,ter --paired bs"
        )
        header, *rows = [re.split("  +", line.strip()) for line in out.splitlines()[:4]]
        self.assertEqual(header, ["system", "BLEU", "mean ± 95 %", "p", "TER", "mean ± 95 %", "p"])
        bleu, ter = (self.expected("de40", metric)["bs"] for metric in ("bleu", "ter"))
        self.assertEqual(rows[0][1], f"{bleu[0]['score']:.2f} best")
        self.assertEqual(rows[0][3], "baseline")
        self.assertEqual(rows[1][1:4], [f"{bleu[2]['score']:.2f}", "58.83 ± 6.10", f"{bleu[2]['p']:.4f}*"])
        self.assertEqual(rows[1][-1], f"{ter[2]['p']:.4f}*")
        self.assertEqual([row[-1] for row in (rows[0], rows[2])], ["baseline", "equal"])

    def test_draws_follow_the_seed(self) -> None:
        command = "score --reference de40.r0 --hypothesis de40.s0 --confidence --json"
        usual, same, other = (self.succeeds(command + seed) for seed in ("", " --seed 12345", " --seed 1"))
        self.assertEqual(usual, same)
        self.assertNotEqual(usual, other)
        self.assertIn("|bs:1000|seed:1|", other)


if __name__ == "__main__":
    unittest.main()
