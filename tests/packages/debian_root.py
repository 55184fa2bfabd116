"""Shared by the tests of packages and images: commands, this build's Debian packages, and a new Debian root."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import unittest
from pathlib import Path

BIN = Path(os.environ["BABELRING_BIN"]).resolve()
ROOT = Path(__file__).resolve().parents[2]
RELEASE = platform.freedesktop_os_release()


def run(*command: object, seconds: int = 600, **options: object) -> str:
    """The output; fails if the command does."""
    done = subprocess.run(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds, **options  # type: ignore[call-overload]
    )
    if done.returncode != 0:
        raise AssertionError(f"{command}: exit code {done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout


def require(*programs: str) -> None:
    """Skips the test without root or one of the programs."""
    absent = [name for name in programs if shutil.which(name) is None]
    if absent or os.geteuid() != 0:
        raise unittest.SkipTest(f"needs root and {', '.join(absent or ['no further program'])}")


def make_packages(folder: Path) -> Path:
    run("cpack", "-G", "DEB", "-B", folder, cwd=BIN.parent)
    return folder


def make_root(folder: Path) -> Path:
    """Debian's minimal system of this machine's release, from the mirror that debootstrap uses by default; skips the test where it
    cannot be reached. Packages of this build need the libraries of this release."""
    if RELEASE["ID"] != "debian":
        raise unittest.SkipTest(f"needs Debian; this is {RELEASE['ID']}")
    try:
        run("debootstrap", "--variant=minbase", RELEASE["VERSION_CODENAME"], folder, seconds=900)
    except AssertionError as failure:
        raise unittest.SkipTest(f"debootstrap made no root: {str(failure)[-300:]}") from failure
    shutil.copy("/etc/resolv.conf", folder / "etc")
    return folder
