"""`nmt translate --sample` as a program."""

from __future__ import annotations

import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from cases import NmtTest, train_tiny_model  # noqa: E402

LINES = "the old cat .\n\nthe dog sees the red house .\nthe old cat .\nthe green house likes the river .\n"
TRANSLATE = "translate --checkpoint run"


def setUpModule() -> None:
    train_tiny_model()


class SamplingTest(NmtTest):
    def test_a_line_depends_on_the_seed_and_its_number_only(self) -> None:
        for options in ("", " --n-best 3", " --n-best 3 --independent", " --top-p 0.9", " --top-k 20 --temperature 2"):
            sample = f"{TRANSLATE} --sample --json{options}"
            expected = self.succeeds(f"{sample} --threads 1", LINES)
            for other in (
                "--threads 2",
                "--buffer-lines 1",
                "--buffer-lines 2 --batch-sentences 1",
                "--batch-tokens 9",
            ):
                self.assertEqual(self.succeeds(f"{sample} {other}", LINES), expected, other)
            lines = [json.loads(line) for line in expected.splitlines()]
            self.assertNotEqual(lines[0]["text"], lines[3]["text"], "lines with equal text are drawn separately")
            self.assertEqual((lines[1]["text"], lines[1]["n_best"]), ("", []))
            self.assertNotEqual(self.succeeds(f"{sample} --seed 2", LINES), expected)

    def test_more_samples_begin_with_the_same_ones(self) -> None:
        several = [
            json.loads(line) for line in self.succeeds(f"{TRANSLATE} --sample --n-best 4 --json", LINES).splitlines()
        ]
        one = [json.loads(line) for line in self.succeeds(f"{TRANSLATE} --sample --gumbel --json", LINES).splitlines()]
        self.assertEqual([line["text"] for line in one], [line["text"] for line in several])
        self.assertEqual([len(line["n_best"]) for line in several], [4, 0, 4, 4, 4])
        table = self.succeeds(f"{TRANSLATE} --sample --n-best 4", LINES).splitlines()
        self.assertEqual(
            [row.split("\t")[:2] for row in table[:5]], [["1", "1"], ["1", "2"], ["1", "3"], ["1", "4"], ["3", "1"]]
        )

    def test_temperature_zero_is_greedy_search(self) -> None:
        greedy = self.succeeds(f"{TRANSLATE} --beam 1 --json", LINES)
        self.assertEqual(self.succeeds(f"{TRANSLATE} --sample --temperature 0 --json", LINES), greedy)

    def test_an_ensemble_is_sampled(self) -> None:
        single = self.succeeds(f"{TRANSLATE} --sample --json", LINES)
        self.assertEqual(self.succeeds(f"{TRANSLATE} --checkpoint run --sample --json", LINES), single)

    def test_least_risk_does_not_depend_on_batches(self) -> None:
        for options in ("", " --beam 3", " --mbr-samples 5 --n-best 2 --top-p 0.8"):
            expected = self.succeeds(f"{TRANSLATE} --mbr --json{options}", LINES)
            for other in ("--threads 2", "--buffer-lines 2", "--batch-sentences 1"):
                self.assertEqual(self.succeeds(f"{TRANSLATE} --mbr --json{options} {other}", LINES), expected, other)
            first = json.loads(expected.splitlines()[0])
            scores = [one["score"] for one in first["n_best"]]
            self.assertEqual(scores, sorted(scores, reverse=True))
            self.assertTrue(0 <= scores[0] <= 100)

    def ask(self, options: str, *requests: dict) -> list[dict]:
        lines = "".join(json.dumps({"text": LINES.splitlines()} | request) + "\n" for request in requests)
        return [json.loads(line) for line in self.succeeds(f"{TRANSLATE} --serve{options}", lines).splitlines()[1:]]

    def texts(self, answer: dict) -> list[list[str]]:
        return [[one["hyp"] for one in item["nbest"]] for item in answer["items"]]

    def expected(self, options: str) -> list[list[str]]:
        lines = self.succeeds(f"{TRANSLATE} --json {options}", LINES).splitlines()
        return [[one["text"] for one in json.loads(line)["n_best"]] for line in lines]

    def test_requests_have_samples(self) -> None:
        ask, texts, expected = self.ask, self.texts, self.expected
        one, several, mbr, greedy, wrong = ask(
            "",
            {"sample": True, "temperature": 0.7, "top_k": 30, "seed": 5},
            {"sample": True, "nbest": 3, "top_p": 0.9},
            {"mbr": True, "mbr_samples": 6, "beam": 2},
            {"beam": 1},
            {"sample": True, "beam": 2},
        )
        self.assertEqual(texts(one), expected("--sample --temperature 0.7 --top-k 30 --seed 5"))
        self.assertEqual(texts(several), expected("--sample --n-best 3 --top-p 0.9"))
        self.assertEqual(texts(mbr), expected("--mbr --mbr-samples 6 --beam 2"))
        self.assertEqual(texts(greedy), expected("--beam 1"))
        self.assertEqual(wrong["error"]["code"], "bad_request")
        self.assertIn("found sample and beam", wrong["error"]["detail"])
        both = [{"id": n, "text": LINES.splitlines(), "sample": True, "nbest": 3, "top_p": 0.9} for n in (1, 2)]
        joined = self.succeeds(f"{TRANSLATE} --serve", json.dumps(both) + "\n").splitlines()[1:]
        for answer in joined:
            self.assertEqual(texts(json.loads(answer)), texts(several), "joined requests draw as each alone")
        self.assertEqual(len(joined), 2)

    def test_a_request_without_samples_ignores_those_of_the_command(self) -> None:
        drawing = "--sample --seed 3 --temperature 0.5 --top-k 9"
        usual, searched, own, wrong, other = self.ask(
            f" {drawing}",
            {},
            {"sample": False},
            {"seed": 4},
            {"sample": False, "seed": 4},
            {"sample": False, "mbr": True},
        )
        self.assertEqual(self.texts(usual), self.expected(drawing))
        self.assertEqual(self.texts(searched), self.expected(""))
        self.assertEqual(self.texts(own), self.expected(drawing.replace("3", "4")))
        self.assertEqual(wrong["error"]["detail"], "seed: found without sample, expected both")
        self.assertEqual(self.texts(other), self.expected(drawing.replace("--sample", "--mbr")))
        searched, drawn = self.ask(" --seed 3 --top-p 0.5 --mbr-samples 4 --beam 2", {}, {"sample": True})
        self.assertEqual(self.texts(searched), self.expected("--beam 2"))
        self.assertEqual(self.texts(drawn), self.expected("--sample --seed 3 --top-p 0.5"))
        one, risk = self.ask(" --sample --gumbel", {}, {"mbr": True, "mbr_samples": 4})
        self.assertEqual(self.texts(one), self.expected("--sample --gumbel"))
        self.assertEqual(self.texts(risk), self.expected("--mbr --mbr-samples 4"))
        self.complains(f"{TRANSLATE} --serve --sample --gumbel --independent", 2, "found gumbel and independent")

    def test_samples_begin_with_prefixes(self) -> None:
        Path("prefixes").write_text("die al\n\nder\n\n\n", encoding="utf-8")
        prefixes = Path("prefixes").read_text(encoding="utf-8").splitlines()
        for options in ("--sample", "--sample --n-best 3", "--sample --top-k 5", "--mbr", "--mbr --beam 3"):
            out = self.succeeds(f"{TRANSLATE} --prefix prefixes --json {options}", LINES)
            for line, prefix in zip(map(json.loads, out.splitlines()), prefixes, strict=True):
                for one in line["n_best"]:
                    self.assertTrue(one["text"].startswith(prefix), one["text"])
        Path("terms").write_text("cat\tder\n", encoding="utf-8")
        self.complains(f"{TRANSLATE} --glossary terms --sample", 2, "found sample and glossary, expected one of them")

    def test_options_that_do_not_go_together_are_refused(self) -> None:
        self.complain_all(
            f"""
2 | {TRANSLATE} --sample --beam 4 | found sample and beam, expected one of them
2 | {TRANSLATE} --temperature 0.5 | temperature: found without sample, expected both
2 | {TRANSLATE} --gumbel | gumbel: found without sample, expected both
2 | {TRANSLATE} --sample --gumbel --independent | found gumbel and independent, expected one of them
2 | {TRANSLATE} --mbr --gumbel | found gumbel and mbr, expected one of them
2 | {TRANSLATE} --mbr-samples 9 | mbr-samples: found without mbr, expected both
2 | {TRANSLATE} --mbr --n-best 40 | n-best: found 40, expected at most mbr-samples, 32
2 | {TRANSLATE} --sample --temperature 0.0001 | temperature: found 0.0001, expected 0, or 0.001 to 100
2 | {TRANSLATE} --sample --top-p 0 | top-p: found 0, expected a number above 0, at most 1
2 | {TRANSLATE} --sample --top-k -1 | --top-k: found -1, expected 0 to 1000000
2 | {TRANSLATE} --sample --seed x | --seed: found 'x'
2 | {TRANSLATE} --sample --n-best 1001 | --n-best: found 1001, expected 1 to 1000
"""
        )


if __name__ == "__main__":
    unittest.main()
