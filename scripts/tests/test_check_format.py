"""Tests of scripts/check_format.sh: it finds and fixes a file of each language that is not formatted."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = {
    "clang-format-19": ("a.cc", "int  x;\n", "int x;\n"),
    "black": ("a.py", "x = [1,2]\n", "x = [1, 2]\n"),
    "shfmt": ("a.sh", "if true; then\n    echo a\nfi\n", "if true; then\n  echo a\nfi\n"),
    "npm": ("a.ts", 'const a = "b"\n', "const a = 'b';\n"),
}


def check_format(*words: str) -> int:
    return subprocess.run([str(ROOT / "scripts/check_format.sh"), *words], capture_output=True, timeout=600).returncode


class CheckFormat(unittest.TestCase):
    def test_finds_and_fixes_each_language(self) -> None:
        for program, (name, before, after) in SOURCES.items():
            with self.subTest(program=program), tempfile.TemporaryDirectory() as folder:
                if shutil.which(program) is None:
                    self.skipTest(f"{program} is missing")
                file = pathlib.Path(folder) / name
                file.write_text(before, encoding="utf-8")
                self.assertEqual(check_format(str(file)), 1)
                self.assertEqual(check_format("--fix", str(file)), 0)
                self.assertEqual(file.read_text(encoding="utf-8"), after)
                self.assertEqual(check_format(str(file)), 0)

    @unittest.skipIf(shutil.which("black") is None, "black is missing")
    def test_a_file_that_cannot_be_parsed_fails_also_with_fix(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "a.py"
            file.write_text("def f(:\n", encoding="utf-8")
            self.assertEqual((check_format(str(file)), check_format("--fix", str(file))), (1, 1))

    def test_refuses_unknown_options(self) -> None:
        self.assertEqual(check_format("--fxi"), 2)


if __name__ == "__main__":
    unittest.main()
