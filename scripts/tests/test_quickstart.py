"""Tests of scripts/quickstart.sh: stages, resuming, interruption and the summary, with small programs in place of the
real ones (the real mpirun starts them)."""

from __future__ import annotations

import json
import os
import pathlib
import pty
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

SERVER = r"""
import http.server, pathlib, signal, sys
data = pathlib.Path(sys.argv[sys.argv.index("--data") + 1])
data.mkdir(parents=True, exist_ok=True)
(data / "admin.token").write_text("bbr_secret\n")
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/healthz" else 404); self.end_headers()
    def log_message(self, *_): pass
port = int(sys.argv[sys.argv.index("--listen") + 1].rsplit(":")[1])
server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print(f"listening on http://127.0.0.1:{server.server_address[1]}", flush=True)
server.serve_forever()
"""
WORKER = r"""
import os, pathlib, signal, sys, time
arguments = sys.argv[1:]
folder = pathlib.Path(arguments[arguments.index("--run-dir") + 1])
(folder / "checkpoints").mkdir(parents=True, exist_ok=True)
rank = os.environ["OMPI_COMM_WORLD_RANK"]
if rank == "0": (folder / "run.json").write_text('{"run":"r_01","end":"finished"}')
if rank == "0": (folder / "arguments").write_text(" ".join(arguments))
assert pathlib.Path(arguments[arguments.index("--token-file") + 1]).read_text() == "bbr_secret\n"
def note(text):
    with open(folder / "notes", "a") as file: file.write(f"{text} {rank}\n")
def save(*_):
    time.sleep(1.5); note("saved"); sys.exit(0)
signal.signal(signal.SIGUSR1, save)
note("began " + [a for a in arguments if a.startswith("training.max_minutes")][0])
if rank == "0":
    print("update 1", flush=True)
    if arguments[arguments.index("--progress") + 1] == "always":
        print("\r\x1b[K[##........]  20 %  update 2  loss 1.5  9 min left", end="", file=sys.stderr, flush=True)
        print("\r\x1b[K2026-11-22 09:00:00.123 [rank 0] info: validation on valid after update 2: loss 4.1, perplexity 3.0, accuracy 50.0 %, "
              "teacher-forced BLEU 10.00, sacreBLEU 24.70, chrF2 50.00, the best so far (1.0 s)", file=sys.stderr, flush=True)
time.sleep(float(os.environ.get("TRAIN_SECONDS", "0")))
sys.exit(int(os.environ.get("WORKER_STATUS", "0")))
"""
NMT = r"""
import json, os, pathlib, sys, time
arguments = sys.argv[1:]
if arguments[0] == "prepare":
    folder = pathlib.Path(arguments[arguments.index("--output") + 1])
    print("half of it is done", file=sys.stderr, flush=True)
    time.sleep(float(os.environ.get("PREPARE_SECONDS", "0")))
    folder.mkdir()
    pieces = arguments[arguments.index("--vocabulary-size") + 1]
    if int(pieces) > int(os.environ.get("MAX_PIECES", "9999")):
        folder.rmdir()
        sys.exit("nmt: Vocabulary size too high (9). Please set it to a value <= " + os.environ["MAX_PIECES"] + ".")
    (folder / "pieces").write_text(pieces)
    (folder / "normalization").write_text(arguments[arguments.index("--normalization") + 1])
    (folder / "manifest.json").write_text('{"sets": [{"name": "train", "target_tokens": 40000}]}')
elif arguments[0] == "evaluate":
    assert arguments[arguments.index("--report") + 1] == "r_01" and "--server" in arguments and "--token-file" in arguments
    pathlib.Path(arguments[arguments.index("--data") + 1], "tokenizer").write_text(arguments[arguments.index("--tokenize") + 1])
    print(json.dumps({"sentences": 1000, "sacrebleu": 12.5, "signature": "nrefs:1|case:mixed", "update": 42, "chrf": 30.0}))
elif arguments[0] == "translate":
    sys.stdout.write(sys.stdin.read().upper())
"""


