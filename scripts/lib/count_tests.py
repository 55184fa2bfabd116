#!/usr/bin/env python3
"""Counts single test cases of a stage of scripts/test.sh, in ctest's JUnit files and in logs of Python's unittest.

A ctest entry is a whole GoogleTest program or unittest script: its own summary says how many cases it ran. An entry
without one (another script, a program that crashed) counts as one case.

  count_tests.py --stage FOLDER STAGE STATUS   the stage's exit code and its results FOLDER/STAGE.{log,xml,*tests}:
                                               prints "PASSED FAILED SKIPPED words for the summary"
  count_tests.py --failures FILE.xml           what the failed tests said
"""

from __future__ import annotations

import pathlib
import re
import sys
import xml.etree.ElementTree as xml

Counts = tuple[int, int, int]
MAX_LINES = 80  # shown of one ctest entry
SKIPPED = 77  # exit code of a stage


def _most(pattern: str, text: str) -> int:
    """The largest number that a pattern finds: the ranks of an MPI test print the same summary each."""
    return max((int(number) for number in re.findall(pattern, text)), default=0)


def junit_case(status: str, output: str) -> Counts:
    """The cases of one ctest entry from its status (run, fail, notrun, disabled) and its output."""
    passed = _most(r"\[  PASSED  \] (\d+) test", output)
    failed = _most(r"\[  FAILED  \] (\d+) test", output)
    skipped = _most(r"\[  SKIPPED \] (\d+) test", output)
    if re.search(r"^Ran \d+ tests? in", output, re.MULTILINE):
        passed, failed, skipped = unittest_counts(output)
    if status == "fail":
        return passed, max(failed, 1), skipped
    if status != "run":
        return 0, 0, 1
    return (passed, failed, skipped) if passed + skipped else (1, 0, 0)


def _status(case: xml.Element) -> str:
    """CTest's own attribute; other writers of JUnit files say it by a child."""
    if case.find("failure") is not None or case.find("error") is not None:
        return "fail"
    return case.get("status") or ("notrun" if case.find("skipped") is not None else "run")


def junit_counts(text: str) -> Counts:
    totals = [0, 0, 0]
    for case in xml.fromstring(text).iter("testcase"):
        for i, count in enumerate(junit_case(_status(case), case.findtext("system-out") or "")):
            totals[i] += count
    return totals[0], totals[1], totals[2]


def failed_output(output: str) -> list[str]:
    """The last lines of a failed entry's failed GoogleTest cases; for another program, the last lines of its output."""
    lines = output.splitlines()
    ends = [i for i, line in enumerate(lines) if re.match(r"\[  FAILED  \] .*\(\d+ ms\)$", line)]
    chosen: list[str] = []
    for end in ends:
        begin = max((i for i in range(end) if lines[i].startswith("[ RUN      ]")), default=0)
        chosen += lines[begin : end + 1]
    return (chosen or lines)[-MAX_LINES:]


def failures(text: str) -> list[str]:
    """The name and output of each failed entry of a JUnit file."""
    told: list[str] = []
    for case in xml.fromstring(text).iter("testcase"):
        if _status(case) == "fail":
            told += [
                f"failed: {case.get('name')}",
                *failed_output(case.findtext("system-out") or case.findtext("failure") or ""),
            ]
    return told


def unittest_counts(text: str) -> Counts:
    ran = _most(r"Ran (\d+) tests? in", text)
    failed = _most(r"failures=(\d+)", text) + _most(r"errors=(\d+)", text)
    skipped = _most(r"skipped=(\d+)", text)
    return ran - failed - skipped, failed, skipped


def stage_result(folder: pathlib.Path, stage: str, status: int) -> tuple[Counts, str]:
    """The counts of a stage and words for the summary. A stage without counted tests is one test itself."""

    def read(file: pathlib.Path) -> str:
        return file.read_text(encoding="utf-8", errors="replace")

    if status == SKIPPED:
        return (0, 0, 1), read(folder / f"{stage}.log").rstrip("\n").rpartition("\n")[2]
    files = [*folder.glob(f"{stage}.xml")] or [*folder.glob(f"{stage}.*tests")]
    if not files:
        return ((1, 0, 0), "passed") if status == 0 else ((0, 1, 0), "FAILED")
    counts = [junit_counts(read(file)) if file.suffix == ".xml" else unittest_counts(read(file)) for file in files]
    passed, failed, skipped = (sum(column) for column in zip(*counts))
    if status != 0:
        failed = max(failed, 1)
    return (passed, failed, skipped), f"{passed} passed, {failed} failed, {skipped} skipped"


def main(words: list[str]) -> None:
    if words[0] == "--failures":
        print(*failures(pathlib.Path(words[1]).read_text(encoding="utf-8", errors="replace")), sep="\n")
    else:
        counts, said = stage_result(pathlib.Path(words[1]), words[2], int(words[3]))
        print(*counts, said)


if __name__ == "__main__":
    main(sys.argv[1:])
