"""The programs on a processor without the instructions that they were compiled for, emulated by qemu (package qemu-user)."""

from __future__ import annotations

import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from system import BIN  # noqa: E402


class OlderProcessor(unittest.TestCase):
    """Either they run there, since they were built for any processor, or they end with one line."""

    def test_programs_run_or_name_the_missing_instructions(self) -> None:
        """Never an illegal instruction."""
        qemu = shutil.which("qemu-x86_64")
        if qemu is None:
            self.skipTest("qemu-x86_64 is not installed (package qemu-user)")
        for program in ("nmt", "worker"):
            done = subprocess.run(
                [qemu, "-cpu", "Nehalem", BIN / program, "--version"],
                capture_output=True,
                text=True,
                check=False,
                timeout=600,
            )
            if done.returncode == 0:
                self.assertRegex(done.stdout, rf"^{program} \d")
                continue
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertRegex(
                done.stderr,
                rf"^{program}: error: the processor of \S+ lacks [^\n]*\bavx\b[^\n]*, for which this "
                r"program was compiled: [^\n]*\n$",
            )


if __name__ == "__main__":
    unittest.main()
