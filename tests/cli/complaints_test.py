"""Bad command lines and files: each program answers with one line on standard error and the exit code of the house."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

BIN = Path(os.environ["BABELRING_BIN"])
FAILED, WRONG_USAGE = 1, 2


class ComplaintsTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.mkdtemp(prefix="babelring-complaints-")
        self.addCleanup(shutil.rmtree, folder)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder)
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
            done = subprocess.run([BIN / program, *arguments], capture_output=True, text=True, timeout=120)
            lines = done.stderr.strip().splitlines()
            self.assertEqual((done.returncode, len(lines), done.stdout), (code, 1, ""), done.stderr)
            for word in words:
                self.assertIn(word, lines[0])

    def test_server(self) -> None:
        usage = {
            "--bogus": "unknown option '--bogus' (`server --help` lists the options)",
            "--listne 127.0.0.1:0": "unknown option '--listne'; did you mean '--listen'?",
            "--translator-memory-mb -1": "--translator-memory-mb: found -1, expected a number of at least 0",
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
            "worker --config good.yaml --server none --run-dir fresh", FAILED, "nowhere: no manifest.json there"
        )
        self.assertFalse(Path("fresh").exists(), "nothing was begun")

    def test_worker_whose_second_host_lacks_the_authorities(self) -> None:
        worker = [BIN / "worker", "--config", "good.yaml", "--server", "https://127.0.0.1:9"]
        one_rank = ["-np", "1", "-x"]
        done = subprocess.run(
            [
                "mpirun",
                "--oversubscribe",
                "--bind-to",
                "none",
                *one_rank,
                "BABELRING_TOKEN=t",
                *worker,
                ":",
                *one_rank,
                "BABELRING_CA_FILE=absent",
                *worker,
            ],
            capture_output=True,
            text=True,
            timeout=600,
            env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
        )
        self.assertEqual(done.returncode, WRONG_USAGE, done.stderr)
        complaints = [line for line in done.stderr.splitlines() if "absent: cannot load trusted certificates" in line]
        self.assertEqual(len(complaints), 1, done.stderr)
        self.assertRegex(complaints[0], r"worker: error: rank 1 on \S+: absent")

    def test_versions(self) -> None:
        said = {
            program: subprocess.run([BIN / program, "--version"], capture_output=True, text=True, check=True).stdout
            for program in ("nmt", "worker", "server")
        }
        version = said["nmt"].split()[-1]
        self.assertEqual(said, {program: f"{program} {version}\n" for program in said})

    def test_worker_with_damaged_data(self) -> None:
        text = "".join(f"the quick brown fox jumps over {number} lazy dogs\n" for number in range(50))
        Path("source").write_text(text, encoding="utf-8")
        Path("target").write_text(text.replace("the", "der").replace("quick", "schnelle"), encoding="utf-8")
        prepare = "prepare --train source target --output prepared --vocabulary-size 40"
        subprocess.run([BIN / "nmt", *prepare.split()], check=True, capture_output=True, timeout=60)
        command = "worker --config good.yaml data.folder=prepared data.valid_set="
        with open("prepared/spm.model", "ab") as model:
            model.write(b"x")
        self.complains(command, FAILED, "prepared/spm.model: truncated or damaged", "by its manifest")
        Path("prepared/manifest.json").unlink()
        self.complains(command, FAILED, "prepared: no manifest.json there")
        self.assertFalse(Path("runs").exists(), "a run that cannot begin leaves no folder")

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

    def test_nmt_score(self) -> None:
        Path("empty").touch()
        Path("latin1").write_bytes(b"caf\xe9\n")
        failures = {
            "--reference empty --hypothesis empty": "empty has no lines",
            "--reference empty --hypothesis file": "file has 1 lines, empty has 0",
            "--reference file --hypothesis latin1": "latin1:1: byte 4 is not UTF-8",
            "--reference file --hypothesis damaged": "damaged",
        }
        for arguments, words in failures.items():
            self.complains(f"nmt score {arguments}", FAILED, "nmt: ", words)

    def test_nobody_reads_on(self) -> None:
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
