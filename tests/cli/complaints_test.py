"""Bad command lines and files: each program answers with one line on standard error and the exit code of the house."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from cases import FolderTest  # noqa: E402
from system import AS_ROOT, BIN, MPIRUN, call  # noqa: E402

FAILED, WRONG_USAGE = 1, 2


class ComplaintsTest(FolderTest):
    def setUp(self) -> None:
        super().setUp()
        self.change_to_folder()
        Path("file").write_text("text\n", encoding="utf-8")
        Path("misspelt.yaml").write_text("training:\n  precison: f32\n", encoding="utf-8")
        Path("torn.yaml").write_text("a: [1\n", encoding="utf-8")
        Path("utf16.yaml").write_text("data: {folder: nowhere}\n", encoding="utf-16")
        Path("good.yaml").write_text("data: {folder: nowhere}\n", encoding="utf-8")
        Path("damaged").mkdir()
        Path("damaged/babelring.db").write_text("no database\n", encoding="utf-8")

    def complains(self, command: str, code: int, *words: str) -> None:
        with self.subTest(command=command):
            program, *arguments = command.split()
            done = call(program, *arguments)
            lines = done.stderr.strip().splitlines()
            self.assertEqual((done.returncode, len(lines), done.stdout), (code, 1, ""), done.stderr)
            for word in words:
                self.assertIn(word, lines[0])

    def test_server(self) -> None:
        usage = {
            "--bogus": "unknown option '--bogus' (`server --help` lists the options)",
            "--listne 127.0.0.1:0": "unknown option '--listne'; did you mean '--listen'?",
            "--translator-memory-mb -1": "--translator-memory-mb: found -1, expected 0 to 1073741824",
            "superfluous": "superfluous",
            "--listen localhost": "expected ADDRESS:PORT, found 'localhost'",
            "--listen 127.0.0.1:65536": "expected ADDRESS:PORT, found '127.0.0.1:65536'",
            "--listen 127.0.0.1:80x": "'127.0.0.1:80x'",
            "--listen 0.0.0.0:0": "--insecure",
            "--log-level loud": "'loud'",
            "--data data --listen 127.0.0.1:0 --checkpoint-root absent": "--checkpoint-root absent: No such file",
            "--profiles torn.yaml --data data": "torn.yaml:2:1",
            "--profiles misspelt.yaml --data data": "misspelt.yaml:2:3: unknown key 'training.precison'",
            "--tls-cert file --tls-key file --data data": "--tls-cert file",
            "--allow-origin somewhere": "--allow-origin",
        }
        for arguments, words in usage.items():
            self.complains(f"server {arguments}", WRONG_USAGE, "server: ", words)
        failures = {
            "--data file/data": "data folder file/data: cannot be created: Not a directory",
            "--listen 127.0.0.1:0 --data damaged": "damaged/babelring.db: file is not a database",
            "--listen 192.0.2.1:0 --insecure --data data": "cannot listen on 192.0.2.1:0",
        }
        for arguments, words in failures.items():
            self.complains(f"server {arguments}", FAILED, "server: ", words)

    def test_worker(self) -> None:
        usage = {
            "": "--config is required",
            "--config good.yaml --sever none": "unknown option '--sever'; did you mean '--server'? (`worker --help` lists the options)",
            "--config good.yaml --log-level loud": "expected trace, debug, info, warn, error or off, found 'loud'",
            "--config good.yaml --attempt x": "--attempt",
            "--config good.yaml --label team": "--label: expected KEY=VALUE, found 'team'",
            "--config good.yaml --label =mt": "label '': expected a name of 1 to 64 bytes",
            "--config absent.yaml": "worker: error: --config: absent.yaml: no such file",
            "--config utf16.yaml": "worker: error: utf16.yaml: not UTF-8 YAML",
            "--config good.yaml seed=3": "unknown key 'seed'; did you mean 'training.seed'?",
            "--config misspelt.yaml": "misspelt.yaml:2:3: unknown key 'training.precison'; did you mean",
            "--config good.yaml lonely": "override 'lonely': expected key=value",
            "--config good.yaml training.precision=f16": "found 'f16'",
            "--config good.yaml --server nowhere": "expected http://host:port",
            "--config good.yaml --server http://127.0.0.1:9 --token-file absent": "absent",
        }
        for arguments, words in usage.items():
            self.complains(f"worker {arguments}", WRONG_USAGE, words)
        self.complains(
            "worker --config good.yaml --server none --run-dir fresh", WRONG_USAGE, "nowhere: no manifest.json there"
        )
        self.assertFalse(Path("fresh").exists(), "nothing was begun")

    def test_help_for_something_unknown(self) -> None:
        for command, words in {
            "nmt nonsense --help": "nmt: unknown command 'nonsense' (`nmt --help` lists the commands)",
            "nmt tranlsate --help": "did you mean 'translate'?",
            "nmt run lsit --help": "unknown command 'lsit'; did you mean 'list'? (`nmt run --help` lists the commands)",
            "nmt translate --chekpoint x --help": "unknown option '--chekpoint'; did you mean '--checkpoint'?",
            "nmt --bogus --version": "nmt: unknown option '--bogus'",
            "worker --bogus --help": "worker: unknown option '--bogus' (`worker --help` lists the options)",
            "worker --bogus --completion bash": "worker: unknown option '--bogus'",
            "server --bogus --version": "server: unknown option '--bogus'",
            "server superfluous --help": "superfluous",
        }.items():
            self.complains(command, WRONG_USAGE, words)

    def test_worker_whose_second_host_lacks_the_authorities(self) -> None:
        # One program: mpirun of Debian's Open MPI 5.0.7 crashes when it is to start several.
        one_of_two = '[ "$OMPI_COMM_WORLD_RANK" = 0 ] || export BABELRING_CA_FILE=absent; exec "$@"'
        worker = [BIN / "worker", "--config", "good.yaml", "--server", "https://127.0.0.1:9"]
        done = subprocess.run(
            [*MPIRUN, "-np", "2", "sh", "-c", one_of_two, "sh", *worker],
            capture_output=True,
            text=True,
            timeout=600,
            env=os.environ | AS_ROOT | {"BABELRING_TOKEN": "t"},
        )
        self.assertEqual(done.returncode, WRONG_USAGE, done.stderr)
        complaints = [line for line in done.stderr.splitlines() if "absent: cannot load trusted certificates" in line]
        self.assertEqual(len(complaints), 1, done.stderr)
        self.assertRegex(complaints[0], r"worker: error: rank 1 on \S+: absent")

    def test_versions(self) -> None:
        said = {program: call(program, "--version", check=True).stdout for program in ("nmt", "worker", "server")}
        version = said["nmt"].split()[-1]
        self.assertEqual(said, {program: f"{program} {version}\n" for program in said})

    def test_worker_with_damaged_data(self) -> None:
        text = "".join(f"the quick brown fox jumps over {number} lazy dogs\n" for number in range(50))
        Path("source").write_text(text, encoding="utf-8")
        Path("target").write_text(text.replace("the", "der").replace("quick", "schnelle"), encoding="utf-8")
        prepare = "prepare --train source target --output prepared --vocabulary-size 40"
        call("nmt", *prepare.split(), check=True)
        command = "worker --config good.yaml data.folder=prepared data.valid_set="
        with open("prepared/spm.model", "ab") as model:
            model.write(b"x")
        self.complains(command, WRONG_USAGE, "prepared/spm.model: truncated or damaged", "by its manifest")
        Path("prepared/manifest.json").unlink()
        self.complains(command, WRONG_USAGE, "prepared: no manifest.json there")
        self.assertFalse(Path("runs").exists(), "a run that cannot begin leaves no folder")

    def test_text_files(self) -> None:
        text = "".join(f"the quick brown fox jumps over {number} lazy dogs\n" for number in range(50))
        Path("source").write_text(text, encoding="utf-8")
        Path("target").write_text(text.replace("the", "der").replace("quick", "schnelle"), encoding="utf-8")
        Path("packed").write_bytes(gzip.compress(lzma.compress(text.encode())))
        Path("markup").write_text('<html lang="x">\n' + text)
        Path("torn.gz").write_bytes(gzip.compress(text.encode()) + b"more")
        self.complains(
            "nmt prepare --train source target source --output x --vocabulary-size 40",
            WRONG_USAGE,
            "--train: found 3 files, 'source' (plain text) is without a target; expected source and target in turn, or",
        )
        for command in ("nmt prepare --train {} target --output x", "nmt score --reference {} --hypothesis target"):
            self.complains(command.format("packed"), FAILED, "packed is xz data inside gzip data, expected UTF-8 text")
            self.complains(command.format("markup"), FAILED, "markup:1: begins with '<html', so it is SGML or XML")
            self.complains(
                command.format("torn.gz"), FAILED, "torn.gz after line 50: damaged gzip data: byte 0x6d at offset"
            )
        self.assertFalse(Path("x").exists())

    def test_a_list_with_the_same_files_twice(self) -> None:
        for name, word in (("source", "one"), ("target", "eins")):
            Path(name).write_text("".join(f"{word} two three {number}\n" for number in range(50)), encoding="utf-8")
            Path(name + ".link").symlink_to(name)
        command = "prepare --train source target ./source target source.link target.link --output x --vocabulary-size 30 --json"
        done = call("nmt", *command.split())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["sets"][0]["pairs_read"], 50)
        self.assertEqual(done.stderr.count("are read once: they are the files source and target"), 2)

    def test_nmt_run(self) -> None:
        os.environ.pop("BABELRING_SERVER", None)
        usage = {
            "run": "expected a command",
            "run dance": "unknown command 'dance'",
            "run show": "run is required",
            "run list --server nowhere": "expected http://host:port",
            "run list --token-file absent": "absent",
            "run submit --config misspelt.yaml": "misspelt.yaml:2:3",
            "run submit --config absent.yaml": "--config: absent.yaml: no such file",
            "completion tcsh": "shell: found 'tcsh', expected bash, fish or zsh",
            "-v": "unknown option '-v'; did you mean '--version'?",
            "run stop x --grace-s -1": "--grace-s",
            "run logs x --level shout": "shout",
            "run list --server https://127.0.0.1:9 --ca-file absent": "absent: cannot load trusted certificates",
        }
        for arguments, words in usage.items():
            self.complains(f"nmt {arguments}", WRONG_USAGE, "nmt: ", words)
        self.complains(
            "nmt run list --server http://127.0.0.1:9",
            FAILED,
            "http://127.0.0.1:9: connect: Connection refused; no server listens there: start `server`",
            "BABELRING_SERVER",
        )

    SAVE = "probe save --preset transformer-tiny --threads 1 model.encoder_layers=1 model.decoder_layers=1 --output "

    def test_nmt_probe_save(self) -> None:
        save = self.SAVE
        Path("folder").mkdir()
        Path("full").symlink_to("/dev/full")
        usage = {
            "probe": "expected a command: save, print, compare, repeat, weights, backends",
            "probe save --preset transformer-tiny": "--output is required",
            "probe save --output x.jsonl": "expected one of --config, --checkpoint and --preset, found 0",
            f"{save}x.jsonl --config good.yaml": "expected one of --config, --checkpoint and --preset, found 2",
            "probe save --preset transformer-tin --output x": "'transformer-tin' is no preset; did you mean 'transformer-tiny'?",
            "probe save --preset all --output file": "--output: file is a file, expected a folder for a probe of each preset",
            "probe save --config absent.yaml --output x": "--config: absent.yaml: no such file",
            "probe save --checkpoint folder --first-update 2 --output x": "--first-update: a checkpoint says its own",
            f"{save}x.jsonl --mode test": "--mode: found 'test', expected training or inference",
            f"{save}x.jsonl --updates 0": "--updates: found 0, expected 1 to 1000",
            f"{save}x.jsonl --threads 1025": "--threads: found 1025, expected 0 to 1024",
            f"{save}x.jsonl --precision f16": "--precision: found 'f16', expected auto, f32 or bf16",
            f"{save}x.jsonl --device tpu": "--device: found 'tpu', expected auto, cpu or cuda",
            f"{save}x.jsonl --batch corpus": "--batch corpus: a preset has no data; expected --config or --checkpoint",
            f"{save}x.jsonl --batch random:0x3/3": "--batch: expected corpus or random:",
            f"{save}x.jsonl --batch random:2x3/3 --layers encoder.0.atention.qkv": (
                "layers: 'encoder.0.atention.qkv' matches no layer; did you mean 'encoder.0.attention.qkv'?"
            ),
            f"{save}x.jsonl --batch random:2x3/3 --layers first0": "layers: expected all, firstN, lastN or globs",
            f"{save}x.jsonl --batch random:2x3/3 --tensors nothing": "tensors: 'nothing' matches no tensor",
            f"{save}x.jsonl model.widht=3": "unknown key 'model.widht'; did you mean 'model.width'?",
        }
        for arguments, words in usage.items():
            self.complains(f"nmt {arguments}", WRONG_USAGE, "nmt: ", words)
        failures = {
            f"{save}absent/x.jsonl --batch random:2x3/3": "write absent/x.jsonl: cannot create",
            f"{save}full --batch random:2x3/3": "write full: ",
            "probe save --config good.yaml --output x.jsonl": "nowhere: no manifest.json there",
            "probe save --checkpoint folder --output x.jsonl": "folder: no checkpoint here; expected state.json",
        }
        for arguments, words in failures.items():
            self.complains(f"nmt {arguments}", FAILED, "nmt: ", words)
        self.assertFalse(Path("x.jsonl").exists(), "a probe that fails leaves no file")
        self.assertTrue(Path("full").is_symlink(), "a device is written, not replaced")

    def test_nmt_probe_compare(self) -> None:
        for name, batch in (("a", "2x3/3"), ("b", "2x3/4")):
            command = f"{self.SAVE}{name}.jsonl --batch random:{batch}"
            call("nmt", *command.split(), check=True)
        lines = Path("a.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
        Path("newer.jsonl").write_text(lines[0].replace('"version":', '"version":1') + "".join(lines[1:]))
        Path("short.jsonl").write_text("".join(lines[:5]))
        Path("torn.jsonl").write_text("".join(lines)[:5000])
        Path("empty.jsonl").touch()
        Path("folder").mkdir()
        usage = {
            "probe print a.jsonl --fields shap": "--fields: 'shap' is no member of a record; did you mean 'shape'?",
            "probe print a.jsonl --layers nothing": "--layers: 'nothing' matches no layer of a.jsonl",
            "probe compare a.jsonl": "expected two probes or two folders, found one",
            "probe compare a.jsonl folder": "a.jsonl and folder: expected two files or two folders",
            "probe compare folder folder": "folder and folder: no probe, no file *.jsonl",
            "probe compare a.jsonl absent.jsonl": "absent.jsonl: no such file, expected a probe, as `nmt probe save`",
            "probe compare a.jsonl empty.jsonl": "empty.jsonl: empty file; expected a probe",
            "probe compare a.jsonl torn.jsonl": "torn.jsonl: torn: the last line has no end",
            "probe compare short.jsonl a.jsonl": "short.jsonl: torn: no line with the member 'end' behind 4 records",
            "probe compare a.jsonl newer.jsonl": "newer.jsonl:1: probe format version 12, this program reads version 2",
            "probe compare a.jsonl file": "file:1: JSON, byte 0: syntax error",
            "probe compare a.jsonl b.jsonl": "a.jsonl and b.jsonl have different batches: ",
            "probe compare a.jsonl a.jsonl --tolerance 4": "--tolerance: expected 0 or limits such as 4ulp, 1e-5rel or 1e-6abs, found '4'",
            "probe compare a.jsonl a.jsonl --by op": "--by: found 'op', expected layer or tensor",
            "probe compare a.jsonl a.jsonl --fields mni": "--fields: 'mni' is no member of a record; did you mean 'min'?",
            "probe compare a.jsonl a.jsonl --color blue": "--color: found 'blue', expected auto, always or never",
            "probe compare a.jsonl a.jsonl --ranks": "--ranks: expected the folder of one run, found two paths",
            "probe compare folder --ranks": "folder: expected probes of several ranks, probe-update-N-rank-0.jsonl",
            "probe repeat --preset transformer-tiny -n 1": "--runs: found 1, expected 2 to 100000",
            "probe weights folder folder": "folder: no checkpoint here; expected state.json",
            "probe weights folder": "b is required",
            "probe backends --a tpu --preset transformer-tiny": "--a: found 'tpu', expected cpu, cuda, emulated-cuda or f32",
        }
        for arguments, words in usage.items():
            self.complains(f"nmt {arguments}", WRONG_USAGE, "nmt: ", words)
        self.complains("nmt probe print torn.jsonl", FAILED, "nmt: torn.jsonl: torn: the last line has no end")

    def test_nmt_trace(self) -> None:
        Path("folder").mkdir()
        usage = {
            "trace": "expected a command: timeline, memory, graph, light, parameters",
            "trace timeline": "file is required",
            "trace timeline folder": "folder: found no lab/trace-update-*.json.gz, expected one: train with lab.trace.updates=1",
            "trace memory": "trace memory: expected either RUN or --config FILE",
            "trace memory folder": "trace memory: folder has no lab/memory-update-….json: train with lab.memory.at=UPDATE",
            "trace memory folder --config good.yaml": "trace memory: expected either RUN or --config FILE",
            "trace memory folder model.width=64": "'model.width=64' changes a configuration, expected --config FILE",
            "trace memory --config good.yaml --tokens 0": "--tokens: found 0, expected 1 to 16777216",
            "trace memory --config good.yaml --json --csv": "--json excludes --csv",
            "trace memory --config good.yaml model.heads=3": "model.heads: 3 does not divide model.width",
            "trace graph": "trace graph: expected either --config FILE or --checkpoint DIR",
            "trace graph --config good.yaml --checkpoint folder": "expected either --config FILE or --checkpoint DIR",
            "trace graph --config good.yaml --format png": "--format: found 'png', expected dot, json, svg or tensorboard",
            "trace graph --config good.yaml --depth tensor": "--depth: found 'tensor', expected layer or op",
            "trace graph --config good.yaml --format tensorboard": "--format tensorboard needs --output FOLDER",
            "trace parameters folder --unit column": "--unit: found 'column', expected row, neuron, head or parameter",
            "trace parameters folder --sort size": "--sort: found 'size', expected ratio, changed or visible",
            "trace parameters folder --top 0": "--top: found 0, expected 1 to",
            "trace light folder": "folder: found no spool/attempt-*/rank-0.jsonl, expected the folder of a run",
            "trace light folder --rank -1": "--rank: found -1, expected a number of at least 0",
            "run trace x --updates 21": "--updates: found 21, expected 1 to 20",
            "run trace x --ops maybe": "--ops: found 'maybe', expected true or false",
        }
        for arguments, words in usage.items():
            self.complains(f"nmt {arguments}", WRONG_USAGE, "nmt: ", words)
        failures = {
            "trace timeline absent": "cannot open absent: No such file or directory",
            "trace timeline file": "file: JSON, byte 0: syntax error; expected a timeline, trace-update-N.json.gz",
            "trace memory file": "file: JSON, byte 0: syntax error; expected a file memory-update-….json",
            "trace graph --checkpoint folder": "folder: no checkpoint here; expected state.json",
            "trace graph --config good.yaml --format tensorboard --output file": "tensorboard: file: Not a directory",
            "trace parameters folder": "folder/lab: found no parameters-*.json; lab.parameters.window=1000u",
        }
        for arguments, words in failures.items():
            self.complains(f"nmt {arguments}", FAILED, "nmt: ", words)

    def test_nmt_score(self) -> None:
        Path("empty").touch()
        Path("latin1").write_bytes(b"caf\xe9\n")
        failures = {
            "--reference file --hypothesis latin1": "latin1:1: byte 4 is not UTF-8",
            "--reference file --hypothesis damaged": "damaged",
            "--reference file --hypothesis file,nope": "cannot open nope: No such file",
        }
        for arguments, words in failures.items():
            self.complains(f"nmt score {arguments}", FAILED, "nmt: ", words)
        tokenizers = "auto, 13a, none, intl, char, zh, ja-mecab, ko-mecab, spm:FILE, flores101:FILE, flores200:FILE"
        usage = {
            "--metrics meteor": "--metrics: found 'meteor', expected bleu, chrf, chrf++ or ter",
            "--tokenize ja": f"--tokenize: found 'ja', expected {tokenizers} or spBLEU-1K:FILE",
            "--tokenize spm": f"--tokenize: found 'spm', expected {tokenizers}",
            "--tokenize spm:nope": "--tokenize: nope: no such file",
            "--tokenize flores200:file": "--tokenize: file is not a SentencePiece model",
            "--tokenize spm:empty": "--tokenize: empty is not a SentencePiece model",
            "--tokenize ko-mecab": "ko-mecab: ",
            "--paired bs": "--paired: found 1 system, expected --hypothesis with at least 2 files",
            "--paired t-test": "--paired: found 't-test', expected bs or ar",
            "--confidence --samples 0": "--samples: found 0, expected 1 to 10000000",
            "--confidence --samples -1": "--samples: found -1, expected 1 to 10000000",
            "--samples 9": "--samples requires --paired or --confidence",
            "--seed 9": "--seed requires --paired or --confidence",
            "--seed -1 --confidence": "--seed: found '-1', expected an integer of at least 0",
            "--chrf-char-order 0": "--chrf-char-order: found 0, expected 1 to 100",
            "--hypothesis file --sentence": "--sentence: found 2 systems, expected 1",
            "--hypothesis two --paired ar": "two has 2 lines, file has 1; expected equal numbers",
            "--hypothesis empty --paired ar": "empty has 0 lines, file has 1; expected equal numbers",
            "--reference two": "two has 2 lines, file has 1; expected equal numbers",
        }
        Path("two").write_text("a\nb\n", encoding="utf-8")
        for arguments, words in usage.items():
            self.complains(f"nmt score --reference file --hypothesis file {arguments}", WRONG_USAGE, "nmt: ", words)
        self.complains("nmt score --reference empty --hypothesis file", WRONG_USAGE, "empty has no lines; expected a")

    def test_nmt_score_warns_of_a_tokenizer_that_finds_no_words(self) -> None:
        Path("chinese").write_text("我们走吧。\n他来自北京。\n", encoding="utf-8")
        command = ["score", "--reference", "chinese", "--hypothesis", "chinese"]
        chosen, wrong, split = (
            call("nmt", *command, *options) for options in ([], ["--tokenize", "13a"], ["--tokenize", "none"])
        )
        self.assertIn("BLEU = 100.00", chosen.stdout)
        self.assertIn("tok:zh", chosen.stdout)
        self.assertEqual(chosen.stderr, "")
        self.assertIn("BLEU = 0.00", wrong.stdout)
        self.assertIn("--tokenize is 13a, but chinese is in a script without spaces between words", wrong.stderr)
        self.assertTrue(wrong.stderr.endswith("; expected zh\n"), wrong.stderr)
        self.assertRegex(split.stderr, "BLEU 0.00 with chrF2 100.00: wrong tokenizer. .--tokenize is none.")

    def test_a_closed_output_is_an_error(self) -> None:
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run(
                [BIN / "nmt", "score", "--reference", "file", "--hypothesis", "file"],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                timeout=30,
            )
        self.assertEqual((done.returncode, done.stderr), (FAILED, "nmt: standard output: cannot be written\n"))


if __name__ == "__main__":
    unittest.main()
