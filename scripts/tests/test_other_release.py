"""Tests of scripts/other_release.sh without its runs: the choice of release, its settings and what it refuses."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[1]
NOBODY = 65534


class OtherRelease(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.folder.chmod(0o755)
        self.programs = self.folder / "programs"
        self.programs.mkdir()

    def run_words(self, *words: object, path: str = "") -> subprocess.CompletedProcess[str]:
        variables = os.environ | {"PATH": path or os.environ["PATH"]}
        return subprocess.run([str(word) for word in words], env=variables, capture_output=True, text=True, timeout=60)

    def run_script(self, *options: object, path: str = "") -> subprocess.CompletedProcess[str]:
        return self.run_words("/bin/bash", SCRIPTS / "other_release.sh", *options, path=path)

    def call(self, command: str) -> subprocess.CompletedProcess[str]:
        """Runs a command line with the script's functions and, first on PATH, the programs of this test."""
        sourced = f"source '{SCRIPTS}/other_release.sh'; {command}"
        return self.run_words("/bin/bash", "-c", sourced, path=f"{self.programs}:{os.environ['PATH']}")

    def program(self, name: str, text: str) -> None:
        (self.programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.programs / name).chmod(0o755)

    def test_the_other_release_is_not_the_one_of_this_machine(self) -> None:
        for system, other in (("debian 12", "trixie"), ("debian 13", "bookworm")):
            self.assertEqual(self.call(f"other_release '{system}'").stdout, other)
        for system in ("debian 11", "ubuntu 24.04", "unknown "):
            done = self.call(f"other_release '{system}' || printf none")
            self.assertEqual(done.stdout, "none", system)

    def test_elsewhere_it_names_the_system_and_exits_77(self) -> None:
        done = self.call("here() { [ $1 = ID ] && printf ubuntu || printf 24.04; }; require_what_is_needed")
        self.assertEqual(done.returncode, 77)
        self.assertRegex(done.stderr, r"\A\S+: this is ubuntu 24\.04, expected Debian 12 or 13\n\Z")

    def test_wrong_options_are_refused(self) -> None:
        for options, said in (
            (["--no-such"], "unknown option --no-such"),
            (["--only", "tests"], "--only: found 'tests', expected quickstart or test"),
            (["--root"], "--root needs a value"),
        ):
            done = self.run_script(*options)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(f"other_release.sh: {said}", done.stderr)

    def test_help_is_the_comment(self) -> None:
        done = self.run_script("--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("--root DIR", done.stdout)

    def test_absent_programs_are_named_in_one_line(self) -> None:
        for name in ("bash", "dirname", "basename", "git", "apt-get", "apt-config", "unshare", "setpriv", "mount"):
            found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
            if found is not None:
                (self.programs / name).symlink_to(found)
        release = "here() { [ $1 = ID ] && printf debian || printf 12; }"
        sourced = f"source '{SCRIPTS}/other_release.sh'; {release}; require_what_is_needed"
        done = self.run_words("/bin/bash", "-c", sourced, path=str(self.programs))
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertRegex(done.stderr, r"\A\S+: programs are missing: debootstrap .*pivot_root.*\n\Z")

    def test_another_user_than_root_is_refused(self) -> None:
        for name in ("debootstrap", "pivot_root", "apt-get", "apt-config", "git", "unshare", "setpriv", "mount"):
            self.program(name, "exit 9")
        shutil.copytree(SCRIPTS, self.folder / "scripts", ignore=shutil.ignore_patterns("tests", "__pycache__"))
        release = "here() { [ $1 = ID ] && printf debian || printf 12; }"
        sourced = f"source '{self.folder}/scripts/other_release.sh'; {release}; require_what_is_needed"
        user = ["setpriv", f"--reuid={NOBODY}", "--clear-groups", "--"] if os.geteuid() == 0 else []
        words = [*user, "env", f"PATH={self.programs}:{os.environ['PATH']}", "/bin/bash", "-c", sourced]
        done = self.run_words(*words)
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertRegex(done.stderr, r"\A\S+: needs root, .*\n\Z")

    def test_a_folder_of_something_else_is_left_alone(self) -> None:
        root = self.folder / "root"
        check = f"kept=yes root='{root}' release=trixie; check_folder"
        self.assertEqual(self.call(check).returncode, 0, "an absent folder")
        for mark, status in (("trixie", 0), ("unfinished trixie", 0), ("bookworm", 1)):
            (root / ".babelring-other-release").write_text(mark)
            self.assertEqual(self.call(check).returncode, status, mark)
        (root / ".babelring-other-release").rename(root / "letter")
        done = self.call(check)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"\A\S+: --root: \S+/root is not empty and not from this script\n\Z")
        self.assertTrue((root / "letter").exists())

    def test_summary_has_minutes_counts_and_exit_codes(self) -> None:
        self.program(
            "fake_test", "echo first; echo 'in all      1.25 min, 4 skipped'; echo '9 passed, 1 failed'; exit 3"
        )
        self.program("fake_quickstart", "echo first; echo '{\"bleu\": 7}'")
        stub = f"CLONE='{self.folder}/clone' release=trixie results=() failed=no; mkdir $CLONE; environment() {{ \"$@\"; }}"
        show = "echo ==; printf '%s\\n' \"${results[@]}\" $failed"
        done = self.call(f"{stub}; timed quickstart fake_quickstart; echo $failed; timed test fake_test; {show}")
        self.assertEqual(done.returncode, 0, done.stderr)
        before, _, after = done.stdout.partition("==\n")
        self.assertIn("no\n", before)
        self.assertRegex(
            after,
            r"\Aquickstart +[\d.]+ min  exit code 0  \{\"bleu\": 7\}\n"
            r"test +[\d.]+ min  exit code 3  1\.25 min, 4 skipped; 9 passed, 1 failed\nyes\n\Z",
        )

    def test_mirror_and_settings_are_those_of_this_machines_apt(self) -> None:
        self.program(
            "apt-get",
            'printf "x main http://a/\\nhere-updates main http://b/\\nhere main http://c/\\nhere main http://d/\\n"',
        )
        lines = ['Acquire "";', 'Acquire::http::Proxy "http://p:1";', 'Acquire::http::Proxy::host "";', 'APT::Get "1";']
        self.program("apt-config", "cat <<'END'\n" + "\n".join(lines) + "\nEND")
        self.assertEqual(self.call("here() { printf here; }; mirror").stdout, "http://c/")
        self.assertEqual(self.call("download_settings").stdout, lines[1] + "\n")
        done = self.call("here() { printf there; }; mirror")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("apt has no source of there main", done.stderr)


if __name__ == "__main__":
    unittest.main()
