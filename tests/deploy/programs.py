"""The programs as files for deployment call them."""

from __future__ import annotations

import functools
import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ["BABELRING_BIN"]).resolve()


@functools.cache
def help_of(*command: str) -> str:
    return subprocess.run([BIN / command[0], *command[1:], "--help"], capture_output=True, text=True, check=True).stdout


def unknown_words(command: list[str]) -> list[str]:
    """Options and configuration keys that the program lacks whose call is, or ends, this command: `mpirun … worker …`."""
    programs = [at for at, word in enumerate(command) if word.removeprefix("babelring-") in ("server", "worker", "nmt")]
    if not programs:
        return []
    program, words = command[programs[0]].removeprefix("babelring-"), command[programs[0] + 1 :]
    text = help_of(program, words[0]) if program == "nmt" else help_of(program)
    options = set(re.findall(r"^  (?:-\w,)?(--[\w-]+)", text, re.MULTILINE))
    keys = set(re.findall(r"^([\w.]+) {2,}", text.partition("Keys of the configuration:\n")[2], re.MULTILINE))
    unknown = [word for word in words if word.startswith("--") and word.split("=")[0] not in options]
    return unknown + [word for word in words if re.match(r"[\w.]+=", word) and word.split("=")[0] not in keys]


def commands_of(readme: Path) -> list[str]:
    """The lines of its blocks of commands, continued ones joined."""
    blocks = re.findall(r"^```\n(.*?)^```", readme.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]


def unknown_words_of(readme: Path) -> list[str]:
    return [word for line in commands_of(readme) for word in unknown_words(line.partition(" #")[0].split())]
