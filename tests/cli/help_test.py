"""`--help` of each command: its form, and the options in its examples exist."""

from __future__ import annotations

import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from system import call  # noqa: E402


def help_of(*command: str) -> str:
    return call(*command, "--help", check=True).stdout


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

    def test_values_ranges_and_defaults_are_shown(self) -> None:
        text = " ".join(help_of("nmt", "translate").split())
        self.assertIn("--beam N beam size: hypotheses per sentence; 1: greedy; 1 to 1000 [default: 5]", text)
        self.assertIn("--length-formula power|gnmt|pieces ", text)
        self.assertIn(
            "--checkpoint DIR checkpoint, or a run's folder to use its best or else newest checkpoint; given several times: "
            "an ensemble of models with the same vocabulary [required]",
            text,
        )
        self.assertIn(" Search: --beam N", text)
        self.assertIn("a byte-order mark is skipped", help_of("nmt", "score"))

    def refuses(self, command: tuple[str, ...], option: str, value: str, *words: str) -> None:
        done = call(*command, f"{option}={value}", "--help")
        self.assertEqual(done.returncode, 2, f"{option} {value}: {done.stderr}")
        for word in (f"{command[0]}: ", option.lstrip("-"), *words):
            self.assertIn(word, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def accepts(self, command: tuple[str, ...], option: str, value: str) -> None:
        done = call(*command, f"{option}={value}", "--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""), f"{option} {value}")

    def test_numbers_are_decimal_in_every_option(self) -> None:
        """Each option with a number, of each command: what a person reads in its value, and its range."""
        seen = set()
        for command in [*commands("nmt"), ("worker",), ("server",)]:
            options, _, _ = help_of(*command).partition("\nExamples:\n")
            options, _, _ = options.partition("\nKeys of the configuration:\n")
            for option, text in re.findall(r"^  (?:-\w,)?(--[\w-]+)\S* N(?: \.\.\.)? +(\S.*)$", options, re.MULTILINE):
                if (option, text) in seen:
                    continue
                seen.add((option, text))
                with self.subTest(command=command, option=option):
                    for value in ("nan", "-nan", "inf", "0x10", "ten", "1e400", "1_0"):
                        self.refuses(command, option, value)
                    bounds = re.search(r"; (-?[\d.e+]+) to ([\d.e+]+)(?: \[|$)", text)
                    if bounds is None:
                        self.accepts(command, option, "010")
                        continue
                    low, high = (float(bound) for bound in bounds.groups())
                    self.accepts(command, option, f"0{high:.0f}")
                    self.accepts(command, option, f"+{high:.0f}")
                    self.accepts(command, option, f"{high:.20e}")
                    self.refuses(command, option, f"0{high + 1:.0f}", "expected")
                    self.refuses(command, option, f"{low - 1:.0f}", "expected")
        self.assertGreater(len(seen), 60)


if __name__ == "__main__":
    unittest.main()
