"""deploy/systemd: systemd takes the units, and they do what deploy/systemd/README.md says."""

from __future__ import annotations

import configparser
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SYSTEMD = ROOT / "deploy" / "systemd"
UNIT = SYSTEMD / "babelring-server.service"
USER_UNIT = SYSTEMD / "user" / "babelring-server.service"


def service_of(unit: pathlib.Path) -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[method-assign, assignment]
    parser.read(unit)
    return parser["Service"]


def run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120)


class Unit(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def installed(self, unit: pathlib.Path) -> pathlib.Path:
        """A copy that names a program that exists."""
        program = self.folder / "bin" / "babelring-server"
        program.parent.mkdir(exist_ok=True)
        program.touch(mode=0o755)
        copy = self.folder / unit.name
        copy.write_text(unit.read_text(encoding="utf-8").replace("/opt/babelring", str(self.folder)), encoding="utf-8")
        return copy

    def test_keeps_trainings_and_reloads(self) -> None:
        for unit in (UNIT, USER_UNIT):
            service = service_of(unit)
            self.assertEqual(service["KillMode"], "process")
            self.assertEqual(service["ExecReload"], "/bin/kill -HUP $MAINPID")
            self.assertEqual(service["RestartPreventExitStatus"], "2")
        service = service_of(UNIT)
        self.assertGreaterEqual(int(service["LimitNOFILE"]), 12_000 + 256)
        self.assertTrue(service["ExecStartPre"].endswith("--check"))
        self.assertEqual(service["ProtectSystem"], "strict")
        self.assertIn("/tmp", service["ReadWritePaths"].split(), "Open MPI's session folders")

    @unittest.skipUnless(shutil.which("systemd-analyze"), "there is no systemd-analyze (package systemd)")
    def test_systemd_takes_both_units(self) -> None:
        dropins = self.folder / f"{UNIT.name}.d"
        dropins.mkdir()
        shutil.copy(SYSTEMD / "tls.conf", dropins)
        done = run("systemd-analyze", "verify", "--man=no", self.installed(UNIT))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        os.environ.setdefault("XDG_RUNTIME_DIR", str(self.folder))
        done = run("systemd-analyze", "--user", "verify", "--man=no", self.installed(USER_UNIT))
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    @unittest.skipUnless(shutil.which("systemd-analyze"), "there is no systemd-analyze (package systemd)")
    def test_exposes_little(self) -> None:
        done = run("systemd-analyze", "security", "--offline=yes", "--threshold=30", "--no-pager", UNIT)
        self.assertEqual(done.returncode, 0, done.stdout[-400:])
        exposure = re.search(r"Overall exposure level for \S+: (\d+\.\d)", done.stdout)
        assert exposure is not None, done.stdout[-400:]
        self.assertLessEqual(float(exposure[1]), 3.0)

    @unittest.skipUnless(shutil.which("systemd-tmpfiles"), "there is no systemd-tmpfiles (package systemd)")
    def test_tmpfiles_removes_old_backups_and_nothing_of_open_mpi(self) -> None:
        old, new = self.folder / "var/lib/babelring/backups/old.db", self.folder / "var/lib/babelring/backups/new.db"
        session = self.folder / "tmp/ompi.host.1000/contact"
        for file in (old, new, session):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        for file in (old, session):
            os.utime(file, (time.time() - 31 * 86400,) * 2)
        rules = self.folder / "rules.conf"
        rules.write_text("d /tmp - - - m:10d\n" + (SYSTEMD / "babelring.conf").read_text(encoding="utf-8"))
        done = run("systemd-tmpfiles", "--clean", f"--root={self.folder}", rules)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual((old.exists(), new.exists(), session.exists()), (False, True, True))


if __name__ == "__main__":
    unittest.main()