@unittest.skipUnless(shutil.which("mpirun"), "needs mpirun")
class Quickstart(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name, text in (("server", SERVER), ("worker", WORKER), ("nmt", NMT)):
            program = self.folder / "bin" / name
            program.parent.mkdir(exist_ok=True)
            program.write_text("#!/usr/bin/env python3\n" + text)
            program.chmod(0o755)
        for side, word in (("a", "sentence"), ("b", "Satz")):
            (self.folder / side).write_text("".join(f"{word} {i} text\n" for i in range(6000)))
        self.dir = self.folder / "run"
        self.addCleanup(self.command, "--stop")

    def arguments(self, *extra: str) -> list[str]:
        corpus = f"{self.folder}/a,{self.folder}/b"
        return [str(ROOT / "scripts" / "quickstart.sh"), "--corpus", corpus, "--dir", str(self.dir), *extra]

    def environment(self, **extra: str) -> dict[str, str]:
        return {**os.environ, "BABELRING_BIN": str(self.folder / "bin"), "BABELRING_SKIP_SETUP": "1", **extra}

    def command(self, *extra: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.arguments(*extra),
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            env=self.environment(**environment),
        )

    @staticmethod
    def is_running(pid: int) -> bool:
        """A zombie, whose parent may be slow or unwilling to reap it, has no command line."""
        try:
            return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() != b""
        except (FileNotFoundError, ProcessLookupError):
            return False

    def notes(self) -> list[str]:
        path = self.dir / "run" / "notes"
        return sorted(path.read_text().splitlines()) if path.exists() else []

    def test_all_stages_run_once_and_the_summary_comes_last(self) -> None:
        first = self.command("--minutes", "1")
        self.assertEqual(first.returncode, 0, first.stderr)
        summary = json.loads(first.stdout.splitlines()[-1])
        self.assertEqual(
            (summary["sacrebleu"], summary["signature"], summary["updates"]), (12.5, "nrefs:1|case:mixed", 42)
        )
        self.assertEqual(
            set(summary["minutes"]), {"setup", "build", "corpus", "prepare", "train", "evaluate", "translate"}
        )
        self.assertRegex(summary["dashboard"], r"^http://127\.0\.0\.1:\d+$")
        self.assertEqual(first.stdout.count("\ntranslation  SENTENCE"), 5)
        self.assertIn("update 1", first.stderr)
        self.assertIn("sacreBLEU 12.5 on 1,000 held-out sentences, with the model of update 42\n", first.stdout)
        for words in (
            'try it            echo "sentence ',
            f"--corpus {self.folder}/a,{self.folder}/b --dir {self.dir}\n",
            "quickstart.sh --minutes 5 ",
            "quickstart.sh --stop --dir ",
        ):
            self.assertIn(words, first.stdout)
        for number, name in enumerate(("setup", "build", "corpus", "prepare", "train", "evaluate", "translate"), 1):
            self.assertRegex(first.stderr, rf"\n\[{number}/7\] {name} \.\.\.\n(.*\n)*?\[{number}/7\] {name}: \d+ s\n")
        self.assertNotIn("\x1b", first.stderr, "a moving line only on a terminal")
        self.assertEqual(self.notes(), ["began training.max_minutes=1 0", "began training.max_minutes=1 1"])
        self.assertEqual((self.dir / "data" / "pieces").read_text(), "1350")  # a fourth of 6,000 - 600 pairs

        lines = first.stderr.splitlines()
        announced = next(
            i for i, line in enumerate(lines) if line.startswith(f"dashboard: {summary['dashboard']}, from when")
        )
        link = next(i for i, line in enumerate(lines) if line == f"dashboard: {summary['dashboard']}/#token=bbr_secret")
        self.assertLess(announced, lines.index("[1/7] setup ..."))
        self.assertLess(link, lines.index("[3/7] corpus ..."))

        again = self.command("--minutes", "1")
        self.assertEqual(json.loads(again.stdout.splitlines()[-1])["dashboard"], summary["dashboard"])
        self.assertEqual(len(self.notes()), 2)

        longer = self.command("--minutes", "2", "--ranks", "1")
        self.assertEqual(longer.returncode, 0, longer.stderr)
        self.assertEqual(len(self.notes()), 3)
        self.assertNotIn("evaluate: done before", longer.stderr)

    def test_a_terminal_gets_moving_lines_and_important_log_lines(self) -> None:
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            self.arguments("--minutes", "1"),
            stdout=subprocess.DEVNULL,
            stderr=theirs,
            stdin=subprocess.DEVNULL,
            env=self.environment(PREPARE_SECONDS="4"),
        )
        os.close(theirs)
        shown = b""
        with open(ours, "rb", buffering=0) as terminal:
            try:
                while piece := terminal.read(1 << 16):
                    shown += piece
            except OSError:
                pass  # so a terminal ends
        text = shown.decode()
        self.assertEqual(process.wait(timeout=120), 0, text)
        self.assertRegex(text, r"\r\x1b\[K\[4/7\] prepare  [1-9]\d* s  half of it is done")
        self.assertIn("\r\x1b[K  [##........]  20 %  update 2  loss 1.5  9 min left", text)
        self.assertIn("\r\x1b[K  update 2: validation loss 4.1, sacreBLEU 24.70 on valid, the best so far\r\n", text)
        log = (self.dir / "logs" / "train.log").read_text()
        self.assertNotIn("20 %", log)
        self.assertNotIn("\x1b", log)
        self.assertIn("info: validation on valid after update 2", log)

    def test_stop_ends_the_server_and_nothing_else_is_left(self) -> None:
        self.command("--minutes", "1")
        pid = int((self.dir / "server.pid").read_text())
        self.assertEqual(self.command("--stop").returncode, 0)
        self.assertFalse(self.is_running(pid))
        self.assertEqual(self.command("--stop").returncode, 0)

    def test_an_interrupted_run_saves_and_resumes(self) -> None:
        process = subprocess.Popen(
            self.arguments("--minutes", "1"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment(TRAIN_SECONDS="600"),
            start_new_session=True,
            # A test run in the background inherits an ignored SIGINT, which bash cannot trap.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        deadline = time.monotonic() + 120
        while len(self.notes()) < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        server = int((self.dir / "server.pid").read_text())
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 130, err)
        self.assertEqual([note for note in self.notes() if note.startswith("saved")], ["saved 0", "saved 1"])
        self.assertFalse(self.is_running(server))
        again = self.command("--minutes", "1")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("prepare: done before", again.stderr)
        self.assertEqual(len([note for note in self.notes() if note.startswith("began")]), 4)

    def test_failed_training_names_its_log_and_is_tried_again(self) -> None:
        failed = self.command("--minutes", "1", WORKER_STATUS="3")
        self.assertEqual(failed.returncode, 1)
        self.assertIn("training ended with exit code 3", failed.stderr)
        self.assertEqual(self.command("--minutes", "1").returncode, 0)

    def test_options_suit_the_scripts_and_the_size_of_the_corpus(self) -> None:
        (self.folder / "b").write_text("".join(f"我在市场买了{i}本书。\n" for i in range(6000)))
        done = self.command("--minutes", "1", MAX_PIECES="1300")
        self.assertEqual(done.returncode, 0, done.stderr)
        data = self.dir / "data"
        self.assertEqual(
            [(data / name).read_text() for name in ("pieces", "normalization", "tokenizer")],
            ["1300", "identity", "char"],
        )
        self.assertIn("training.stop_after=2000u", (self.dir / "run" / "arguments").read_text().split())

    def test_a_folder_of_somebody_else_is_left_alone(self) -> None:
        (self.dir / "data").mkdir(parents=True)
        (self.dir / "data" / "notes").write_text("mine")
        done = self.command("--minutes", "1")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{self.dir}/data is there, and not from a run of quickstart.sh: give another --dir", done.stderr)
        self.assertEqual((self.dir / "data" / "notes").read_text(), "mine")

    def test_a_folder_of_another_corpus_is_refused(self) -> None:
        self.command("--minutes", "1")
        other = self.command("--vocabulary-size", "99")
        self.assertEqual(other.returncode, 1)
        self.assertIn("give another --dir", other.stderr)

    def add_to_path(self, name: str, text: str) -> str:
        """A program of that name before all others: the PATH."""
        program = self.folder / "path" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/sh\n" + text)
        program.chmod(0o755)
        return f"{program.parent}:{os.environ['PATH']}"

    def test_gpus_get_their_module_and_a_worker_each(self) -> None:
        path = self.add_to_path("nvidia-smi", 'for i in 0 1 2; do echo "GPU $i: Some Card (UUID: GPU-$i)"; done\n')
        self.add_to_path("cmake", f'echo "$@" >>{self.folder}/cmake.log\n')
        tree = self.folder / "tree"
        for part in ("scripts", "configs"):
            shutil.copytree(ROOT / part, tree / part)
        shutil.copytree(self.folder / "bin", tree / "build" / "release" / "bin")
        environment = self.environment(PATH=path)
        del environment["BABELRING_BIN"]
        command = [tree / "scripts" / "quickstart.sh", "--minutes", "1", "--corpus", "a,b", "--dir", "run"]

        without = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=300, cwd=self.folder, env=environment
        )
        self.assertEqual(without.returncode, 0, without.stderr)
        self.assertIn("a GPU answers, but nvcc (CUDA 13.0 or newer) was not found", without.stderr)
        self.assertTrue((self.folder / "cmake.log").read_text().endswith("--target server worker nmt\n"))

        (tree / "build" / "release" / "CMakeCache.txt").write_text(
            "CMAKE_CUDA_COMPILER:FILEPATH=/usr/local/cuda/bin/nvcc\n"
        )
        (tree / "build" / "release" / "bin" / "libbabelring_cuda.so").touch()
        (self.dir / "run" / "notes").unlink()
        done = subprocess.run(
            [*command[:2], "2", *command[3:]],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            cwd=self.folder,
            env=environment,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.folder / "cmake.log").read_text().endswith("--target server worker nmt babelring_cuda\n"))
        self.assertEqual(len(self.notes()), 3)

    def test_relative_names_count_from_where_it_was_called(self) -> None:
        tree = self.folder / "tree"
        for part in ("scripts", "configs"):
            shutil.copytree(ROOT / part, tree / part)
        shutil.copytree(self.folder / "bin", tree / "build" / "release" / "bin")
        environment = self.environment(PATH=self.add_to_path("cmake", ""))
        del environment["BABELRING_BIN"]
        done = subprocess.run(
            [tree / "scripts" / "quickstart.sh", "--minutes", "1", "--corpus", "a,b", "--dir", "run"],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            cwd=self.folder,
            env=environment,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.dir / "corpus" / "train.src").exists())

    def test_wrong_usage_exits_2(self) -> None:
        for arguments in (
            ("--minutes", "0"),
            ("--minutes", "x"),
            ("--nonsense",),
            ("--corpus", "unheard-of"),
            ("--config", "/dev/null/none"),
        ):
            self.assertEqual(self.command(*arguments).returncode, 2, arguments)


if __name__ == "__main__":
    unittest.main()
