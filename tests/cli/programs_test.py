"""`nmt prepare`, `evaluate`, `average`, `interpolate`, `export` and `translate` as programs: output, exit codes, messages."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
import unittest
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from cases import NmtTest, nmt, train_tiny_model  # noqa: E402
from system import AS_ROOT, BIN, MPIRUN, call, poison, sha256  # noqa: E402


def setUpModule() -> None:
    train_tiny_model()
    Path("bad.en").write_bytes(b"the old cat .\nthe \xff dog .\n")
    Path("two.de").write_text("eins .\nzwei .\n", encoding="utf-8")


def copy_of_checkpoint(name: str) -> Path:
    shutil.copytree("run/checkpoints/update-00000004", name)
    return Path(name)


def worker(*words: str) -> subprocess.CompletedProcess:
    return call("worker", "--config", "config.yaml", "--server", "none", *words)


class ProgramsTest(NmtTest):
    def test_wrong_words_are_usage(self) -> None:
        self.complain_all(
            """
2 |  | expected a command: prepare, translate
2 | tranlsate | did you mean 'translate'?
2 | translate --chekpoint run | did you mean '--checkpoint'?
2 | translate --checkpoint run --precision f16 | --precision | f16 | bf16
2 | translate --checkpoint run --beam 0 | --beam: found 0, expected 1 to 1000 (`nmt translate --help` lists the options)
2 | translate --checkpoint run --batch-tokens 0 | --batch-tokens: found 0, expected 1 to 1000000 (`nmt translate --help`
2 | translate --checkpoint run --n-best 9 | --n-best: found 9, expected at most --beam, 5
2 | translate --checkpoint run --length-formula 1 | --length-formula: found '1', expected power, gnmt or pieces
2 | prepare --train toy1.en toy1.de --output x --min-words -5 | --min-words: found -5, expected 1 to 1000000
2 | prepare --train toy1.en toy1.de --output x --min-words 9 --max-words 8 | --min-words: found 9, expected at most --max-words, 8
2 | prepare --train toy1.en toy1.de --output x --max-pieces 0 | --max-pieces: found 0, expected 1 to 1000000
2 | prepare --train toy1.en toy1.de --output config.yaml | --output: config.yaml is a file, expected a folder
"""
        )
        Path("empty").mkdir()
        self.complain_all(
            """
2 | prepare --train toy1.en toy1.de --output x --vocabulary empty | --vocabulary: empty/spm.model: no such file
2 | evaluate --checkpoint run --data data --source toy2.en | --data, or --source and --reference
2 | evaluate --checkpoint run --source toy2.en | --data, or --source and --reference
2 | prepare --train toy1.en toy1.de | --output is required
2 | prepare --train toy1.en --output x | --train: found 1 file, 'toy1.en' (plain text) is without a target
2 | prepare --train toy1.en toy1.de --output x --vocabulary-size 3 | --vocabulary-size | 16
2 | average --output x | checkpoints is required
2 | interpolate run data --output x --alpha 0:1.1:0.1 | --alpha: expected FROM:TO:STEP | found '0:1.1:0.1'
2 | interpolate run data --output x --alpha 0.6:0.5:0.1 | --alpha: expected | found '0.6:0.5:0.1'
2 | interpolate run data --output x --alpha -0.1:1:0.1 | --alpha: expected | found '-0.1:1:0.1'
2 | interpolate run data --output x --alpha 0:1:0 | --alpha: expected | found '0:1:0'
2 | interpolate run data --output x --alpha 0:1:0.0099 | at most 101 values, found '0:1:0.0099'
2 | interpolate run data --output x --keep 1.1 | --keep: found 1.1, expected 0 to 1
2 | interpolate run data --output empty | interpolate: empty exists already
2 | interpolate run data --output nowhere/x | nowhere: no such folder
2 | interpolate run run/checkpoints/best --output none | interpolate: BASE and TUNED are both
2 | average --output x --last 1 run data | --last takes the folder of one run, found 2
"""
        )

    def test_probes_are_saved_and_compared(self) -> None:
        save = "probe save --preset transformer-tiny --batch random:2x4/3 --precision f32 --threads 1 --output"
        self.succeeds(f"{save} a.jsonl")
        self.succeeds(f"{save} b.jsonl")
        self.assertIn("probes: same", self.succeeds("probe compare a.jsonl b.jsonl"))
        self.succeeds(f"{save} c.jsonl training.seed=2")
        done = nmt("probe compare a.jsonl c.jsonl --color always")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr, "")
        self.assertIn("first divergence: update 1, start, layer embedding, start.weight of embedding", done.stdout)
        self.assertIn("\x1b[31mdiff", done.stdout)
        result = json.loads(nmt("probe compare a.jsonl c.jsonl --json").stdout)
        self.assertEqual((result["probes"], result["first"]["layer"]), ("differ", "embedding"))
        self.succeeds(f"{save} d.jsonl --mode inference --layers first10,last10")
        self.complains("probe compare a.jsonl d.jsonl", 2, "a.jsonl and d.jsonl have different modes", "--anyway")
        self.assertIn("encoder.0.attention.qkv", self.succeeds("probe print d.jsonl --fields layer,op,rms"))
        self.succeeds("probe save --checkpoint run --output e.jsonl --updates 2")
        self.succeeds("probe save --config config.yaml --output f.jsonl --first-update 5 --updates 2")
        header = json.loads(Path("e.jsonl").read_text().splitlines()[0])
        self.assertEqual(header["first_update"], 5)
        state = json.loads(Path("run/checkpoints/best/state.json").read_text())
        self.assertEqual(header["weights"], state["weights"]["root"])
        self.assertEqual(  # the checkpoint's data follow those of update 4
            *(json.loads(Path(name).read_text().splitlines()[-1])["batch"] for name in ("e.jsonl", "f.jsonl"))
        )
        self.complain_all(
            """
2 | probe print d.jsonl --fields layer,opp | 'opp' is no member of a record; did you mean 'op'?
1 | probe print config.yaml | config.yaml:1: 
2 | probe compare a.jsonl absent.jsonl | absent.jsonl: no such file, expected a probe
2 | probe compare a.jsonl | expected two probes or two folders, found one
2 | probe compare a.jsonl . | expected two files or two folders
2 | probe compare a.jsonl b.jsonl --tolerance 4 | expected 0 or limits such as 4ulp | '4'
2 | probe compare data --ranks | data: expected probes of several ranks
2 | probe save --output refused | expected one of --config, --checkpoint and --preset, found 0
2 | probe save --output refused --preset tiny | 'tiny' is no preset
2 | probe save --output refused --preset all --batch random:2 | --batch: expected corpus or random:
"""
        )
        self.complains(f"{save} refused --layers encodr.0", 2, "'encodr.0' matches no layer; did you mean 'encoder.0'?")
        self.complains(f"{save} refused --tensors nothing", 2, "tensors: 'nothing' matches no tensor")
        self.assertFalse(Path("refused").exists())
        repeat = "probe repeat --preset transformer-tiny --batch random:2x4/3 --threads 2 -n 3 --busy"
        self.assertEqual(self.succeeds(repeat), "transformer-tiny: 3 runs: the same\n")

    def test_weights_of_checkpoints_are_compared(self) -> None:
        self.assertEqual(self.succeeds("probe weights run run").splitlines()[0], "weights: same")
        first, *_, last = sorted(Path("run/checkpoints").glob("update-*"))
        self.assertNotEqual(first, last)
        done = nmt(f"probe weights {first} {last}")
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        self.assertEqual(done.stdout.splitlines()[0], "weights: differ")
        self.assertRegex(done.stdout, r"encoder\.0\.attention\.qkv\.weight +diff +\d+ of \d+ ")
        result = json.loads(self.succeeds(f"probe weights {first} {last} --tolerance 1e9abs --json"))
        self.assertEqual(result["weights"], "close")
        self.complains(f"probe weights {first} nowhere", 2, "nowhere: no such folder")
        self.complains("probe weights run run --tolerance 4", 2, "--tolerance: expected 0 or limits such as 4ulp")

    def test_outputs_are_opened_when_all_else_is_in_order(self) -> None:
        Path("kept").write_text("the cat .\n", encoding="utf-8")
        self.complain_all(
            """
1 | translate --checkpoint nowhere --output kept | nowhere: no such folder
2 | translate --checkpoint run --input kept --output ./kept | --output: ./kept is also the input
1 | evaluate --checkpoint run --data data --max-sentences 1 --output nowhere/out | nowhere/out: cannot create
"""
        )
        self.assertEqual(Path("kept").read_text(encoding="utf-8"), "the cat .\n")

    def test_missing_files_are_named(self) -> None:
        self.complain_all(
            """
1 | prepare --train nowhere.en toy1.de --output x | nowhere.en: No such file
2 | prepare --train toy1.en toy1.de --output x --vocabulary nowhere.model | --vocabulary: nowhere.model: no such file
1 | translate --checkpoint nowhere | nowhere: no such folder
1 | translate --checkpoint data | data: no checkpoint here; expected state.json
1 | translate --checkpoint run --input nowhere.en | cannot open nowhere.en: No such file or directory
1 | translate --checkpoint run --input data | cannot read data: it is a folder
1 | translate --checkpoint run --input /proc/self/mem | cannot read /proc/self/mem after line 0: Input/output error
1 | translate --checkpoint run --output nowhere/out.de | nowhere/out.de: cannot be written
1 | evaluate --checkpoint run --data nowhere | nowhere: no manifest.json
"""
        )
        shutil.move("data", "moved")
        missing = "of the checkpoint, data, is not here; expected --data, or --source and --reference"
        self.complains("evaluate --checkpoint run", 2, missing)
        shutil.move("moved", "data")
        self.complain_all(
            """
1 | evaluate --checkpoint run --data data --set nowhere | no set 'nowhere', only train, valid, test
1 | evaluate --checkpoint run --source toy2.en --reference nowhere.de | nowhere.de: No such file
1 | average --output none nowhere | nowhere/state.json: No such file
1 | average --output bad.en/mean run/checkpoints/update-00000004 | average:  | bad.en: Not a directory
1 | average --output none --last 3 run | run: found 2 of 3 checkpoints; --last 2 takes all
2 | average --output none run | average: run is a run's folder: add --last N
1 | average --output none --last 1 data | data: no checkpoint here
2 | export --checkpoint run --output x | --to is required
1 | import nowhere --output new-model | import: nowhere: No such file or directory
2 | import data --output new-model | import: data: found neither model.bin, model.safetensors nor .npz, expected a folder for CTranslate2
2 | import data --output run | import: run exists already
2 | prepare --train toy1.en toy1.de --valid toy2.en toy2.de --output x --symbols <a>,<a> | --symbols: found <a> twice
2 | prepare --train toy1.en toy1.de --vocabulary run/checkpoints/update-00000004 --output x --symbols </s> | --symbols: </s> is a piece
2 | export --checkpoint run --to ctranslate2 --output data | export: data exists already
1 | export --checkpoint data --to ctranslate2 --output x | data: no checkpoint here
1 | export --checkpoint run --to ctranslate2 --output x --sources nowhere.en | nowhere.en: No such file
1 | export --checkpoint run --to ctranslate2 --output x --sources bad.en | bad.en:2: byte 5 is not UTF-8
2 | export --checkpoint run --to ctranslate2 --quantization int4 --output x | --quantization: found 'int4', expected float32, bfloat16 or int8
2 | export --checkpoint run --to ctranslate2 --output x --lines 0 | --lines: found 0, expected 1 to 1000000
2 | export --checkpoint run --to huggingface --quantization int8 --output x | --quantization: found int8, which only --to ctranslate2 and argos have
2 | export --checkpoint run --to marian --output new-model --sources toy1.en | export: Marian needs a model with model.norm: post (found pre), model.norm_epsilon: 1e-6 (found 1e-05)
2 | export --checkpoint run --to bergamot --output new-model --sources toy1.en | export: Bergamot needs a model with | model.width: a multiple of 64
2 | export --checkpoint run --to argos --output x --from en | --into: found '', expected a language's code, such as en
2 | export --checkpoint run --to argos --output x --from English --into de | --from: found 'English', expected
2 | export --checkpoint run --to argos --output x --from de --into de | --into: found de again
2 | export --checkpoint run --to ctranslate2 --output x --into de | --into: only --to argos has it
"""
        )

    def test_an_export_without_sources_has_no_conformance(self) -> None:
        shutil.move("data", "moved")
        self.addCleanup(shutil.move, "moved", "data")
        words = "export --checkpoint run --to ctranslate2"
        self.complains(f"{words} --output none", 2, "validation set is not here; expected --sources FILE")
        self.succeeds(f"{words} --output without --sources-optional --memory-mb 8192 --end-with-parent")
        self.assertFalse(Path("without/conformance.jsonl").exists())
        self.assertNotIn("conformance", Path("without/README.md").read_text())

    def test_a_package_for_argos_is_the_same_twice(self) -> None:
        for name in ("first", "second"):
            self.succeeds("export --checkpoint run --to argos --from en --into de --output new/en-de.argosmodel")
            Path("new").rename(name)
        names = ["README.md", "conformance.jsonl", "metadata.json", "sentencepiece.model"]
        model = [f"model/{name}" for name in ("config.json", "model.bin", "shared_vocabulary.json")]
        with zipfile.ZipFile("first/en-de.argosmodel") as package:
            self.assertIsNone(package.testzip())
            expected = sorted(f"translate-en_de-1_0/{name}" for name in names + model)
            self.assertEqual(package.namelist(), expected)
            languages = json.loads(package.read("translate-en_de-1_0/metadata.json"))
            self.assertEqual((languages["from_name"], languages["to_name"]), ("English", "German"))
        self.assertEqual(os.listdir("first"), ["en-de.argosmodel"])
        self.assertEqual(sha256(Path("first/en-de.argosmodel")), sha256(Path("second/en-de.argosmodel")))

    def test_an_exported_model_is_imported_and_translates_alike(self) -> None:
        self.succeeds("export --checkpoint run --to ctranslate2 --output exported")
        self.assertIn("1+1 layers", self.succeeds("import exported --output imported"))
        text = Path("toy2.en").read_text(encoding="utf-8")
        expected = self.succeeds("translate --checkpoint run", text)
        self.assertEqual(self.succeeds("translate --checkpoint imported", text), expected)
        start = ["data.folder=data", "training.start_from=imported", "training.stop_after=1u"]
        done = call("worker", "--config", "imported/config.yaml", "--server", "none", "--run-dir", "tuned", *start)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_unequal_files_are_refused(self) -> None:
        self.complain_all(
            """
1 | prepare --train toy1.en toy2.de --output x | toy1.en has 400 lines, toy2.de has 20 | --unequal truncate
1 | evaluate --checkpoint run --source toy1.en --reference toy2.de | toy1.en has 400 lines, toy2.de has 20
"""
        )
        self.succeeds("prepare --train toy1.en toy2.de --output x --vocabulary data/spm.model --unequal truncate")

    def test_invalid_text_is_named_by_file_and_line(self) -> None:
        self.complains(
            "evaluate --checkpoint run --source bad.en --reference two.de", 1, "bad.en:2: byte 5 is not UTF-8"
        )
        report = json.loads(
            self.succeeds("prepare --train bad.en two.de --output x --vocabulary data/spm.model --json")
        )
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
        for command in (
            "translate --checkpoint {}",
            "evaluate --data data --checkpoint {}",
            "average --output none {}",
            "interpolate --output none run/checkpoints/update-00000002 {}",
            "interpolate --output none {} run",
            "score --source toy2.en --target toy2.de --checkpoint {}",
            "export --to ctranslate2 --output none --checkpoint {}",
        ):
            self.complains(command.format("flipped"), 1, "flipped", "weights.safetensors: SHA-256 is")
            self.complains(command.format("cut"), 1, "cut", "weights.safetensors", "bytes, expected")
            self.complains(command.format("torn"), 1, "torn/state.json", "incomplete JSON")
            self.complains(command.format("partial"), 1, "partial/spm.model: No such file")

    def test_weights_that_are_not_finite_are_refused(self) -> None:
        poison(copy_of_checkpoint("dead"), "decoder.norm.gain")
        words = "weights are not finite: decoder.norm.gain[0] is nan"
        for command in (
            "translate --checkpoint dead",
            "translate --serve --checkpoint dead",
            "evaluate --data data --checkpoint dead",
            "score --source toy2.en --target toy2.de --checkpoint dead",
            "average --output none run/checkpoints/update-00000002 dead",
            "interpolate --output none run/checkpoints/update-00000002 dead",
            "interpolate --output none dead run",
            "export --to huggingface --output none --checkpoint dead",
        ):
            self.complains(command, 1, "dead", words)
        self.assertFalse(Path("none").exists())
        shutil.copytree("run", "poisoned", symlinks=True)
        poison(Path("poisoned/checkpoints/update-00000004"), "decoder.norm.gain")
        done = worker("--run-dir", "poisoned", "training.stop_after=6u")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(words, done.stderr)
        self.assertEqual(os.readlink("poisoned/checkpoints/best"), os.readlink("run/checkpoints/best"))

    def test_damaged_checkpoints_are_not_begun_over(self) -> None:
        shutil.copytree("run", "broken", symlinks=True)
        for weights in sorted(Path("broken/checkpoints").glob("update-*/weights.safetensors")):
            weights.write_bytes(weights.read_bytes()[:-100])
        kept = sha256(Path("broken/checkpoints/update-00000004/weights.safetensors"))
        done = worker("--run-dir", "broken")
        self.assertEqual(done.returncode, 1, done.stderr)
        [line] = [line for line in done.stderr.splitlines() if "error" in line]
        for word in (
            "none of 2 can be used",
            "--from-scratch",
            "update-00000002/weights.safetensors",
            "update-00000004/weights.safetensors",
        ):
            self.assertIn(word, line)
        done = worker("--run-dir", "broken", "--from-scratch")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sha256(Path("broken/checkpoints/aside/update-00000004/weights.safetensors")), kept)
        self.assertEqual(
            sha256(Path("broken/checkpoints/update-00000004/weights.safetensors")),
            sha256(Path("run/checkpoints/update-00000004/weights.safetensors")),
            "trained anew from update 1",
        )
        done = worker("--run-dir", "broken", "--from-scratch", "--resume-from", "run/checkpoints/update-00000002")
        self.assertEqual(done.returncode, 2, done.stderr)

    def test_empty_sets_are_refused_by_the_worker(self) -> None:
        shutil.copytree("data", "hollow")
        manifest = json.loads(Path("hollow/manifest.json").read_text(encoding="utf-8"))
        for name in ("valid", "train"):
            [entry] = [entry for entry in manifest["sets"] if entry["name"] == name]
            entry |= {"sentences": 0, "source_tokens": 0, "target_tokens": 0}
            Path("hollow/manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
            done = worker("--run-dir", "hollow-run", "data.folder=hollow")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn(f"data.{name}_set: set '{name}' of hollow has 0 sentence pairs", done.stderr)
            self.assertFalse(Path("hollow-run").exists(), "nothing was begun")

    def test_vocabularies_must_be_the_models_own(self) -> None:
        self.succeeds("prepare --train toy1.en toy1.de --test toy2.en toy2.de --output other --vocabulary-size 100")
        self.complain_all(
            """
1 | evaluate --checkpoint run --data other --set test | other: prepared with vocabulary
1 | prepare --train toy1.en toy1.de --output x --vocabulary toy1.en | toy1.en: not a SentencePiece model
"""
        )

    def test_bf16_on_a_processor_without_it_runs_or_says_so_at_once(self) -> None:
        old = {"ONEDNN_MAX_CPU_ISA": "AVX2", "BABELRING_CPU_ISA": "avx2"}
        worker = [BIN / "worker", "--config", "config.yaml", "--server", "none"]
        for command, code, way_out in (
            ([BIN / "nmt", "translate", "--checkpoint", "run", "--precision", "bf16"], 1, "--precision f32"),
            ([*worker, "--run-dir", "old", "training.precision=bf16"], 2, "training.precision=f32"),
        ):
            done = subprocess.run(
                command, input="the cat .\n", capture_output=True, text=True, env={**os.environ, **old}
            )
            if done.returncode == 0:
                continue  # computed another way
            self.assertEqual(done.returncode, code)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertRegex(done.stderr, f"precision: cpu .*avx2.* has no matmul of bf16 .*; use {way_out}")
            self.assertFalse(Path("old").exists(), "nothing was begun")
        subprocess.run(
            [*worker, "--run-dir", "old32", "training.precision=f32"],
            env={**os.environ, **old},
            check=True,
            capture_output=True,
        )

    def test_a_run_whose_last_checkpoint_cannot_be_written_fails(self) -> None:
        self.tmpfs(self.folder / "full/checkpoints", "64k")
        words = ["--config", "config.yaml", "--run-dir", self.folder / "full", "--server", "none"]
        done = subprocess.run(
            [*MPIRUN, "-np", "2", BIN / "worker", *words],
            capture_output=True,
            text=True,
            timeout=600,
            env=os.environ | AS_ROOT,
        )
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(
            done.stderr, "error: checkpoint of update 2 was not written, training goes on: .*No space left on device"
        )
        self.assertRegex(
            done.stderr,
            "error: on .*: checkpoint of update 4 was not written, and what was trained since update 0 is lost: "
            ".*No space left on device",
        )
        self.assertIn(
            '"event":"failed"', (self.folder / "full/spool/attempt-1/rank-0.jsonl").read_text(encoding="utf-8")
        )

    def test_a_run_folder_that_cannot_be_made_is_reported(self) -> None:
        for folder in ("bad.en", "bad.en/run", "/proc/run"):
            done = subprocess.run(
                [BIN / "worker", "--config", "config.yaml", "--server", "none", "--run-dir", folder],
                capture_output=True,
                text=True,
            )
            self.assertEqual(done.returncode, 2)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn(f"run folder {Path(folder).absolute()}: cannot create it: ", done.stderr)

    def test_translate_answers_each_line(self) -> None:
        text = "the old cat sees the dog .\n\nthe green tree .\n"
        lines = self.succeeds("translate --checkpoint run --beam 2", text).split("\n")
        self.assertEqual(len(lines), 4)
        self.assertEqual(lines[1], "")
        answers = [
            json.loads(line)
            for line in self.succeeds("translate --checkpoint run --beam 2 --n-best 2 --json", text).splitlines()
        ]
        self.assertEqual([answer["line"] for answer in answers], [1, 2, 3])
        self.assertEqual([answer["text"] for answer in answers], lines[:3])
        self.assertEqual(len(answers[0]["n_best"]), 2)
        self.assertEqual(self.succeeds("translate --checkpoint run --output out.de --beam 2", text), "")
        self.assertEqual(Path("out.de").read_text(encoding="utf-8").split("\n"), lines)

    def test_translate_reads_gzip_and_a_byte_order_mark(self) -> None:
        text = "the old cat sees the dog .\nthe green tree .\n"
        expected = self.succeeds("translate --checkpoint run --beam 2", text)
        Path("marked.en").write_text(text, encoding="utf-8-sig")
        Path("packed").write_bytes(gzip.compress(text.encode("utf-8-sig")))
        self.assertEqual(self.succeeds("translate --checkpoint run --beam 2 --input marked.en"), expected)
        self.assertEqual(self.succeeds("translate --checkpoint run --beam 2 --input packed"), expected)
        with open("packed", "rb") as packed:
            done = subprocess.run(
                [BIN / "nmt", "translate", "--checkpoint", "run", "--beam", "2"],
                stdin=packed,
                capture_output=True,
                text=True,
            )
        self.assertEqual((done.returncode, done.stdout), (0, expected))

    def test_translate_gives_the_lines_before_invalid_text(self) -> None:
        first = self.succeeds("translate --checkpoint run --beam 2", "the old cat .\n")
        done = nmt("translate --checkpoint run --beam 2 --input bad.en")
        self.assertEqual((done.returncode, done.stdout), (1, first))
        self.assertEqual(done.stderr, "nmt: bad.en:2: byte 5 is not UTF-8 (--invalid replace continues)\n")
        packed = gzip.compress(("the old cat .\n" * 200).encode() + os.urandom(5000).hex().encode())
        Path("torn.gz").write_bytes(packed[:-200])
        done = nmt("translate --checkpoint run --beam 1 --input torn.gz --output torn.de")
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot read torn.gz after line 200: damaged or truncated gzip data", done.stderr)
        self.assertEqual(len(Path("torn.de").read_text(encoding="utf-8").splitlines()), 200)

    def test_translate_replaces_invalid_text_on_request(self) -> None:
        done = nmt("translate --checkpoint run --beam 2 --input bad.en --invalid replace --json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(
            [json.loads(line)["source"] for line in done.stdout.splitlines()], ["the old cat .", "the \ufffd dog ."]
        )
        self.assertIn("bad.en: replaced invalid UTF-8 by U+FFFD: bytes 1, lines 1, first at line 2", done.stderr)
        self.complains("translate --checkpoint run --invalid drop", 2, "--invalid", "drop", "replace")

    def test_translate_bounds_the_length_of_a_line(self) -> None:
        Path("endless.en").write_text("the cat .\n" + "x" * (1 << 20) + "x\n", encoding="utf-8")
        done = nmt("translate --checkpoint run --beam 1 --input endless.en")
        self.assertEqual((done.returncode, len(done.stdout.splitlines())), (1, 1))
        self.assertEqual(
            done.stderr, "nmt: endless.en:2: over 1048576 bytes (--invalid replace cuts the line and continues)\n"
        )
        # The limit lies inside of a letter, of which a line of letters and spaces has one each five bytes.
        Path("endless.en").write_text(f"the cat .\n{'𝔞 ' * (1 << 18)}\nthe dog .\n", encoding="utf-8")
        limits = "--beam 1 --max-length-factor 0 --max-length-extra 1"
        done = nmt(f"translate --checkpoint run {limits} --input endless.en --invalid replace")
        self.assertEqual((done.returncode, done.stdout.count("\n")), (0, 3), done.stderr)
        self.assertIn(
            "endless.en: lines over 1048576 bytes, of which only the first 65536 are translated: 1, first line 2",
            done.stderr,
        )
        self.assertNotIn("U+FFFD", done.stderr)

    def test_translate_splits_long_lines_at_sentence_ends(self) -> None:
        sentences = ["The old cat sees the dog .", "The green tree .", "The dog ."] * 6
        limit = ["translate", "--checkpoint", "run", "--beam", "1", "--max-source", "40"]
        apart = self.succeeds(" ".join(limit), "".join(f"{sentence}\n" for sentence in sentences)).splitlines()
        done = nmt(" ".join([*limit, "--json"]), f"{sentences[2]}\n{' '.join(sentences)}\n{sentences[1]}\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(
            [answer["text"] for answer in answers], [apart[2], " ".join(part for part in apart if part), apart[1]]
        )
        self.assertEqual([answer["parts"] for answer in answers], [1, 18, 1])
        self.assertIn("1 line has more than 40 pieces: split", done.stderr)
        self.assertNotIn("warn", done.stderr)
        done = nmt(" ".join(limit), "the cat " * 40 + "\n")
        self.assertEqual(len(done.stdout.splitlines()), 1)
        self.assertRegex(done.stderr, "line 1: [0-9]+ pieces, split inside a sentence into [0-9]+ parts")

    def test_unlike_checkpoints_are_not_merged(self) -> None:
        trained = "run/checkpoints/update-00000004"
        config = Path("config.yaml").read_text(encoding="utf-8")
        self.succeeds(
            "prepare --train toy1.en toy1.de --valid toy2.en toy2.de --output other-pieces --vocabulary-size 120 --normalization identity"
        )
        Path("post.yaml").write_text(config.replace("dropout: 0", "dropout: 0.1, norm: post"), encoding="utf-8")
        Path("again.yaml").write_text(config.replace("dropout: 0", "dropout: 0.2"), encoding="utf-8")
        Path("pieces.yaml").write_text(config.replace("folder: data", "folder: other-pieces"), encoding="utf-8")
        for name in ("post", "again", "pieces"):
            subprocess.run(
                [BIN / "worker", "--config", f"{name}.yaml", "--run-dir", f"run-{name}", "--server", "none"],
                check=True,
                capture_output=True,
            )
        for command in ("average", "interpolate"):
            for name, words in (
                ("pieces", "have different vocabularies: spm.model is "),
                ("post", "are different models: model.norm is pre and post"),
            ):
                other = f"run-{name}/checkpoints/update-00000004"
                self.complains(
                    f"{command} --output none {trained} {other}", 1, f"{command}: ", f"{trained} and ", words
                )
        self.assertFalse(Path("none").exists())
        done = nmt(f"average --output of-two-runs {trained} run-again/checkpoints/update-00000004")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(
            done.stderr, "warning: average: the checkpoints are from different runs: r_[0-9A-Z]+, r_[0-9A-Z]+"
        )
        self.assertNotIn("different runs", nmt("average --output of-one-run --last 2 run").stderr)

    def test_interpolate_scores_between_two_checkpoints_and_writes_the_best(self) -> None:
        base, tuned = "run/checkpoints/update-00000002", "run/checkpoints/update-00000004"
        words = f"interpolate {base} {tuned} --json --on valid,toy=toy2.en:toy2.de,half=data:test"
        found = json.loads(self.succeeds(f"{words} --alpha 0:1:0.25 --by loss --output between --svg between.svg"))
        points = found["points"]
        self.assertEqual([point["alpha"] for point in points], [0, 0.25, 0.5, 0.75, 1])
        self.assertEqual([list(point["sets"]) for point in points], [["valid", "toy", "half"]] * 5)
        means = [sum(scores["loss"] for scores in point["sets"].values()) for point in points]
        self.assertEqual(found["chosen"], points[means.index(min(means))]["alpha"])
        self.assertGreater(max(means), min(means))
        self.assertIn("<svg", Path("between.svg").read_text(encoding="utf-8"))
        state = json.loads(Path("between/state.json").read_text(encoding="utf-8"))["state"]
        origin = {"base": "update-00000002", "tuned": "update-00000004", "alpha": found["chosen"]}
        self.assertEqual(state["interpolated_from"], origin)
        for checkpoint, point in ((base, points[0]), (tuned, points[-1])):
            alone = json.loads(self.succeeds(f"evaluate --checkpoint {checkpoint} --set valid --json"))
            for name in ("valid", "toy", "half"):  # the same text, in three ways
                self.assertEqual(point["sets"][name]["loss"], alone["loss"])
        for alpha, checkpoint in ((0, base), (1, tuned)):
            self.succeeds(f"{words} --alpha {alpha}:{alpha}:1 --output end-{alpha}")
            self.assertEqual(
                sha256(Path(f"end-{alpha}/weights.safetensors")), sha256(Path(checkpoint, "weights.safetensors"))
            )

        digests, printed = set(), set()
        for threads in (1, 2):
            run = f"--alpha 0.3:0.7:0.2 --output by-{threads} --threads {threads}"
            figures = json.loads(self.succeeds(f"{words} {run}"))
            printed.add(
                json.dumps([figures["chosen"], [list(p["sets"]["valid"].items())[2:] for p in figures["points"]]])
            )
            digests.add(sha256(Path(f"by-{threads}/weights.safetensors")))
        self.assertEqual((len(digests), len(printed)), (1, 1))
        for use in ("translate --beam 1", "evaluate --set test", "export --to ctranslate2 --output between-ct2"):
            self.succeeds(f"{use} --checkpoint between", "the old cat .\n")
        self.succeeds(f"average --output between-mean between {tuned}")
        done = worker("--run-dir", "run-between", "training.start_from=between", "training.stop_after=1u")
        self.assertEqual(done.returncode, 0, done.stderr)

        table = self.succeeds(
            f"interpolate {base} {tuned} --alpha 0:1:0.5 --on valid,half=data:test --keep 0 --output forgetful"
        )
        self.assertRegex(table, r"ALPHA +valid loss +valid BLEU +valid chrF2 .*half chrF2")
        self.assertRegex(
            table, r"/forgetful: alpha [01.5]+, the greatest sacreBLEU on valid that keeps 0 % of BASE's on every"
        )
        self.complain_all(
            f"""
2 | interpolate {base} {tuned} --output none --on nope | --on: 'nope' is no validation set of the run (valid); expected
2 | interpolate {base} {tuned} --output none --on valid,valid=data | --on: valid is given twice
2 | interpolate {base} {tuned} --output none --keep 0.9 | --keep: needs alpha 0 and at least two sets, found | 1 set
1 | interpolate {base} {tuned} --output none --on half=data:dev | no set 'dev', only train, valid, test
1 | interpolate {base} {tuned} --output none --on toy=toy1.en:toy2.de | toy1.en has 400 lines, toy2.de has 20
1 | interpolate nowhere {tuned} --output none | nowhere: no such folder
1 | interpolate {base} data --output none | data: no checkpoint here
"""
        )
        self.assertFalse(Path("none").exists())

    def test_evaluate_and_average_go_together(self) -> None:
        self.assertIn("mean of 2 checkpoints", self.succeeds("average --output mean --last 2 run"))
        self.complains("average --output mean --last 2 run", 2, "mean exists already")
        done = nmt("average --output one run/checkpoints/update-00000004 run/checkpoints/best ./run/checkpoints/best/")
        self.assertTrue(done.stdout.endswith("/one: mean of 1 checkpoint\n"), done.stdout + done.stderr)
        self.assertEqual(done.stderr.count("is run/checkpoints/update-00000004 again and counts once"), 2, done.stderr)
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
        table = self.succeeds(
            "evaluate --checkpoint mean --source toy2.en --reference toy2.de --max-sentences 2 --beam 1"
        )
        self.assertIn("BLEU = ", table)
        self.assertIn("teacher-forced BLEU ", table)


if __name__ == "__main__":
    unittest.main()
