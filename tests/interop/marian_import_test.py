"""Models of Marian with random weights, imported and exported again. With the environment variable MARIAN_PROGRAMS, a folder with
marian-scorer and marian-decoder, also their scores and translations."""

from __future__ import annotations

import json
import os
import random
import re
import struct
import subprocess
import sys
import unittest
import zipfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from cases import FolderTest  # noqa: E402
from system import call, prepare, toy_corpus  # noqa: E402

WIDTH, HEADS, INNER = 16, 2, 24
PROGRAMS = os.environ.get("MARIAN_PROGRAMS", "")


def fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a protobuf message whose values have a length, and of floats."""

    def number(at: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            byte = message[at]
            value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
            if byte < 128:
                return value, at

    at = 0
    while at < len(message):
        key, at = number(at)
        if key & 7 == 0:
            value, at = number(at)
            yield key >> 3, bytes([value & 255])
            continue
        size = 4 if key & 7 == 5 else 0
        if key & 7 == 2:
            size, at = number(at)
        yield key >> 3, message[at : at + size]
        at += size


def pieces_of(model: Path) -> list[str]:
    """The pieces of a SentencePiece model by id."""
    messages = [value for field, value in fields(model.read_bytes()) if field == 1]
    return [next(value for field, value in fields(message) if field == 1).decode() for message in messages]


class RandomModel:
    """The arrays of a model of Marian, two encoder layers and one decoder layer, by name: shape and numbers."""

    def __init__(self, source_rows: int, target_rows: int, tied_all: bool) -> None:
        self.random = random.Random(1)
        self.arrays: dict[str, tuple[tuple[int, ...], bytes]] = {}
        tables = {"Wemb": target_rows} if tied_all else {"encoder_Wemb": source_rows, "decoder_Wemb": target_rows}
        for name, rows in tables.items():
            self.add(name, rows, WIDTH)
        self.add("decoder_ff_logit_out_b", 1, target_rows)
        for layer in ("encoder_l1", "encoder_l2", "decoder_l1"):
            attentions = ("self", "context") if layer.startswith("decoder") else ("self",)
            for attention in attentions:
                for kind in "qkvo":
                    self.add(f"{layer}_{attention}_W{kind}", WIDTH, WIDTH)
                    self.add(f"{layer}_{attention}_b{kind}", 1, WIDTH)
                self.add_norm(f"{layer}_{attention}_Wo_ln")
            for number, (rows, columns) in enumerate(((WIDTH, INNER), (INNER, WIDTH)), start=1):
                self.add(f"{layer}_ffn_W{number}", rows, columns)
                self.add(f"{layer}_ffn_b{number}", 1, columns)
            self.add_norm(f"{layer}_ffn_ffn_ln")
        self.options = (
            f"dec-depth: 1\ndim-emb: {WIDTH}\ndim-vocabs:\n  - {source_rows}\n  - {target_rows}\nenc-depth: 2\n"
            f"tied-embeddings: {str(not tied_all).lower()}\ntied-embeddings-all: {str(tied_all).lower()}\n"
            f"transformer-dim-ffn: {INNER}\ntransformer-ffn-activation: swish\ntransformer-heads: {HEADS}\n"
            'transformer-postprocess: dan\ntransformer-postprocess-emb: d\ntransformer-preprocess: ""\ntype: transformer\n'
        )

    def add(self, name: str, rows: int, columns: int) -> None:
        numbers = [self.random.gauss(0, 0.4) for _ in range(rows * columns)]
        self.arrays[name] = (rows, columns), struct.pack(f"<{len(numbers)}f", *numbers)

    def add_norm(self, name: str) -> None:
        self.add(name + "_bias", 1, WIDTH)
        self.add(name + "_scale", 1, WIDTH)

    def write(self, file: Path, compression: int = zipfile.ZIP_STORED) -> None:
        options = self.options.encode() + b"\0"
        with zipfile.ZipFile(file, "w", compression) as archive:
            for name, (shape, data) in self.arrays.items() | {("special:model.yml", ((len(options),), options))}:
                kind = "<f4" if len(shape) == 2 else "|i1"
                header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
                archive.writestr(f"{name}.npy", b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + data)


def data_of(file: Path) -> dict[str, bytes]:
    """The numbers of the arrays by name."""
    with zipfile.ZipFile(file) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    return {name: content[10 + struct.unpack("<H", content[8:10])[0] :] for name, content in contents.items()}


class MarianImportTest(FolderTest):
    def setUp(self) -> None:
        super().setUp()
        self.change_to_folder()
        self.text = toy_corpus(Path("."), 300, 1)
        prepare(Path("data"), self.text, toy_corpus(Path("."), 20, 2), "--vocabulary-size", 80)
        self.pieces = pieces_of(Path("data/spm.model"))

    def own_vocabulary(self, folder: Path) -> RandomModel:
        """A model with a SentencePiece model of both sides."""
        folder.mkdir()
        (folder / "vocab.spm").write_bytes(Path("data/spm.model").read_bytes())
        return RandomModel(len(self.pieces), len(self.pieces), tied_all=True)

    def release(self, folder: Path) -> RandomModel:
        """Files as in a release: a vocabulary in YAML with other ids, and one id that has no piece."""
        folder.mkdir()
        pieces = ["</s>", "<unk>", *sorted(set(self.pieces) - {"</s>", "<unk>", "<s>"}, reverse=True)]
        lines = ["'{}': {}\n".format(piece.replace("'", "''"), id_) for id_, piece in enumerate(pieces)]
        (folder / "opus.vocab.yml").write_text("".join(lines) + f'">>deu<<": {len(pieces) + 1}\n', encoding="utf-8")
        for name in ("source.spm", "target.spm"):
            (folder / name).write_bytes(Path("data/spm.model").read_bytes())
        (folder / "LICENSE").write_text("a license", encoding="utf-8")
        (folder / "preprocess.sh").write_text("sed -e 's/“/\"/g' -e 's/、/ ./g' | spm_encode", encoding="utf-8")
        names = "models:\n  - opus.npz\nvocabs:\n  - opus.vocab.yml\n  - opus.vocab.yml\n"
        (folder / "decoder.yml").write_text("relative-paths: true\n" + names, encoding="utf-8")
        return RandomModel(len(pieces) + 2, len(pieces) + 2, tied_all=True)

    def imported(self, model: Path, output: str) -> Path:
        done = call("nmt", "import", model, "--output", output)
        self.assertEqual(done.returncode, 0, done.stderr)
        return Path(output)

    def exported(self, checkpoint: Path, output: str) -> Path:
        words = ["--to", "marian", "--sources", self.text[0], "--lines", 2]
        call("nmt", "export", "--checkpoint", checkpoint, "--output", output, *words, check=True)
        return Path(output)

    def refused(self, model: Path, code: int) -> str:
        done = call("nmt", "import", model, "--output", "refused")
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertFalse(Path("refused").exists())
        self.assertFalse(list(Path(".").glob(".tmp*")))
        return done.stderr

    def test_stored_and_deflated_files_come_back_with_the_same_numbers(self) -> None:
        folder = Path("model")
        model = self.own_vocabulary(folder)
        model.write(folder / "model.npz")
        first = self.imported(folder, "first")
        back = self.exported(first, "back")
        self.assertEqual(data_of(back / "model.npz"), data_of(folder / "model.npz"))
        self.assertEqual((back / "vocab.spm").read_bytes(), (folder / "vocab.spm").read_bytes())
        again = self.exported(self.imported(back, "second"), "again")
        self.assertEqual((again / "model.npz").read_bytes(), (back / "model.npz").read_bytes())
        model.write(folder / "model.npz", zipfile.ZIP_DEFLATED)
        deflated = self.imported(folder / "model.npz", "deflated")
        weights = "weights.safetensors"
        self.assertEqual((deflated / weights).read_bytes(), (first / weights).read_bytes())

    def test_a_release_translates_and_scores_and_trains_on_and_comes_back(self) -> None:
        folder = Path("opus")
        self.release(folder).write(folder / "opus.npz")
        with zipfile.ZipFile("opus.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for file in folder.iterdir():
                archive.write(file, file.name)
        checkpoint = self.imported(Path("opus.zip"), "checkpoint")
        state = json.loads((checkpoint / "state.json").read_text())["state"]
        self.assertIn("LICENSE", state["release"]["files"])
        back = self.exported(checkpoint, "back")
        self.assertEqual(data_of(back / "opus.npz"), data_of(folder / "opus.npz"))
        for name in ("opus.vocab.yml", "source.spm", "LICENSE", "preprocess.sh"):
            self.assertEqual((back / name).read_bytes(), (folder / name).read_bytes(), name)
        # The script's replacements, in each command.
        Path("marks").write_text("“the old dog 、\n", encoding="utf-8")
        Path("plain").write_text('"the old dog .\n', encoding="utf-8")
        scores = [
            call("nmt", "score", "--checkpoint", checkpoint, "--source", name, "--target", name, check=True).stdout
            for name in ("marks", "plain")
        ]
        self.assertEqual(scores[0], scores[1])
        texts = [
            call("nmt", "translate", "--checkpoint", checkpoint, "--input", name, check=True).stdout
            for name in ("marks", "plain")
        ]
        self.assertEqual(texts[0], texts[1])
        prepare(Path("more"), self.text, toy_corpus(Path("."), 20, 2), "--vocabulary", checkpoint / "spm.model")
        options = f"data.folder=more training.start_from={checkpoint} training.stop_after=2u training.precision=f32"
        options += " data.tokens_per_update=500 validation.every=0 validation.bleu_every=0 checkpoint.every=2u"
        words = ["--config", checkpoint / "config.yaml", "--run-dir", "run", "--server", "none", *options.split()]
        done = call("worker", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        trained = data_of(self.exported(Path("run"), "trained") / "opus.npz")
        before = data_of(folder / "opus.npz")
        self.assertEqual(
            {name: len(data) for name, data in trained.items()}, {name: len(data) for name, data in before.items()}
        )
        self.assertNotEqual(trained["Wemb.npy"], before["Wemb.npy"])

    def test_what_is_damaged_or_wrong_gets_one_line(self) -> None:
        folder = Path("model")
        self.own_vocabulary(folder).write(folder / "model.npz")
        whole = (folder / "model.npz").read_bytes()
        for size in (0, 1, 30, 1000, len(whole) // 2, len(whole) - 30, len(whole) - 1):
            (folder / "model.npz").write_bytes(whole[:size])
            self.assertIn("model.npz: ", self.refused(folder, 1))
        (folder / "model.npz").write_bytes(whole)
        (folder / "other.npz").write_bytes(whole)
        self.assertIn("found model.npz, other.npz, expected one model", self.refused(folder, 2))
        self.assertIn("nothing", self.refused(Path("nothing.zip"), 1))
        for words in (["--positions", "marian"], ["--vocabulary", "data/spm.model"]):
            done = call("nmt", "import", folder / "model.npz", "--output", "refused", *words)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)

    @unittest.skipUnless(PROGRAMS, "needs MARIAN_PROGRAMS, a folder with marian-scorer and marian-decoder")
    def test_scores_and_greedy_translations_equal_marians(self) -> None:
        folder = Path("model")
        self.own_vocabulary(folder).write(folder / "model.npz")
        checkpoint = self.imported(folder, "checkpoint")
        vocabularies = ["-m", folder / "model.npz", "-v", folder / "vocab.spm", folder / "vocab.spm", "--quiet"]
        vocabularies += ["--cpu-threads", "1", "--workspace", "200", "--mini-batch", "1"]
        scorer = [f"{PROGRAMS}/marian-scorer", *vocabularies, "-t", *self.text]
        theirs = subprocess.run(scorer, capture_output=True, text=True, timeout=600, check=True).stdout.split()
        words = ["--source", self.text[0], "--target", self.text[1]]
        done = call("nmt", "score", "--checkpoint", checkpoint, *words, check=True)
        ours = [line.split("\t")[0] for line in done.stdout.splitlines()]
        self.assertEqual(len(ours), len(theirs))
        for own, other in zip(ours, theirs):
            self.assertAlmostEqual(float(own), float(other), delta=1e-4 * max(1, abs(float(other))))
        decoder = [f"{PROGRAMS}/marian-decoder", *vocabularies, "-i", self.text[0], "--beam-size", "1", "--allow-unk"]
        theirs = subprocess.run(decoder, capture_output=True, text=True, timeout=600, check=True).stdout.splitlines()
        limits = "--beam 1 --length-penalty 0 --max-length-factor 3 --max-length-extra 3 --split long".split()
        done = call("nmt", "translate", "--checkpoint", checkpoint, "--input", self.text[0], *limits, check=True)
        pairs = list(zip(done.stdout.splitlines(), theirs, strict=True))
        equal = sum(re.sub(r"\s+", " ", own) == re.sub(r"\s+", " ", other) for own, other in pairs)
        self.assertGreaterEqual(equal, 0.99 * len(pairs), pairs[:3])


if __name__ == "__main__":
    unittest.main()
