"""deploy/: systemd takes the unit, and the unit does what docs/operations.md says."""

from __future__ import annotations

import configparser
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
UNIT = ROOT / "deploy" / "systemd" / "babelring-server.service"


class Unit(unittest.TestCase):
    def test_keeps_trainings_and_reloads(self) -> None:
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        parser.optionxform = str  # type: ignore[method-assign, assignment]
        parser.read(UNIT)
        service = parser["Service"]
        self.assertEqual(service["KillMode"], "process")
        self.assertEqual(service["ExecReload"], "/bin/kill -HUP $MAINPID")
        self.assertGreaterEqual(int(service["LimitNOFILE"]), 12_000 + 256)
        self.assertTrue(service["ExecStartPre"].endswith("--check"))

    @unittest.skipUnless(shutil.which("systemd-analyze"), "there is no systemd-analyze (package systemd)")
    def test_systemd_takes_it(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "bin" / "server"
            program.parent.mkdir()
            program.touch(mode=0o755)
            unit = pathlib.Path(folder) / UNIT.name
            unit.write_text(UNIT.read_text(encoding="utf-8").replace("/opt/babelring", folder), encoding="utf-8")
            done = subprocess.run(
                ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=120
            )
            self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
