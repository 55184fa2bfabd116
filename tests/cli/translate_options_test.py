"""Options of `nmt translate` and of its service, which are made from one description."""

from __future__ import annotations

import json
import re
import sys
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from cases import NmtTest, nmt, train_tiny_model  # noqa: E402
from system import call, spool_records  # noqa: E402

LINES = ["the old cat sees the dog .", "the green house likes the river .", ""]
TRANSLATIONS = ["das cate oldes doge seest .", "das housee greenes rivere likest .", ""]
TRANSLATE = "translate --checkpoint trained"


def setUpModule() -> None:
    train_tiny_model()
    keys = "training.stop_after=600u checkpoint.every=600u optimizer.learning_rate=0.01 optimizer.warm_up=50u"
    words = ["--run-dir", "trained", "--server", "none", *keys.split(), "model.width=32", "model.inner=64"]
    call("worker", "--config", "config.yaml", *words, check=True)
    for name, text in {
        "source.en": "\n".join(LINES) + "\n",
        "strange.txt": "\u65e5\u672c\n",
        "one-line.txt": "das\n",
        "one-each.txt": "das\ndas\n\n",
        "long-prefix.txt": "das cate oldes doge seest .\n\n\n",
        "no-tab.tsv": "cat\tcate\ndog doge\n",
        "empty-side.tsv": "cat\tcate\ndog\t\n",
        "twice.tsv": "cat\tcate\ncat\tdoge\n",
        "strange.tsv": "cat\t\u65e5\u672c\n",
    }.items():
        Path(name).write_text(text, encoding="utf-8")


