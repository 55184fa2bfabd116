"""The programs when standard input, output or error is closed, full, or a terminal of few columns, and when a file or a
number in the command line is out of bounds for the process."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from cases import train_tiny_model  # noqa: E402
from system import AS_ROOT, BIN, MPIRUN, wait_for  # noqa: E402

FAILED, WRONG_USAGE = 1, 2
LOST = "{}: standard output: cannot be written"
PREPARE = "nmt prepare --train toy1.en toy1.de --valid toy2.en toy2.de --vocabulary-size 120 --output"
TRAIN = "worker --config config.yaml --server none --run-dir"


def shell(command: str, before: str = "") -> subprocess.CompletedProcess:
    """Runs a command line of a program in bash, with what a user may write around it."""
    return subprocess.run(
        ["bash", "-c", f"{before} {BIN}/{command}"],
        capture_output=True,
        text=True,
        timeout=300,
        stdin=subprocess.DEVNULL,
    )


def read_to_end(terminal: io.RawIOBase) -> bytes:
    """All that the programs at the other end of a pseudo-terminal have written."""
    shown = b""
    try:
        while piece := terminal.read(1 << 16):
            shown += piece
    except OSError:
        pass  # so a terminal ends
    return shown


def setUpModule() -> None:
    train_tiny_model()


class StreamsTest(unittest.TestCase):
    def test_lost_standard_output_is_an_error(self) -> None:
        for command in (
            "nmt --help",
            "nmt --version",
            "nmt translate --help",
            "nmt completion bash",
            "nmt score --reference toy1.de --hypothesis toy1.de",
            "nmt score --checkpoint run --source toy1.en --target toy1.de",
            "nmt probe print --help",
            "worker --help",
            "worker --man-page",
            "worker --config config.yaml --check-config",
            "server --help",
            "server --completion bash",
            "server --check --data data",
        ):
            for lost in (">/dev/full", ">&-"):
                with self.subTest(command=command, lost=lost):
                    done = shell(f"{command} {lost}")
                    self.assertEqual(done.returncode, FAILED, done.stderr)
                    self.assertIn(LOST.format(command.split()[0]), done.stderr)
                    self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_a_command_that_prints_nothing_needs_no_output(self) -> None:
        done = shell("nmt report --run-dir run --output report.txt >&-")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_the_exit_code_stands_without_standard_error(self) -> None:
        for command, code in (
            ("nmt score --reference nope --hypothesis nope", FAILED),
            ("nmt prepare --bogus", WRONG_USAGE),
            ("nmt nonsense", WRONG_USAGE),
            ("worker --bogus", WRONG_USAGE),
            ("worker --config config.yaml --run-dir toy1.en/run", WRONG_USAGE),
            ("worker --config config.yaml --run-dir unused data.seed=x", WRONG_USAGE),
            ("server --bogus", WRONG_USAGE),
            ("server --data toy1.en/data --listen 127.0.0.1:0", FAILED),
        ):
            for lost in ("2>/dev/full", "2>&-", "<&- >&- 2>&-"):
                with self.subTest(command=command, lost=lost):
                    self.assertEqual(shell(f"{command} {lost}").returncode, code)

    def test_warnings_that_cannot_be_printed_end_no_command(self) -> None:
        Path("grid.yaml").write_text(
            "name: g\nbase: config.yaml\ngrid:\n  model.heads: [2, 3]\n  training.seed: [1]\n", encoding="utf-8"
        )
        done = shell("nmt sweep expand grid.yaml --output sweep 2>/dev/full")
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_files_are_whole_without_any_stream(self) -> None:
        """A file that got the number of a closed stream would hold lines of the log."""
        for number, closed in enumerate(("<&- >&- 2>&-", "<&-", "2>&-", "2>/dev/full")):
            with self.subTest(closed):
                done = shell(f"{TRAIN} closed{number} {closed}")
                self.assertEqual(done.returncode, 0, done.stderr)
                same = shell(f"nmt probe weights run closed{number}")
                self.assertEqual(same.stdout.splitlines()[:1], ["weights: same"], same.stderr)
        done = shell(f"{PREPARE} again --vocabulary data/spm.model 2>&- <&-")
        self.assertEqual(done.returncode, 0)
        for name in ("train.source.ids", "train.target.ids", "spm.model"):
            self.assertEqual(Path("again", name).read_bytes(), Path("data", name).read_bytes(), name)
        done = shell("nmt translate --checkpoint run --input toy1.en --output translated >&- 2>&- <&-")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(len(Path("translated").read_text(encoding="utf-8").splitlines()), 400)

    def test_a_closed_input_is_named(self) -> None:
        done = shell("nmt translate --checkpoint run <&-")
        self.assertEqual((done.returncode, done.stdout), (FAILED, ""))
        self.assertIn("nmt: cannot read standard input after line 0: Bad file descriptor", done.stderr)

    def test_a_server_serves_without_any_stream(self) -> None:
        command = f"exec {BIN}/server --listen 127.0.0.1:0 --data served <&- >&- 2>&-"
        server = subprocess.Popen(["bash", "-c", command])
        self.addCleanup(server.kill)
        wait_for("the server's address", lambda: Path("served/address").exists())
        address = Path("served/address").read_text(encoding="utf-8").strip()
        listed = shell(f"nmt run list --server {address} --token-file served/admin.token --json")
        self.assertEqual(listed.returncode, 0, listed.stderr)
        server.send_signal(signal.SIGTERM)
        self.assertEqual(server.wait(timeout=300), 0)
        checked = shell("server --check --data served")
        self.assertEqual(checked.returncode, 0, checked.stdout)

    def test_a_limit_on_the_size_of_files_is_an_error(self) -> None:
        for command in (
            f"{PREPARE} limited",
            "nmt average --output limited run/checkpoints/update-00000004",
            "nmt translate --checkpoint run --input toy1.en --output limited.de",
            f"{TRAIN} limited-run",
        ):
            with self.subTest(command):
                done = shell(command, "ulimit -f 1;")
                self.assertEqual(done.returncode, FAILED, done.stderr)
                self.assertRegex(done.stderr, "File too large|cannot write")

    def test_a_progress_bar_is_drawn_only_on_a_terminal(self) -> None:
        worker = [str(BIN / "worker"), "--config", "config.yaml", "--server", "none", "--run-dir"]
        mpirun = [*MPIRUN, "-np", "1"]
        for name, command, drawn in (
            ("bar-mpirun", [*mpirun, *worker], True),
            ("bar-alone", worker, True),
            ("bar-never", [*mpirun, *worker], False),
        ):
            with self.subTest(name):
                ours, theirs = pty.openpty()
                with open(ours, "rb", buffering=0) as terminal:
                    process = subprocess.Popen(
                        [*command, name, *(["--progress", "never"] if not drawn else [])],
                        stdin=subprocess.DEVNULL,
                        stdout=theirs,
                        stderr=theirs,
                        env=os.environ | AS_ROOT,
                    )
                    os.close(theirs)
                    shown = read_to_end(terminal)
                self.assertEqual(process.wait(timeout=300), 0, shown)
                self.assertEqual(b"\x1b[K[" in shown, drawn, shown)
                self.assertIn(b"finished: 4u of training", shown)
        done = subprocess.run([*worker, "bar-piped"], capture_output=True, text=True)
        self.assertNotIn("\x1b[K", done.stderr)
        done = subprocess.run([*worker, "bar-always", "--progress", "always"], capture_output=True, text=True)
        self.assertRegex(done.stderr, r"\[#*\.*\] +[0-9]+ %  update [0-9]+  loss ")

    def test_the_progress_bar_fits_the_terminal(self) -> None:
        for columns in (1, 20, 45, 60, 200):
            with self.subTest(columns=columns):
                ours, theirs = pty.openpty()
                fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
                command = [BIN / "worker", "--config", "config.yaml", "--server", "none", "--run-dir", f"bar{columns}"]
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=theirs)
                os.close(theirs)
                with open(ours, "rb", buffering=0) as terminal:
                    shown = read_to_end(terminal)
                self.assertEqual(process.wait(timeout=300), 0, shown)
                bars = re.findall(rb"\x1b\[K([^\x1b\r\n]*)\r(?!\n)", shown)
                self.assertTrue(bars, shown)
                for bar in bars:
                    self.assertLess(len(bar), columns, bar)
                if columns == 60:
                    self.assertRegex(bars[-1], rb"^\[#*\.*\] +[0-9]+ %  update ")


if __name__ == "__main__":
    unittest.main()
