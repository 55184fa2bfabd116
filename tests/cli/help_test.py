"""`--help` of each command: its form, and the options in its examples exist."""

from __future__ import annotations

import os
import re
import subprocess
import unittest
from pathlib import Path

BIN = Path(os.environ["BABELRING_BIN"])


def help_of(*command: str) -> str:
    return subprocess.run([BIN / command[0], *command[1:], "--help"], capture_output=True, text=True, check=True).stdout


def commands(*path: str) -> list[tuple[str, ...]]:
    """The commands without commands below them."""
    below = re.search(r"\nSubcommands:\n((?:  .*\n)*)", help_of(*path))
    if below is None:
        return [path]
    names = re.findall(r"^  (\S+)", below[1], re.MULTILINE)
    return [command for name in names for command in commands(*path, name)]


class HelpTest(unittest.TestCase):
    def test_every_command_ends_with_two_examples_of_its_own_options(self) -> None:
        found = commands("nmt")
        self.assertGreater(len(found), 14)
        for command in found:
            with self.subTest(command):
                text = help_of(*command)
                options, _, examples = text.partition("\nExamples:\n")
                lines = examples.strip().splitlines()
                self.assertGreaterEqual(len(lines), 2, text)
                for line in lines:
                    self.assertIn(" ".join(command), line)
                    for option in re.findall(r" (--[\w-]+)", line):
                        self.assertRegex(options, rf"\n  (\S+,)?{option}[ ,\n]")

    def test_no_type_of_the_parser_is_shown(self) -> None:
        for command in [*commands("nmt"), ("worker",), ("server",)]:
            self.assertNotRegex(help_of(*command), r"\b(TEXT:|INT|UINT|FLOAT|REQUIRED|Print this help)", command)

    def test_values_ranges_and_defaults_are_told(self) -> None:
        text = " ".join(help_of("nmt", "translate").split())
        self.assertIn("--beam N beam size: hypotheses per sentence; 1: greedy; 1 to 1000 [default: 5]", text)
        self.assertIn("--length-formula power|gnmt ", text)
        self.assertIn(
            "--checkpoint DIR checkpoint, or a run's folder to use its best or else newest checkpoint [required]", text
        )
        self.assertIn(" Search: --beam N", text)
        self.assertIn("a byte-order mark is skipped", help_of("nmt", "score"))


if __name__ == "__main__":
    unittest.main()
