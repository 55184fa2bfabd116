"""Tests of scripts/quickstart.sh: stages, resuming, interruption and the summary, with small programs in place of the
real ones (the real mpirun starts them)."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

SERVER = r'''
import http.server, pathlib, signal, sys
data = pathlib.Path(sys.argv[sys.argv.index("--data") + 1])
data.mkdir(parents=True, exist_ok=True)
(data / "admin.token").write_text("bbr_secret\n")
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/healthz" else 404); self.end_headers()
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print(f"listening on http://127.0.0.1:{server.server_address[1]}", flush=True)
server.serve_forever()
'''
WORKER = r'''
import os, pathlib, signal, sys, time
arguments = sys.argv[1:]
folder = pathlib.Path(arguments[arguments.index("--run-dir") + 1])
(folder / "checkpoints").mkdir(parents=True, exist_ok=True)
rank = os.environ["OMPI_COMM_WORLD_RANK"]
assert pathlib.Path(arguments[arguments.index("--token-file") + 1]).read_text() == "bbr_secret\n"
def note(text):
    with open(folder / "notes", "a") as file: file.write(f"{text} {rank}\n")
def save(*_):
    time.sleep(1.5); note("saved"); sys.exit(0)
signal.signal(signal.SIGUSR1, save)
note("began " + [a for a in arguments if a.startswith("training.max_minutes")][0])
if rank == "0": print("update 1", flush=True)
time.sleep(float(os.environ.get("TRAIN_SECONDS", "0")))
sys.exit(int(os.environ.get("WORKER_STATUS", "0")))
'''
NMT = r'''
import json, pathlib, sys
arguments = sys.argv[1:]
if arguments[0] == "prepare":
    folder = pathlib.Path(arguments[arguments.index("--output") + 1])
    folder.mkdir()
    (folder / "pieces").write_text(arguments[arguments.index("--vocabulary-size") + 1])
elif arguments[0] == "evaluate":
    print(json.dumps({"sacrebleu": 12.5, "signature": "nrefs:1|case:mixed", "update": 42, "chrf": 30.0}))
elif arguments[0] == "translate":
    sys.stdout.write(sys.stdin.read().upper())
'''


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
        return subprocess.run(self.arguments(*extra), capture_output=True, text=True, check=False, timeout=300,
                              env=self.environment(**environment))

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
        self.assertEqual((summary["sacrebleu"], summary["signature"], summary["updates"]), (12.5, "nrefs:1|case:mixed", 42))
        self.assertEqual(set(summary["minutes"]), {"setup", "build", "corpus", "prepare", "train", "evaluate", "translate"})
        self.assertRegex(summary["dashboard"], r"^http://127\.0\.0\.1:\d+$")
        self.assertEqual(first.stdout.count("\ntranslation  SENTENCE"), 5)
        self.assertIn("update 1", first.stderr)
        self.assertEqual(self.notes(), ["began training.max_minutes=1 0", "began training.max_minutes=1 1"])
        self.assertEqual((self.dir / "data" / "pieces").read_text(), "1350")  # a fourth of 6,000 - 600 pairs

        again = self.command("--minutes", "1")
        self.assertEqual(json.loads(again.stdout.splitlines()[-1])["dashboard"], summary["dashboard"])
        self.assertEqual(len(self.notes()), 2)

        longer = self.command("--minutes", "2", "--ranks", "1")
        self.assertEqual(longer.returncode, 0, longer.stderr)
        self.assertEqual(len(self.notes()), 3)
        self.assertNotIn("evaluate: done before", longer.stderr)

    def test_stop_ends_the_server_and_nothing_else_is_left(self) -> None:
        self.command("--minutes", "1")
        pid = int((self.dir / "server.pid").read_text())
        self.assertEqual(self.command("--stop").returncode, 0)
        self.assertFalse(self.is_running(pid))
        self.assertEqual(self.command("--stop").returncode, 0)

    def test_an_interrupted_run_saves_stops_its_children_and_goes_on_later(self) -> None:
        process = subprocess.Popen(self.arguments("--minutes", "1"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=self.environment(TRAIN_SECONDS="600"), start_new_session=True,
                                   # A test run in the background inherits an ignored SIGINT, which bash cannot trap.
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
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

    def test_a_folder_of_another_corpus_is_refused(self) -> None:
        self.command("--minutes", "1")
        other = self.command("--vocabulary-size", "99")
        self.assertEqual(other.returncode, 1)
        self.assertIn("give another --dir", other.stderr)

    def test_relative_names_count_from_where_it_was_called(self) -> None:
        tree = self.folder / "tree"
        for part in ("scripts", "configs"):
            shutil.copytree(ROOT / part, tree / part)
        shutil.copytree(self.folder / "bin", tree / "build" / "release" / "bin")
        cmake = self.folder / "path" / "cmake"
        cmake.parent.mkdir()
        cmake.write_text("#!/bin/sh\n")
        cmake.chmod(0o755)
        environment = self.environment(PATH=f"{cmake.parent}:{os.environ['PATH']}")
        del environment["BABELRING_BIN"]
        done = subprocess.run([tree / "scripts" / "quickstart.sh", "--minutes", "1", "--corpus", "a,b", "--dir", "run"],
                              capture_output=True, text=True, check=False, timeout=300, cwd=self.folder, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.dir / "corpus" / "train.src").exists())

    def test_wrong_usage_exits_2(self) -> None:
        for arguments in (("--minutes", "0"), ("--minutes", "x"), ("--nonsense",), ("--corpus", "unheard-of"), ("--config", "/none")):
            self.assertEqual(self.command(*arguments).returncode, 2, arguments)


if __name__ == "__main__":
    unittest.main()
