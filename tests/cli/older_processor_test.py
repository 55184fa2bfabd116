"""The programs on processors of 2008 and 2013, emulated by qemu (package qemu-user)."""

from __future__ import annotations

import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from system import BIN  # noqa: E402


class OlderProcessor(unittest.TestCase):
    """They run there, with the kernels for such a processor."""

    def test_programs_run(self) -> None:
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
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, rf"^{program} \d")

    def test_kernels_are_those_of_the_processor(self) -> None:
        """The kernels that the worker would use."""
        qemu = shutil.which("qemu-x86_64")
        if qemu is None:
            self.skipTest("qemu-x86_64 is not installed (package qemu-user)")
        for processor, kernels in (("Nehalem", "generic"), ("Haswell", "avx2")):
            done = subprocess.run(
                [qemu, "-cpu", processor, BIN / "nmt", "doctor"],
                capture_output=True,
                text=True,
                check=False,
                timeout=600,
            )
            self.assertIn(f"cpu ({kernels} kernels, oneDNN ", done.stdout)


if __name__ == "__main__":
    unittest.main()