class TranslateOptionsTest(NmtTest):
    def by_command(self, options: str = "", lines: list[str] = LINES) -> list[dict[str, Any]]:
        out = self.succeeds(f"{TRANSLATE} --json {options}", "\n".join(lines) + "\n")
        return [json.loads(line) for line in out.splitlines()]

    def by_request(self, lines: list[str] = LINES, **members: Any) -> list[dict[str, Any]]:
        out = self.succeeds(f"{TRANSLATE} --serve", json.dumps({"text": lines, **members}) + "\n")
        return json.loads(out.splitlines()[1])["items"]

    def test_wrong_options_are_usage(self) -> None:
        self.complain_all(
            """
2 | translate --checkpoint trained --min-length -1 | --min-length: found -1, expected 0 to 10000
2 | translate --checkpoint trained --repetition-penalty 0.5 | --repetition-penalty: found 0.5, expected 1 to 100
2 | translate --checkpoint trained --min-length 5 --max-length-factor 0 --max-length-extra 5 | min-length: found 5
2 | translate --checkpoint trained --suppress nowhere | --suppress: nowhere: no such file
2 | translate --checkpoint trained --suppress strange.txt --output never | suppress: found '\u65e5\u672c', for which
2 | translate --checkpoint trained --glossary no-tab.tsv | no-tab.tsv:2: found 'dog doge', expected a term, a tab
2 | translate --checkpoint trained --glossary empty-side.tsv | empty-side.tsv:2: found 'dog
2 | translate --checkpoint trained --glossary twice.tsv | glossary: term 2: found 'cat', 'doge', but term 1 is the same
2 | translate --checkpoint trained --glossary strange.tsv --output never | glossary: term 1: | the vocabulary lacks
2 | translate --checkpoint trained --prefix nowhere | --prefix: nowhere: no such file
2 | translate --checkpoint trained --word-scores | --word-scores: found no --json
2 | translate --checkpoint trained --piece-scores | --piece-scores: found no --json
2 | translate --checkpoint trained --n-best-format moses --json | --n-best-format: found moses and --json
2 | translate --checkpoint trained --keep-spacing --n-best 2 | --keep-spacing: found n-best lists with tabs
2 | translate --checkpoint trained --serve --prefix one-line.txt | --prefix
"""
        )
        self.assertFalse(Path("never").exists())

    def test_a_request_has_the_options_of_the_command(self) -> None:
        plain = self.by_command()
        self.assertEqual([line["text"] for line in plain], TRANSLATIONS)
        word = "cate"
        Path("words.txt").write_text(f"{word}\n\u2581{word[0]}\n", encoding="utf-8")
        for options, members in (
            ("--min-length 12 --beam 2", {"min_length": 12, "beam": 2}),
            ("--no-repeat-ngram 1 --length-formula gnmt", {"no_repeat_ngram": 1, "length_formula": "gnmt"}),
            ("--repetition-penalty 5 --max-length-factor 1", {"repetition_penalty": 5, "max_length_factor": 1}),
            ("--suppress words.txt", {"suppress": [word, f"\u2581{word[0]}"]}),
        ):
            by_command = self.by_command(options)
            by_request = self.by_request(**members)
            self.assertNotEqual([line["n_best"] for line in by_command], [line["n_best"] for line in plain], options)
            self.assertEqual([item["hyp"] for item in by_request], [line["text"] for line in by_command], options)
            for item, line in zip(by_request, by_command, strict=True):
                self.assertEqual(len(item["nbest"]), len(line["n_best"]))
                for one, other in zip(item["nbest"], line["n_best"]):
                    self.assertAlmostEqual(one["score"], other["score"], places=4)
        self.assertNotIn(word, self.by_command("--suppress words.txt")[0]["text"].split())

    def test_a_prefix_is_continued(self) -> None:
        prefixes = ["das cate old", "das gre", ""]
        Path("begin.txt").write_text("\n".join(prefixes) + "\n", encoding="utf-8")
        by_command = self.by_command("--prefix begin.txt")
        self.assertEqual(by_command[0]["text"], TRANSLATIONS[0], "the first half of the best translation gives it all")
        self.assertTrue(by_command[1]["text"].startswith("das gre"), by_command[1])
        self.assertNotEqual(by_command[1]["text"], TRANSLATIONS[1])
        self.assertEqual(by_command[2]["text"], "")
        by_request = self.by_request(prefix=prefixes)
        self.assertEqual([item["hyp"] for item in by_request], [line["text"] for line in by_command])
        for end in range(len(TRANSLATIONS[0]) + 1):
            [item] = self.by_request(LINES[:1], prefix=[TRANSLATIONS[0][:end]], beam=1)
            self.assertEqual(item["hyp"], TRANSLATIONS[0], f"after {end} characters")
        [cut] = self.by_request(LINES[:1], prefix=["das cate "], beam=1)
        self.assertTrue(cut["hyp"].startswith("das cate "))
        self.complains_of_request({"prefix": ["das"]}, "prefix: found 1 lines, expected as many as those of text, 3")
        self.complains_of_request({"prefix": "das"}, "prefix: expected an array of 1 to 1024 lines")
        long = {"prefix": TRANSLATIONS, "max_length_factor": 0, "max_length_extra": 5}
        self.complains_of_request(long, "prefix[0]: found ", " pieces, expected fewer than max-length-factor and")

    def test_a_wrong_prefix_leaves_the_lines_before_it(self) -> None:
        begins = ["das", "\u65e5", "das"]
        Path("wrong.txt").write_text("\n".join(begins) + "\n", encoding="utf-8")
        Path("short.txt").write_text("das\n", encoding="utf-8")
        Path("bytes.txt").write_bytes(b"das\n\xff\n\n")
        Path("at-once.txt").write_text("\u65e5\n\n\n", encoding="utf-8")
        [first, *_] = self.succeeds(f"{TRANSLATE} --input source.en --prefix one-each.txt").splitlines()
        for file, code, words, expected in (
            ("wrong.txt", 2, "wrong.txt:2: found '\u65e5', which has characters that the vocabulary lacks", [first]),
            ("at-once.txt", 2, "at-once.txt:1: found", []),
            ("short.txt", 1, "short.txt: found 1 lines, expected one for each line of the input", [first]),
            ("bytes.txt", 1, "bytes.txt:2: byte 1 is not UTF-8", [first]),
        ):
            for more in ("", " --buffer-lines 1", " --buffer-lines 2"):
                Path("out.txt").unlink(missing_ok=True)
                self.complains(f"{TRANSLATE} --input source.en --output out.txt --prefix {file}{more}", code, words)
                self.assertEqual(Path("out.txt").read_text(encoding="utf-8").splitlines(), expected, file + more)

    def test_a_wrong_prefix_fails_its_request_alone(self) -> None:
        requests = [
            {"id": 1, "text": LINES[:1], "prefix": ["das"]},
            {"id": 2, "text": LINES[:2], "prefix": ["das", "\u65e5"], "stream": True},
            {"id": 3, "text": LINES[:1], "prefix": ["das"], "stream": True},
        ]
        lines = self.succeeds(f"{TRANSLATE} --serve", json.dumps(requests) + "\n").splitlines()[1:]
        answers = [json.loads(line) for line in lines]
        [refused] = [answer for answer in answers if answer["id"] == 2]
        self.assertEqual(
            refused["error"]["detail"], "prefix[1]: found '\u65e5', which has characters that the vocabulary lacks"
        )
        [expected] = self.by_request(LINES[:1], prefix=["das"])
        whole = {answer["id"]: answer["items"] for answer in answers if "items" in answer}
        self.assertEqual(whole, {1: [expected], 3: [expected]})

    def complains_of_request(self, members: dict[str, Any], *words: str) -> None:
        out = self.succeeds(f"{TRANSLATE} --serve", json.dumps({"text": LINES} | members) + "\n")
        error = json.loads(out.splitlines()[1])["error"]
        self.assertEqual(error["code"], "bad_request")
        for word in words:
            self.assertIn(word, error["detail"])

    def test_n_best_lists_have_the_form_of_moses(self) -> None:
        tabs = self.succeeds(f"{TRANSLATE} --n-best 2", "\n".join(LINES) + "\n").splitlines()
        moses = self.succeeds(f"{TRANSLATE} --n-best 2 --n-best-format moses", "\n".join(LINES) + "\n").splitlines()
        whole = [one for line in self.by_command("--n-best 2") for one in line["n_best"]]
        self.assertEqual(len(moses), 4)
        for line, other, one in zip(moses, tabs, whole, strict=True):
            number, text, feature, score = line.split(" ||| ")
            self.assertEqual([str(int(number) + 1), score, text], [other.split("\t")[at] for at in (0, 2, 3)])
            self.assertEqual(feature, f"F0= {one['log_probability']:.6f}")

    def test_pieces_and_words_have_scores(self) -> None:
        by_command = self.by_command("--piece-scores --word-scores --n-best 2")
        by_request = self.by_request(piece_scores=True, word_scores=True, nbest=2)
        self.assertEqual(by_command[2]["n_best"], [])
        for line, item in zip(by_command[:2], by_request):
            self.assertEqual(line["n_best"][0]["words"][0].keys(), {"word", "log_probability", "confidence"})
            for one, other in zip(line["n_best"], item["nbest"], strict=True):
                self.assertEqual(one["pieces"][-1]["piece"], "</s>")
                total = sum(piece["log_probability"] for piece in one["pieces"])
                self.assertAlmostEqual(total, one["log_probability"], places=4)
                end = one["pieces"][-1]["log_probability"]
                words = sum(word["log_probability"] for word in one["words"])
                self.assertAlmostEqual(words + end, total, places=4)
                self.assertEqual(" ".join(word["word"] for word in one["words"]), one["text"])
                self.assertTrue(all(0 < word["confidence"] <= 1 for word in one["words"]))
                self.assertEqual(
                    [piece["piece"] for piece in one["pieces"]], [piece["piece"] for piece in other["pieces"]]
                )
                self.assertEqual([word["word"] for word in one["words"]], [word["word"] for word in other["words"]])
        self.assertNotIn("pieces", self.by_request(word_scores=True)[0]["nbest"][0])

    def test_terms_are_in_the_translation(self) -> None:
        terms = [["cat", "rivere"], ["the old", "ein"], ["House", "doge"], ["unused", "doge"]]
        Path("terms.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in terms), encoding="utf-8")
        by_command = self.by_command("--glossary terms.tsv")
        by_request = self.by_request(glossary=terms)
        for line, item in zip(by_command, by_request, strict=True):
            self.assertEqual((item["hyp"], item["terms"]), (line["text"], line["terms"]))
        found = [{"source": source, "target": target, "missed": False} for source, target in terms[:2]]
        self.assertEqual([line["terms"] for line in by_command], [found, [], []])
        words = by_command[0]["text"].split()
        self.assertTrue({"rivere", "ein"} <= set(words), words)
        self.assertEqual([line["text"] for line in by_command[1:]], TRANSLATIONS[1:], "other lines stay as they are")
        done = nmt(f"{TRANSLATE} --glossary terms.tsv --max-length-factor 0 --max-length-extra 2", f"{LINES[0]}\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("warning: line 1: the translation lacks 'ein', for 'the old' (--glossary)", done.stderr)
        self.complains_of_request(
            {"glossary": [["cat"]]}, "glossary: found", "an array of at most 1000 pairs of strings"
        )
        self.complains_of_request(
            {"glossary": [["cat", "\u65e5"]]}, "glossary: term 1: found 'cat', '\u65e5', whose translation has"
        )

    def test_the_spacing_of_a_line_is_kept(self) -> None:
        first, second = LINES[:2]
        for spaced in (" \t{0}  \t {1}\u3000", "{0} {1}", "  {0}\t", "\u00a0{0}\t{1} {0}   {1}"):
            line, expected = spaced.format(first, second), spaced.format(*TRANSLATIONS)
            [by_command] = self.by_command("--keep-spacing", [line])
            self.assertEqual(by_command["text"], expected)
            self.assertEqual(self.by_request([line], keep_spacing=True)[0]["hyp"], expected)
            self.assertEqual(self.by_request([line])[0]["hyp"], " ".join(expected.split()))
        terms = [["house", "doge"], ["cat", "ein"]]
        [item] = self.by_request([f"{second}\t\t{first}"], keep_spacing=True, glossary=terms)
        parts = item["hyp"].split("\t\t")
        self.assertIn("doge", parts[0].split())
        self.assertIn("ein", parts[1].split())
        self.assertNotIn("ein", parts[0].split(), "each part has its terms")
        [item] = self.by_request([f"{first} {second}"], prefix=["das cate"])
        self.assertTrue(item["hyp"].startswith("das cate"), "a line with a prefix is one part")

    def test_translations_are_aligned_in_the_forms_of_moses_and_marian(self) -> None:
        lines = "\n".join(LINES) + "\n"
        hard = self.succeeds(f"{TRANSLATE} --alignment hard", lines).splitlines()
        self.assertEqual([line.split(" ||| ")[0] for line in hard], TRANSLATIONS)
        soft = self.succeeds(f"{TRANSLATE} --alignment soft", lines).splitlines()
        objects = self.by_command("--alignment soft --n-best 2")
        for text, rows, line in zip(hard[:2], soft, objects):
            best = line["n_best"][0]
            pairs = [[int(number) for number in pair.split("-")] for pair in text.split(" ||| ")[1].split()]
            self.assertEqual(pairs, best["alignment"])
            self.assertEqual(sorted(pair[1] for pair in pairs), list(range(len(line["text"].split()))))
            self.assertLess(max(pair[0] for pair in pairs), len(line["source"].split()))
            rows = [[float(weight) for weight in row.split(",")] for row in rows.split(" ||| ")[1].split()]
            self.assertEqual(rows, best["attention"])
            for row in rows:
                self.assertEqual(len(row), len(best["source_pieces"]) + 1)
                self.assertAlmostEqual(sum(row), 1, delta=1e-3)
            self.assertEqual(len(rows), len(best["target_pieces"]))
            self.assertIn("alignment", line["n_best"][1])
        pieces = self.succeeds(f"{TRANSLATE} --alignment hard --alignment-unit pieces --alignment-head 1", lines)
        self.assertEqual(
            len(pieces.splitlines()[0].split(" ||| ")[1].split()), len(objects[0]["n_best"][0]["target_pieces"])
        )
        [item] = self.by_request(LINES[:1], alignment="soft", n_best=2, beam=5)
        self.assertEqual(item["nbest"][0]["alignment"], objects[0]["n_best"][0]["alignment"])
        self.assertNotIn("alignment", self.by_request(LINES[:1])[0]["nbest"][0])

    def test_tags_come_back_and_wrong_ones_end_the_command(self) -> None:
        lines = [
            "the <b>old cat</b> sees<br>the dog .",
            "<p>the green house</p> <p title='&lt;'>the river .</p>",
            "<hr>",
            "",
        ]
        answers = self.by_command("--markup html", lines)
        for answer, line in zip(answers, lines):
            self.assertEqual(sorted(re.findall("<.*?>", answer["text"])), sorted(re.findall("<.*?>", line)))
        self.assertEqual(answers[2]["text"], "<hr>")
        items = self.by_request(lines, markup="html", n_best=2, beam=5)
        self.assertEqual([item["hyp"] for item in items], [answer["text"] for answer in answers])
        wrong = nmt(f"{TRANSLATE} --markup html", "the <b>cat</b>\nthe <i><b>dog</i></b>\n")
        self.assertEqual(wrong.returncode, 2)
        self.assertEqual(wrong.stderr, "nmt: standard input:2: '</i>' found, expected '</b>' for '<b>'\n")
        self.assertEqual(wrong.stdout.count("\n"), 1, "the line before is translated")
        out = self.succeeds(
            f"{TRANSLATE} --serve", json.dumps({"id": 3, "text": ["a", "a</b>"], "markup": "xliff"}) + "\n"
        )
        error = {"code": "bad_request", "detail": "text[1]: '</b>' closes no tag"}
        self.assertEqual(json.loads(out.splitlines()[1]), {"id": 3, "error": error})
        self.complain_all(
            """
2 | translate --checkpoint trained --alignment-layer 9 --alignment hard | alignment-layer: found 9, expected 1 to
2 | translate --checkpoint trained --markup word | --markup: found 'word', expected none, html or xliff
"""
        )


class ShortlistTest(NmtTest):
    """From `nmt shortlist` to translations with its file."""

    @classmethod
    def setUpClass(cls) -> None:
        words = ["--source", "toy1.en", "--target", "toy1.de", "--best", 8, "--frequent", 4]
        for output in ("a.shortlist", "b.shortlist"):
            threads = ["--threads", 1 if output[0] == "a" else 2]
            cls.report = call(
                "nmt", "shortlist", "--checkpoint", "trained", *words, "--output", output, *threads, check=True
            ).stdout

    def test_it_reports_what_it_wrote_and_is_reproducible(self) -> None:
        form = (
            r"b\.shortlist: 400 pairs; a sentence may have (\d+) of 120 pieces on average, among them ([0-9.]+) % of its "
            r"translation's \(first 400 pairs\)\n"
        )
        found = re.fullmatch(form, self.report)
        self.assertIsNotNone(found, self.report)
        self.assertLess(int(found[1]), 80)
        self.assertGreater(float(found[2]), 95)
        self.assertEqual(Path("a.shortlist").read_bytes(), Path("b.shortlist").read_bytes())

    def test_translations_in_every_precision(self) -> None:
        lines = "\n".join(LINES) + "\n"
        for options in ("", "--precision bf16", "--precision int8", "--beam 1", "--checkpoint run", "--n-best 3"):
            whole = self.succeeds(f"{TRANSLATE} --shortlist a.shortlist {options}", lines)
            alone = self.succeeds(f"{TRANSLATE} --shortlist a.shortlist --batch-sentences 1 {options}", lines)
            self.assertEqual(whole, alone, options)
            if options not in ("--checkpoint run", "--n-best 3"):
                self.assertEqual(whole.splitlines(), TRANSLATIONS, options)

    def test_scores_are_relative_to_the_list(self) -> None:
        lines = "\n".join(LINES) + "\n"
        scores = [
            [json.loads(line)["n_best"][0]["log_probability"] for line in out.splitlines()[:2]]
            for out in (
                self.succeeds(f"{TRANSLATE} --json", lines),
                self.succeeds(f"{TRANSLATE} --json --shortlist a.shortlist", lines),
            )
        ]
        for whole, listed in zip(*scores):
            self.assertLess(whole, listed)

    def test_services_evaluations_and_pairs_take_it(self) -> None:
        request = json.dumps({"text": LINES}) + "\n"
        answers = self.succeeds(f"{TRANSLATE} --serve --shortlist a.shortlist", request).splitlines()
        self.assertEqual([item["hyp"] for item in json.loads(answers[1])["items"]], TRANSLATIONS)
        evaluate = "evaluate --checkpoint trained --source toy2.en --reference toy2.de --json"
        whole = json.loads(self.succeeds(evaluate))
        listed = json.loads(self.succeeds(f"{evaluate} --shortlist a.shortlist"))
        self.assertEqual(listed["loss"], whole["loss"])
        self.assertGreater(listed["sacrebleu"], 0.9 * whole["sacrebleu"])
        augment = "augment --checkpoint trained --forward --mono toy2.en --output made"
        self.succeeds(f"{augment} --shortlist a.shortlist")
        self.complains(augment, 2, "shortlist")

    def test_prefixes_and_terms_are_kept(self) -> None:
        Path("begin.txt").write_text("river dog oldes \n\n\n", encoding="utf-8")
        Path("terms.tsv").write_text("house\tdoge doge\n", encoding="utf-8")
        lines = "\n".join(LINES) + "\n"
        begun = self.succeeds(f"{TRANSLATE} --shortlist a.shortlist --prefix begin.txt", lines)
        self.assertTrue(begun.startswith("river dog oldes"), begun)
        self.assertIn("doge doge", self.succeeds(f"{TRANSLATE} --shortlist a.shortlist --glossary terms.tsv", lines))

    def test_wrong_input_is_one_line(self) -> None:
        call(
            "nmt", "prepare", "--train", "toy1.en", "toy1.de", "--output", "other", "--vocabulary-size", 110, check=True
        )
        words = ["data.folder=other", "training.stop_after=1u", "data.valid_set="]
        call("worker", "--config", "config.yaml", "--run-dir", "foreign", "--server", "none", *words, check=True)
        Path("empty.txt").write_text("", encoding="utf-8")
        Path("long.txt").write_text("the cat " * 300 + "\n", encoding="utf-8")
        self.complain_all(
            """
2 | translate --checkpoint trained --shortlist nowhere | --shortlist: nowhere: no such file
1 | translate --checkpoint trained --shortlist toy1.en | toy1.en
1 | translate --checkpoint trained --shortlist trained/checkpoints/update-00000600/weights.safetensors | found another safetensors file, expected one of `nmt shortlist`
2 | translate --checkpoint foreign --shortlist a.shortlist | a.shortlist: is a shortlist of another vocabulary,
2 | translate --checkpoint trained --shortlist a.shortlist --device cuda | --shortlist: found --device cuda, expected cpu
1 | shortlist --checkpoint trained --source toy1.en --output x | toy1.en is plain text; expected TSV
1 | shortlist --checkpoint trained --source toy1.en --target toy2.de --output x | toy1.en has 400 lines, toy2.de has 20
1 | shortlist --checkpoint trained --source empty.txt --target empty.txt --output x | empty.txt has no pairs to align
1 | shortlist --checkpoint trained --source long.txt --target long.txt --output x | long.txt has no pairs to align
1 | shortlist --checkpoint trained --source toy1.en --target toy1.de --output nowhere/x | nowhere/x
2 | shortlist --checkpoint trained --source toy1.en --target toy1.de --output x --best 0 | --best: found 0, expected 1
"""
        )
        self.assertFalse(Path("x").exists())


class ValidationPrecisionTest(NmtTest):
    """Validations that translate in int8."""

    def evaluation(self, folder: str, *overrides: str) -> dict[str, Any]:
        keys = "training.stop_after=300u validation.bleu_every=300u checkpoint.every=300u optimizer.learning_rate=0.01"
        words = ["--run-dir", folder, "--server", "none", *keys.split(), "optimizer.warm_up=50u", *overrides]
        call("worker", "--config", "config.yaml", *words, check=True)
        records = spool_records(Path(folder) / "spool/attempt-1/rank-0.jsonl")
        return [record for record in records if record["kind"] == "eval"][-1]

    def test_they_have_the_scores_of_nmt_evaluate_in_int8(self) -> None:
        plain, rounded = self.evaluation("exact"), self.evaluation("rounded", "validation.precision=int8")
        self.assertEqual(plain["loss"], rounded["loss"], "no weight of the training is touched")
        evaluate = "evaluate --checkpoint rounded/checkpoints/update-00000300 --data data --set valid --json --beam 4"
        expected = json.loads(self.succeeds(f"{evaluate} --precision int8"))
        self.assertAlmostEqual(rounded["sacrebleu"], expected["sacrebleu"], 4)
        self.assertGreater(rounded["sacrebleu"], 5)
        weights = [Path(run) / "checkpoints/update-00000300/weights.safetensors" for run in ("exact", "rounded")]
        self.assertEqual(weights[0].read_bytes(), weights[1].read_bytes())

    def test_a_gpu_is_refused(self) -> None:
        words = ["validation.precision=int8", "training.device=cuda"]
        done = call("worker", "--config", "config.yaml", "--run-dir", "never", "--server", "none", *words)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("validation.precision: int8, but training.device is cuda; expected training", done.stderr)


if __name__ == "__main__":
    unittest.main()
