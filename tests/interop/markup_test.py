"""Translations of lines with made-up tags, read by the parsers of a browser. Needs the packages of package.json.

MARKUP_CHECKPOINT=FOLDER MARKUP_TEXT=FILE take another model and its text, which is then long enough to look at."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from cases import FolderTest  # noqa: E402
from models_test import CONFIG, needs_packages, text_lines  # noqa: E402
from system import call, prepare  # noqa: E402

ELEMENTS = {
    "html": ["<b>", "<i class='a > b'>", '<a href="?x=1&amp;y=2">', '<span title="ä &quot;">', "<em>", "<code>"],
    "xliff": ['<g id="{}">', '<mrk mtype="x-term" mid="{}">'],
}
PLACES = {
    "html": ["<br/>", '<img src="a.png" alt="1 &lt; 2"/>', "<!-- note -->", "<b></b>", "<wbr/>", "<hr/>"],
    "xliff": ['<x id="{}"/>', '<bx id="{}"/>', '<ex id="{}"/>', '<ph id="{}">&lt;br&gt;</ph>', '<g id="{}"></g>'],
}


def escaped(word: str) -> str:
    return word.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&#62;")


def with_tags(words: list[str], form: str, draw: random.Random, depth: int = 3) -> str:
    """The words with elements around some of them, and placeholders before some."""
    parts = []
    at = 0
    while at < len(words):
        kind = draw.random()
        if kind < 0.12:
            parts.append(draw.choice(PLACES[form]).format(draw.randrange(100)) + draw.choice([" ", ""]))
        elif kind < 0.35 and depth > 0:
            tag = draw.choice(ELEMENTS[form]).format(draw.randrange(100))
            count = draw.randrange(1, 6)
            inside = with_tags(words[at : at + count], form, draw, depth - 1)
            name = tag[1:].split(" ")[0].rstrip(">")
            parts.append(f"{tag}{inside}</{name}>" + draw.choice([" ", " ", ""]))
            at += count
        else:
            parts.append(escaped(words[at]) + " ")
            at += 1
    return "".join(parts).strip()


@needs_packages
class MarkupTest(FolderTest):
    def setUp(self) -> None:
        super().setUp()
        self.change_to_folder()
        self.checkpoint = os.environ.get("MARKUP_CHECKPOINT", "run")
        text = os.environ.get("MARKUP_TEXT")
        self.lines = Path(text).read_text(encoding="utf-8").splitlines() if text else text_lines()[-300:]
        if text:
            return
        for name, part in {"train": text_lines()[:-300], "valid": self.lines}.items():
            for side, lines in {"en": part, "back": [" ".join(reversed(line.split())) for line in part]}.items():
                Path(f"{name}.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
        prepare(Path("data"), ["train.en", "train.back"], ["valid.en", "valid.back"], "--vocabulary-size", 1200)
        Path("config.yaml").write_text(CONFIG, encoding="utf-8")
        call("worker", "--config", "config.yaml", "--run-dir", "run", "--server", "none", check=True)

    def test_every_output_is_well_formed_and_has_the_tags_of_its_source(self) -> None:
        draw = random.Random(5)
        for form in ("html", "xliff"):
            tagged = [with_tags(line.split(), form, draw) for line in self.lines]
            words = ["translate", "--checkpoint", self.checkpoint, "--json", "--beam", 2, "--markup", form]
            done = call("nmt", *words, input="\n".join(tagged) + "\n", check=True)
            answers = [json.loads(line) for line in done.stdout.splitlines()]
            self.assertEqual(len(answers), len(tagged))
            with Path(f"{form}.jsonl").open("w", encoding="utf-8") as file:
                for answer in answers:
                    pair = {"form": form, "source": answer["source"], "text": answer["text"]}
                    file.write(json.dumps(pair, ensure_ascii=False) + "\n")
            program = Path(__file__).with_name("markup_test.mjs")
            checked = subprocess.run(
                ["node", program, f"{form}.jsonl"], capture_output=True, text=True, timeout=600, check=False
            )
            self.assertEqual(checked.returncode, 0, checked.stdout[-3000:] + checked.stderr)
            self.assertEqual(json.loads(checked.stdout.splitlines()[-1])["lines"], len(tagged))


if __name__ == "__main__":
    import unittest

    unittest.main()
