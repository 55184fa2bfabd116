"""`nmt report` as a program: a report from the spools of a run's folder, and one line for each bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from cases import FolderTest  # noqa: E402
from system import call  # noqa: E402

RUN = "r_01KAJ5Z8T4QJ9V3N7M2X6C1B0A"


def report(*arguments: str | Path) -> subprocess.CompletedProcess:
    return call("nmt", "report", *arguments)


def records() -> list[dict]:
    """A run of 20 updates of 100 ms on one rank."""
    bodies: list[dict] = [
        {"kind": "lifecycle", "event": "started", "name": "tiny", "world_size": 1, "version": "0.1.0"}
    ]
    bodies += [{"kind": "step", "update": update, "step_ms": 100, "forward_ms": 100} for update in range(1, 21)]
    bodies.append({"kind": "lifecycle", "event": "finished", "detail": "finished: 20u of training"})
    head = {"run": RUN, "attempt": 1, "rank": 0, "host": "a"}
    return [
        head | {"sequence": at + 1, "time_ms": 1795000000000 + min(at, 20) * 100} | body
        for at, body in enumerate(bodies)
    ]


class ReportTest(FolderTest):
    def setUp(self) -> None:
        super().setUp()
        self.run_dir = self.folder
        self.spool = self.run_dir / "spool" / "attempt-1" / "rank-0.jsonl"
        self.spool.parent.mkdir(parents=True)
        self.spool.write_text("".join(json.dumps(record) + "\n" for record in records()), encoding="utf-8")

    def test_answers_in_every_form(self) -> None:
        made = report("--run-dir", self.run_dir, "--format", "json")
        self.assertEqual(made.returncode, 0, made.stderr)
        answers = json.loads(made.stdout)["answers"]
        self.assertEqual([answer["number"] for answer in answers], list(range(1, 13)))
        self.assertIn("2.00 s in updates (100 %)", answers[0]["answer"])
        self.assertIn(
            "## 10. How long is an average update?", report("--run-dir", self.run_dir, "--format", "md").stdout
        )
        file = self.run_dir / "report.html"
        self.assertEqual(report("--run-dir", self.run_dir, "--output", file).stdout, "")
        page = file.read_text(encoding="utf-8")
        self.assertIn("<title>Report of tiny</title>", page)
        self.assertNotIn("<script", page)

    def test_wrong_usage_is_one_line(self) -> None:
        for arguments, status, line in (
            ((), 2, "expected a run of the server, or --run-dir with the folder of a run"),
            (("help", "--run-dir", self.run_dir), 2, "expected a run of the server, or --run-dir"),
            (("--run-dir", self.run_dir / "spool"), 2, "found no spool/attempt-*/rank-0.jsonl"),
            (("--run-dir", self.run_dir, "--format", "pdf"), 2, "pdf"),
        ):
            with self.subTest(arguments=arguments):
                found = report(*arguments)
                self.assertEqual((found.returncode, found.stderr.count("\n")), (status, 1), found.stderr)
                self.assertIn(line, found.stderr)
        self.spool.write_text(json.dumps(records()[1] | {"update": "x"}) + "\n", encoding="utf-8")
        found = report("--run-dir", self.run_dir)
        self.assertEqual(found.returncode, 1)
        self.assertRegex(found.stderr, r"rank-0\.jsonl: line 1: record: update: expected an integer, found")


if __name__ == "__main__":
    unittest.main()
