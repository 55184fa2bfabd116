#!/usr/bin/env python3
"""Shows the output of mpirun and the workers as it arrives on standard input.

  train_lines.py LOG [--terminal]

Everything but progress bars is added to the file LOG. Standard output gets the same lines; with --terminal the bar as a moving line
instead, and of the lines only those that need a person: validations, warnings, errors.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator

CLEAR = "\r\x1b[K"
BAR = re.compile(r"\[#*\.*\] +\d+ %  .*? left")
EVENT = re.compile(r"^\S+ \S+ (?:\[rank \d+\] )?(\w+): (.*)$")


def pieces(stream: Iterator[bytes]) -> Iterator[tuple[str, bool]]:
    """Texts that end in a line feed or a carriage return, which bars begin with, and whether it was a line feed. An unfinished bar is
    given at once: nothing may follow it for a while."""
    rest = ""
    for block in stream:
        rest += block.decode(errors="replace")
        *done, rest = re.split(r"(?<=[\r\n])", rest)
        for piece in done:
            text = piece.rstrip("\r\n").replace("\x1b[K", "")
            if bar := BAR.match(text):  # mpirun may append standard output to a bar
                yield bar.group(), False
                text = text[bar.end() :]
                if not text:
                    continue
            if text or piece.endswith("\n"):
                yield text, piece.endswith("\n")
        if BAR.fullmatch(rest.replace("\x1b[K", "")):
            yield rest.replace("\x1b[K", ""), False
            rest = ""
    if rest := rest.replace("\x1b[K", ""):
        yield rest, True


def shown(line: str) -> str | None:
    """The text that a person at a terminal sees for a line of the log, or nothing."""
    event = EVENT.match(line)
    if event is None:
        return line or None  # of mpirun, or of a program that fails
    level, text = event.groups()
    if level != "info":
        return f"{level}: {text}"
    validation = re.match(r"validation on (\S+) after (update [\d,]+): loss ([^,]+)", text)
    if validation is None:
        return None
    name, update, loss = validation.groups()
    bleu = re.search(r", sacreBLEU [\d.]+", text)
    best = ", the best so far" if ", the best so far" in text else ""
    return f"{update}: validation loss {loss}{bleu.group() if bleu else ''} on {name}{best}"


def blocks(descriptor: int) -> Iterator[bytes]:
    while block := os.read(descriptor, 1 << 16):
        yield block


def show(stream: Iterator[bytes], log: str, terminal: bool) -> None:
    with open(log, "a", encoding="utf-8") as file:
        for text, is_line in pieces(stream):
            if BAR.fullmatch(text):
                if terminal:
                    sys.stdout.write(f"{CLEAR}  {text}")
            elif is_line or text:
                file.write(text + "\n")
                file.flush()
                line = shown(text) if terminal else text
                if line is not None:
                    sys.stdout.write(f"{CLEAR}  {line}\n" if terminal else f"{line}\n")
            sys.stdout.flush()
        if terminal:
            sys.stdout.write(CLEAR)


def main() -> int:
    for ignored in (signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)  # it ends with its input: the workers save first, and say so
    show(blocks(sys.stdin.fileno()), sys.argv[1], "--terminal" in sys.argv[2:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
