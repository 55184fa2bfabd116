"""Exported models in the programs that they are for, which must give our ids, texts and log-probabilities. Needs the packages of
package.json."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from cases import FolderTest  # noqa: E402
from system import ROOT, call, prepare  # noqa: E402

CONFIG = """
name: small
preset: transformer-tiny
model: {encoder_layers: 2, decoder_layers: 2, width: 32, inner: 64, heads: 2, dropout: 0}
data: {folder: data, tokens_per_update: 2000}
training: {stop_after: 400u, precision: f32, threads: 1}
optimizer: {learning_rate: 3e-3, warm_up: 100u}
validation: {every: 0, bleu_every: 0}
checkpoint: {every: 400u}
"""

AWKWARD = [
    "two  spaces,   three, and at the end  ",
    "the text </s> <s> <unk> <pad> is only text",
    "ligatures ﬁ ﬂ, ½, full width ＡＢＣ, no-break\u00a0space",
    "letters that no line has: 日本語 Привет ẞ é",
    "a tilde ～ and an accent e\u0301",
    "...---...",
    ">>back<< a symbol before, a <sep> between<sep>",
]


def text_lines() -> list[str]:
    """Lines of three to eight made-up words, the first of a list more often than the last, with capitals, digits and punctuation."""
    rng = random.Random(7)
    syllables = [
        first + vowel
        for first in ("", *"bdfgklmnprstvz", "sch", "tr")
        for vowel in ("a", "e", "i", "o", "u", "ä", "ei")
    ]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(3000)]
    words += [str(rng.randint(1, 3000)) for _ in range(200)]
    frequencies = [1 / (10 + rank) for rank in range(len(words))]
    lines = []
    for _ in range(7000):
        line = " ".join(rng.choices(words, frequencies, k=rng.randint(3, 8)))
        lines.append(
            (line[:1].upper() + line[1:] if rng.random() < 0.3 else line) + rng.choice(["", "", ".", ",", "?", ":"])
        )
    return list(dict.fromkeys(lines))


needs_packages = unittest.skipUnless(
    (Path(__file__).parent / "node_modules").is_dir(), "needs Node and, in tests/interop, the packages of `npm ci`"
)


class ExportedModelTest(FolderTest):
    def exported(self, to: str, lines: int, model: str, *vocabulary: str) -> Path:
        """A model that was trained to give words backwards, in the format `to`; `model` is options of the configuration. The first lines
        of conformance.jsonl are AWKWARD, the others held out."""
        self.change_to_folder()
        text = text_lines()
        held_out = AWKWARD + text[-lines:]
        for name, part in {"train": text[:-lines], "valid": text[-lines:], "held-out": held_out}.items():
            backwards = [" ".join(reversed(line.split())) for line in part]
            Path(f"{name}.en").write_text("\n".join(part) + "\n", encoding="utf-8")
            Path(f"{name}.back").write_text("\n".join(backwards) + "\n", encoding="utf-8")
        train, valid = [[f"{name}.en", f"{name}.back"] for name in ("train", "valid")]
        prepare(Path("data"), train, valid, "--vocabulary-size", 1200, *vocabulary)
        Path("config.yaml").write_text(CONFIG, encoding="utf-8")
        words = ["--config", "config.yaml", "--run-dir", "run", "--server", "none"]
        call("worker", *words, *model.split(), check=True)
        options = ["--to", to, "--sources", "held-out.en", "--lines", len(held_out)]
        call("nmt", "export", "--checkpoint", "run", "--output", "model", *options, check=True)
        return Path("model")

    def compare(self, name: str, *words: Path) -> tuple[subprocess.CompletedProcess[str], dict[str, float]]:
        program = Path(__file__).with_name(name)
        done = subprocess.run(["node", program, *words], capture_output=True, text=True, timeout=600, check=False)
        self.assertTrue(done.stdout, done.stderr)
        return done, json.loads(done.stdout.splitlines()[-1])


@needs_packages
class TransformersTest(ExportedModelTest):
    program = "transformers_test.mjs"

    def test_translations_with_a_bpe_vocabulary_are_equal(self) -> None:
        model = self.exported("huggingface", 1000, "", "--symbols", ">>back<<,<sep>")
        self.assertFalse((model / "model.safetensors").exists(), "of a model with norms before the sub-layers")
        done, counts = self.compare(self.program, model)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(counts["lines"], 1000 + len(AWKWARD))

    def test_translations_with_byte_fallback_norms_after_and_three_tables_are_equal(self) -> None:
        words = "model.norm=post model.tied_embeddings=none model.attention_bias=true model.activation=swish "
        words += "model.decoder_start=zero model.output_bias=true"
        model = self.exported("huggingface", 100, words, "--byte-fallback")
        self.assertTrue((model / "model.safetensors").exists())
        done, counts = self.compare(self.program, model)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(counts["lines"], 100 + len(AWKWARD))
        self.require_safetensors(model)

    def require_safetensors(self, model: Path) -> None:
        """PyTorch has to compute with model.safetensors what we do, reading each tensor."""
        python = ["/usr/bin/python3", Path(__file__).with_name("marian_model.py")]
        if subprocess.run([*python[:1], "-c", "import torch"], capture_output=True, check=False).returncode != 0:
            self.skipTest("needs Debian's python3-torch")
        done = subprocess.run([*python, model, "107"], capture_output=True, text=True, timeout=600, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        counts = json.loads(done.stdout)
        self.assertEqual((counts["lines"], counts["greedy"], counts["unused"]), (107, 107, []), done.stdout)
        self.assertLess(counts["largest_difference"], 1e-4)

    def test_translations_with_a_unigram_vocabulary_are_equal_where_the_ids_are(self) -> None:
        """The programs break ties between two ways to cut a word differently, and JavaScript takes the text of a control
        piece for the piece."""
        words = "model.activation=gelu model.norm_epsilon=1e-6 model.positions=marian model.decoder_start=zero "
        words += "model.output_bias=true"
        model = self.exported("huggingface", 200, words, "--model", "unigram")
        done, counts = self.compare(self.program, model)
        self.assertEqual(counts["text"], counts["lines"], done.stdout)
        self.assertGreaterEqual(counts["tokens"], counts["lines"] - 4, done.stdout)
        for check in ("greedy", "score"):
            self.assertGreaterEqual(counts[check], counts["tokens"], done.stdout)


@needs_packages
class BergamotTest(ExportedModelTest):
    def require_equal(self, fraction: float, model: str, *vocabulary: str) -> None:
        """Bergamot's translations of 300 lines, in 8 bits, have to be those of our f32 for at least `fraction` of them; with the factors
        of the file instead of ranges that it measures for 0.05 less. 0.76 and 0.77 were seen."""
        words = "model.norm=post model.norm_epsilon=1e-6 model.positions=marian model.decoder_start=zero "
        words += "model.width=64 model.inner=128 " + model
        folder = self.exported("bergamot", 300, words, *vocabulary)
        done, counts = self.compare("bergamot_test.mjs", folder, Path("worker"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(counts["lines"], 300 + len(AWKWARD))
        self.assertGreaterEqual(counts["equal"] / counts["lines"], fraction, done.stdout)
        self.assertGreaterEqual(counts["with_factors"] / counts["lines"], fraction - 0.05, done.stdout)

    def test_translations_of_one_table_that_is_filled_up(self) -> None:
        self.require_equal(0.6, "model.activation=swish", "--symbols", ">>back<<,<sep>,<third>")

    def test_translations_of_three_tables_with_all_biases(self) -> None:
        self.require_equal(0.6, "model.tied_embeddings=none model.attention_bias=true model.output_bias=true")


class CTranslate2Test(ExportedModelTest):
    @unittest.skipUnless(
        os.environ.get("CT2_TRANSLATOR"), "needs CT2_TRANSLATOR, the path of CTranslate2's program ct2-translator"
    )
    def test_translations_and_scores_of_a_beam_are_equal(self) -> None:
        """Lines that the limit of length cuts are left out: the programs have other limits."""
        model = self.exported("ctranslate2", 300, "model.norm=post model.activation=swish model.output_bias=true")
        lines = [json.loads(line) for line in (model / "conformance.jsonl").read_text(encoding="utf-8").splitlines()]
        lines = [line for line in lines if line["best"]["complete"]]
        pieces = json.loads((model / "shared_vocabulary.json").read_text(encoding="utf-8"))
        sources = "".join(" ".join(pieces[piece] for piece in line["source_ids"]) + "\n" for line in lines)
        program = [
            os.environ["CT2_TRANSLATOR"],
            "--model",
            model,
            "--beam_size",
            "4",
            "--length_penalty",
            "0",
            "--with_score",
        ]
        # With 1 no translation may be empty, and the others get the probability of that.
        program += ["--min_decoding_length", "0"]
        done = subprocess.run(program, input=sources, capture_output=True, text=True, timeout=600, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = [line.split(" ||| ") for line in done.stdout.splitlines()]
        self.assertEqual(len(found), len(lines))
        self.assertGreater(len(lines), 200)
        differences = [  # beyond the six digits that are printed
            abs(float(score) - line["best"]["log_probability"]) - 0.5 * 10 ** (len(score.split(".")[0].lstrip("-")) - 6)
            for (score, text), line in zip(found, lines)
            if text.split() == [pieces[piece] for piece in line["best"]["ids"]]
        ]
        self.assertGreaterEqual(len(differences), 0.99 * len(lines))
        self.assertLess(max(differences), 1e-4)


class MarianTest(ExportedModelTest):
    @unittest.skipUnless(os.environ.get("MARIAN_PROGRAMS"), "needs MARIAN_PROGRAMS, a folder with marian-decoder")
    def test_greedy_translations_are_equal(self) -> None:
        """Lines that the limit of length cuts are left out: the programs have other limits."""
        words = "model.norm=post model.norm_epsilon=1e-6 model.positions=marian model.decoder_start=zero model.activation=swish"
        model = self.exported("marian", 300, words)
        lines = [json.loads(line) for line in (model / "conformance.jsonl").read_text(encoding="utf-8").splitlines()]
        lines = [line for line in lines if line["greedy"]["complete"]]
        program = [
            Path(os.environ["MARIAN_PROGRAMS"]) / "marian-decoder",
            "--config",
            model / "decoder.yml",
            "--beam-size",
            "1",
        ]
        program += ["--cpu-threads", "1", "--mini-batch", "1", "--max-length-factor", "5", "--quiet"]
        sources = "".join(line["source"] + "\n" for line in lines)
        done = subprocess.run(program, input=sources, capture_output=True, text=True, timeout=600, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = done.stdout.splitlines()
        self.assertEqual(len(found), len(lines))
        self.assertGreater(len(lines), 200)
        equal = sum(text == line["greedy"]["text"] for text, line in zip(found, lines))
        self.assertGreaterEqual(equal, 0.99 * len(lines))


if __name__ == "__main__":
    unittest.main()
