"""`--man-page` of each program: it holds what --help holds, man takes it, and `cmake --install` puts it in its place."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from system import BIN, call  # noqa: E402

PROGRAMS = ("server", "worker", "nmt")


def said(*command: str) -> str:
    return call(*command, check=True).stdout


def page(program: str) -> str:
    """Without the escapes of roff."""
    text = said(program, "--man-page")
    for escape, plain in ((r"\-", "-"), (r"\fB", ""), (r"\fR", ""), (r"\fI", ""), (r"\(ti", "~"), (r"\(aq", "'")):
        text = text.replace(escape, plain)
    return text


def commands(program: str) -> list[list[str]]:
    """The program, and for one with commands every command with its full path."""
    found, waiting = [], [[program]]
    while waiting:
        path = waiting.pop()
        found.append(path)
        below = re.search(r"\nSubcommands:\n((?:  .*\n)*)", said(*path, "--help"))
        if below is not None:
            waiting += [[*path, name] for name in re.findall(r"^  (\S+)", below[1], re.MULTILINE)]
    return found


class ManPageTest(unittest.TestCase):
    def test_every_option_of_the_help_is_there(self) -> None:
        for program in PROGRAMS:
            text = page(program)
            for command in commands(program):
                options = re.findall(r"^  (?:-\w,)?(--[\w-]+)", said(*command, "--help"), re.MULTILINE)
                self.assertIn("--help", options)
                if len(command) > 1 and f"\n.SS {' '.join(command)}\n" not in text:
                    self.assertEqual(options, ["--help"], command)  # it only leads to commands
                    continue
                begin = text.index(f".SS {' '.join(command)}\n") if len(command) > 1 else text.index(".SH OPTIONS")
                section = re.split(r"\n\.S[SH] ", text[begin + 3 :])[0]
                for option in options:
                    self.assertRegex(section, rf"(?m)^(-[-\w]+, )*{option}(,| |$)", command)

    def test_every_configuration_key_is_there_with_type_and_default(self) -> None:
        table = said("worker", "--help").split("Keys of the configuration:\n")[1].strip().splitlines()[1:]
        text = page("worker")
        self.assertGreater(len(table), 50)
        for line in table:
            self.assertIn(f"\n.TP\n{line.split()[0]} (", text)
        self.assertIn("training.precision (bf16|f32; default: bf16)\n", text)

    @unittest.skipUnless(shutil.which("man") and shutil.which("groff"), "needs man and groff (man-db, groff-base)")
    def test_man_shows_it_without_a_warning(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for program in PROGRAMS:
                file = Path(folder) / f"{program}.1"
                file.write_text(said(program, "--man-page"), encoding="utf-8")
                shown = subprocess.run(
                    ["man", "--warnings", "-l", file],
                    capture_output=True,
                    text=True,
                    env={**os.environ, "MANWIDTH": "120", "LC_ALL": "C.UTF-8", "PAGER": "cat"},
                )
                self.assertEqual((shown.returncode, shown.stderr), (0, ""))
                self.assertIn(f"{program.upper()}(1)", shown.stdout)
                self.assertIn("--help", re.sub(".\b", "", shown.stdout))
                others = {"nmt", "babelring-server", "babelring-worker"} - {program, f"babelring-{program}"}
                see_also = shown.stdout[shown.stdout.rindex("SEE ALSO") :]
                self.assertEqual(set(re.findall(r"([\w-]+)\(1\)", see_also)) - {program.upper()}, others)

    def test_installation_puts_texts_where_man_and_shells_look(self) -> None:
        for prefix, zsh in (("/usr", "vendor-completions"), ("/opt/babelring", "site-functions")):
            with tempfile.TemporaryDirectory() as folder:
                for program in PROGRAMS:
                    name = program if program == "nmt" else f"babelring-{program}"
                    subprocess.run(
                        ["cmake", "--install", BIN.parent, "--component", program, "--prefix", prefix],
                        env={**os.environ, "DESTDIR": folder},
                        capture_output=True,
                        check=True,
                    )
                    share, called = Path(folder + prefix) / "share", Path(folder + prefix) / "bin" / name
                    self.assertEqual(called.readlink(), Path(f"../lib/babelring/{program}"))
                    self.assertEqual((share / f"man/man1/{name}.1").read_text(), said(str(called), "--man-page"))
                    self.assertIn(f"usage: {name} ", said(str(called), "--help").lower())
                    for file, shell in (
                        (f"bash-completion/completions/{name}", "bash"),
                        (f"zsh/{zsh}/_{name}", "zsh"),
                        (f"fish/vendor_completions.d/{name}.fish", "fish"),
                    ):
                        how = "completion" if program == "nmt" else "--completion"
                        self.assertEqual((share / file).read_text(), said(str(called), how, shell), file)


if __name__ == "__main__":
    unittest.main()
