"""Options of `nmt translate` and of its service, which are made from one description."""

from __future__ import annotations

import json
import sys
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from cases import NmtTest, train_tiny_model  # noqa: E402
from system import call  # noqa: E402

LINES = ["the old cat sees the dog .", "the green house likes the river .", ""]
TRANSLATIONS = ["das cate oldes doge seest .", "das housee greenes rivere likest .", ""]
TRANSLATE = "translate --checkpoint trained"


def setUpModule() -> None:
    train_tiny_model()
    keys = "training.stop_after=600u checkpoint.every=600u optimizer.learning_rate=0.01 optimizer.warm_up=50u"
    words = ["--run-dir", "trained", "--server", "none", *keys.split(), "model.width=32", "model.inner=64"]
    call("worker", "--config", "config.yaml", *words, check=True)
    Path("strange.txt").write_text("\u65e5\u672c\n", encoding="utf-8")


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


if __name__ == "__main__":
    unittest.main()
