"""`nmt trace memory` and `nmt trace graph` of an update that is only imagined: forms of output, exit codes, messages."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from cases import CommandTest  # noqa: E402
from system import ROOT  # noqa: E402

READER = ROOT / "tests/e2e/event_reader.py"
CONFIG = "preset: transformer-tiny\nmodel: {encoder_layers: 1, decoder_layers: 1}\ntraining: {precision: f32}\n"


class TraceTest(CommandTest):
    command = ("trace",)

    def setUp(self) -> None:
        super().setUp()
        self.config = self.folder / "config.yaml"
        self.config.write_text(CONFIG, encoding="utf-8")

    def memory(self, *arguments: str) -> str:
        return self.result("memory", "--config", self.config, "--tokens", "64", "--vocabulary", "100", *arguments)

    def test_memory_in_each_form(self) -> None:
        report = json.loads(self.memory("--json"))
        peak = report["moments"][report["peak"]]
        self.assertEqual(peak[3] + peak[4], max(moment[3] + moment[4] for moment in report["moments"]))
        self.assertIn(f"peak at op {report['peak'] + 1} of {len(report['moments'])}: {peak[2]}", self.memory())
        rows = list(csv.DictReader(io.StringIO(self.memory("--csv"))))
        self.assertEqual([int(row["activations_bytes"]) for row in rows], [moment[3] for moment in report["moments"]])
        page = self.folder / "page.html"
        self.memory("--html", "--output", str(page))
        self.assertIn("<svg viewBox", page.read_text(encoding="utf-8"))
        wider = json.loads(self.memory("--json", "model.width=256"))
        self.assertGreater(wider["saved_peak"], report["saved_peak"])

    def test_a_stored_report_of_a_run(self) -> None:
        (self.folder / "lab").mkdir()
        report = json.loads(self.memory("--json")) | {"update": 7}
        (self.folder / "lab/memory-update-00000007-rank-0.json").write_text(json.dumps(report), encoding="utf-8")
        self.assertIn("update 7, rank 0", self.result("memory", self.folder))
        broken = self.folder / "broken.json"
        broken.write_text("{", encoding="utf-8")
        self.assertEqual(self.call("memory", broken).returncode, 1)
        broken.write_text('{"format": 9}', encoding="utf-8")
        self.assertIn("memory report: expected format 1, found 9", self.call("memory", broken).stderr)

    def test_graph_in_each_form(self) -> None:
        def graph(*arguments: str) -> str:
            return self.result("graph", "--config", self.config, "--vocabulary", "100", *arguments)

        ops = json.loads(graph("--format", "json", "--depth", "op"))["nodes"]
        layers = json.loads(graph("--format", "json"))["nodes"]
        training = json.loads(graph("--format", "json", "--depth", "op", "--training"))["nodes"]
        self.assertEqual(sum(node["ops"] for node in layers), len(ops))
        self.assertGreater(len(training), 2 * len(ops))
        self.assertEqual({node["phase"] for node in training} & {"backward", "optimizer"}, {"backward", "optimizer"})
        self.assertTrue(graph().startswith("digraph update {"))
        xml.fromstring(graph("--format", "svg", "--depth", "op", "--training"))

    def test_graph_for_tensorboard(self) -> None:
        try:
            import crcmod.predefined  # noqa: F401
            import google.protobuf  # noqa: F401
        except ImportError:
            self.skipTest("python3-protobuf and python3-crcmod are not installed")
        board = self.folder / "board"
        arguments = ("graph", "--config", self.config, "--vocabulary", "100", "--depth", "op")
        self.result(*arguments, "--format", "tensorboard", "--output", board)
        ops = json.loads(self.result(*arguments, "--format", "json"))["nodes"]
        done = subprocess.run([sys.executable, READER, *board.iterdir()], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        [graph] = [event["graph"] for event in map(json.loads, done.stdout.splitlines()) if "graph" in event]
        names = [node["name"] for node in graph]
        self.assertEqual(len(set(names)), len(names))
        for node in graph:
            self.assertLessEqual(set(node["inputs"]), set(names))
        self.assertEqual(len([node for node in graph if node["op"] not in ("Variable", "Placeholder")]), len(ops))

    def test_wrong_usage_is_refused(self) -> None:
        self.assertIn("expected either RUN or --config FILE", self.refusal("memory"))
        self.assertIn("expected either --config FILE or --checkpoint DIR", self.refusal("graph"))
        self.assertIn("train with lab.memory.at=UPDATE", self.refusal("memory", self.folder))
        self.assertIn("no such file", self.refusal("memory", "--config", self.folder / "absent.yaml"))
        self.assertIn("needs --output", self.refusal("graph", "--config", self.config, "--format", "tensorboard"))
        self.assertIn("model.widht", self.refusal("graph", "--config", self.config, "model.widht=3"))


if __name__ == "__main__":
    unittest.main()
