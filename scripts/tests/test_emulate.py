"""Tests of what scripts/bench.sh emulate does with records and runs, on folders with a few of them."""

from __future__ import annotations

import json
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "bench"))

import emulate  # noqa: E402
import real_time  # noqa: E402


class EmulateTest(unittest.TestCase):
    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = pathlib.Path(place.name)

    def run_folder(self, name: str, step_ms: float, exposed_ms: float, sent: int, verdict: str) -> pathlib.Path:
        run = self.folder / name
        (run / "spool/attempt-1").mkdir(parents=True)
        for rank in range(2):
            records: list[dict[str, object]] = [{"kind": "lifecycle", "event": "started"}]
            for update in range(1, 9):
                slow = 10 if update <= real_time.WARM_UP else 1
                record = dict.fromkeys(real_time.PARTS, 0.0) | {"kind": "step", "update": update}
                record |= {"step_ms": slow * step_ms, "forward_ms": slow * (step_ms - exposed_ms)}
                record |= {"exposed_communication_ms": slow * exposed_ms}
                records.append(record | {"network_tx_bytes": sent if rank == 0 else 0})
            spool = run / f"spool/attempt-1/rank-{rank}.jsonl"
            spool.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        said = f"Yes. The verdict on the last updates: {verdict}: 41 % of each step waits."
        answers = [{"key": "how_long", "answer": "1 s"}, {"key": "network_bottleneck", "answer": said}]
        (run / "report.json").write_text(json.dumps({"answers": answers}), encoding="utf-8")
        return run

    def test_step_large_parts_and_bytes_are_compared(self) -> None:
        real = [self.run_folder(f"real-{i}", 100 + i, 8, 1000, "healthy") for i in range(3)]
        emulated = [self.run_folder("emulated", 104.03, 30, 1020, "network-bound")]
        found = real_time.compare(real, emulated)
        self.assertEqual(found["real"]["step_ms"], 101)
        self.assertEqual(sorted(found["errors"]), ["forward_ms", "sent_bytes", "step_ms"])
        self.assertAlmostEqual(found["errors"]["step_ms"], 0.03)
        self.assertAlmostEqual(found["errors"]["sent_bytes"], 0.02)
        self.assertEqual(found["verdicts"], {"real": ["healthy"] * 3, "emulated": ["network-bound"]})

    def test_the_verdict_is_found_in_a_report_of_the_program(self) -> None:
        report = (ROOT / "tests/insight/report/run_on_two_hosts.json").read_text(encoding="utf-8")
        (self.folder / "report.json").write_text(report, encoding="utf-8")
        self.assertEqual(real_time.verdict(self.folder), "network-bound")

    def test_a_disturbed_record_is_doubtful(self) -> None:
        for quality, doubtful in (("good", False), ("the machine was disturbed: the ops vary by 59 %", True)):
            (self.folder / "rank.json").write_text(json.dumps({"quality": quality}), encoding="utf-8")
            self.assertEqual(emulate.is_doubtful(self.folder / "rank.json"), doubtful)

    def test_runs_without_updates_are_refused(self) -> None:
        (self.folder / "empty").mkdir()
        with self.assertRaisesRegex(ValueError, "no step records"):
            real_time.medians([self.folder / "empty"])


if __name__ == "__main__":
    unittest.main()
