"""`nmt gssm` as a program: output, files of results, exit codes and messages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from cases import CommandTest  # noqa: E402
from system import BIN, ROOT  # noqa: E402

CONFIGS = ROOT / "configs"
SCRIPT = ROOT / "scripts" / "gssm_difficulty.sh"
SMALL = """
gssm:
  - {name: X, state_dim: 8, parents: [Z1]}
  - {name: Z1, state_dim: 4, parents: [X]}
"""


class GssmTest(CommandTest):
    command = ("gssm",)

    def setUp(self) -> None:
        super().setUp()
        self.config = self.folder / "small.yaml"
        self.config.write_text(SMALL, encoding="utf-8")

    def test_show_prints_sizes_dot_and_json(self) -> None:
        config = CONFIGS / "gssm-small-x.yaml"
        text = self.result("show", "--config", config)
        self.assertIn("joint states: 256; likelihood: 4,352 multiply-adds a token", text)
        self.assertIn("Z1 -> X;", self.result("show", "--config", config, "--dot"))
        self.assertIn("model: 12 layers, width 288, 12 heads, inner 1152: 11,984,832 parameters", text)
        graph = json.loads(self.result("show", "--config", config, "--json", "gssm.nodes.1.mode=slow"))
        self.assertGreater(graph["model"]["flops_per_token"], 6 * 11_000_000)
        self.assertEqual(graph["nodes"][0]["mode"], "slow")
        self.assertEqual(graph["kernel_entries"], 10240)
        graph = json.loads(self.result("show", "--config", self.config, "--json", "--kernels"))
        self.assertEqual([len(node["probabilities"]) for node in graph["kernels"]], [4 * 8, 4])
        for node in graph["kernels"]:
            for row in node["probabilities"]:
                self.assertAlmostEqual(sum(row), 1, 12)
        text = self.result("show", "--config", self.config, "--kernels")
        self.assertRegex(text, r"\nkernel of Z1: probabilities of states 0 to 3\nZ1=0 X=0: [0-9.e-]+( [0-9.e-]+){3}\n")

    def test_keys_of_published_configurations_are_explained(self) -> None:
        for theirs, ours in (
            ("cluster: {partition: gpu}", "'cluster'; here that is of mpirun"),
            ("model: {emb_dim: 288}", "'model.emb_dim'; here that is model.width"),
            ("data: {seq_len: 2048}", "'data.seq_len'; here that is data.sequence_length"),
            ("setup1: {nodes: []}", "'setup1'; write each setup to a separate file, with its nodes under gssm.nodes"),
        ):
            config = self.folder / "published.yaml"
            config.write_text(SMALL + theirs + "\n", encoding="utf-8")
            refusal = self.refusal("show", "--config", config)
            self.assertRegex(refusal, r"published\.yaml:5:\d+: unknown key ")
            self.assertIn(f"unknown key {ours}", refusal)

    def difficulty(self, *arguments: str | Path) -> list[dict]:
        shared = ("--config", self.config, "--sequences", "4", "--length", "64", "--json")
        return json.loads(self.result("difficulty", *shared, *arguments))["cells"]

    def test_difficulty_and_entropy_of_a_grid(self) -> None:
        cells = self.difficulty("--alphas-x", "1e-3:10:3", "--kernel-seeds", "2", "--entropy")
        self.assertEqual([cell["kernel_seed"] for cell in cells], [42, 43] * 3)
        self.assertEqual([cell["alpha_X"] for cell in cells[::2]], [0.001, 0.1, 10])
        for cell in cells:
            self.assertLess(cell["difficulty_normalised"], 1.1)
            self.assertLess(cell["entropy_share"], 1.05)
        self.assertLess(cells[0]["entropy_nats"], cells[4]["entropy_nats"])
        text = self.result("difficulty", "--config", self.config, "--sequences", "4", "--kernel-seeds", "2")
        self.assertRegex(text, r"mean of 2 kernel seeds: difficulty 0\.\d{4} \(standard deviation 0\.\d{4}\)\n$")

    def test_tasks_share_a_file_and_finished_cells_are_not_repeated(self) -> None:
        grid = ("--alphas-z", "0.1:1:3", "--json-lines", self.folder / "grid.jsonl")
        first = self.difficulty(*grid, "--task", "1", "--tasks", "2")
        second = self.difficulty(*grid, "--task", "2", "--tasks", "2")
        self.assertEqual((len(first), len(second)), (2, 1))
        lines = (self.folder / "grid.jsonl").read_text(encoding="utf-8").splitlines()
        self.assertEqual([json.loads(line) for line in lines], first + second)
        cells = sorted(first + second, key=lambda cell: cell["alpha_Z"])
        self.assertEqual(self.difficulty(*grid), cells, "cells of the file are shown")
        shared = ("--config", self.config, "--sequences", "4", "--length", "64")
        text = self.result("difficulty", *shared, *grid, "--plot", self.folder / "grid.svg")
        self.assertEqual(text.splitlines()[-1], "3 cells finished before, from --json-lines")
        self.assertEqual(text.splitlines()[0], f"difficulty in bytes of zlib {cells[0]['zlib']}, level 9, a token")
        self.assertEqual(len(text.splitlines()), 6)
        svg = (self.folder / "grid.svg").read_text(encoding="utf-8")
        self.assertEqual(svg.count("<title>alpha_Z "), 3)
        (self.folder / "grid.jsonl").write_text(lines[0] + "\n" + lines[1][:30], encoding="utf-8")
        self.assertEqual(self.difficulty(*grid), cells, "two are measured again")
        self.assertEqual(len((self.folder / "grid.jsonl").read_text(encoding="utf-8").splitlines()), 4)

    def grid_by_script(self, **environment: str) -> list[str]:
        results = self.folder / "grid.jsonl"
        options = ("--config", self.config, "--alphas-z", "0.1:1:3", "--sequences", "2", "--length", "16")
        everything = {**os.environ, "BABELRING_BIN": str(BIN.resolve()), **environment}
        done = subprocess.run([SCRIPT, results, *options], capture_output=True, text=True, env=everything, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line)["key"] for line in results.read_text(encoding="utf-8").splitlines()]

    def test_the_script_runs_a_grid_here_or_as_a_job_array(self) -> None:
        array = {"SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_COUNT": "2"}
        self.assertEqual(len(self.grid_by_script(**array, SLURM_ARRAY_TASK_ID="2")), 1)
        self.assertEqual(len(self.grid_by_script(**array, SLURM_ARRAY_TASK_ID="1")), 3)
        (self.folder / "grid.jsonl").unlink()
        self.assertEqual(len(set(self.grid_by_script())), 3)

    def test_data_writes_sets_with_their_entropy(self) -> None:
        output = self.folder / "data"
        sets = ("--config", self.config, "--output", output, "--train", "30", "--test", "4", "data.sequence_length=16")
        text = self.result("data", *sets)
        self.assertIn(
            "train: 30 sequences, 480 tokens\ntest: 4 sequences, 64 tokens\nentropy of 4 test sequences: ", text
        )
        report = json.loads(self.result("data", *sets, "--json", "--entropy-sequences", "2"))
        self.assertEqual(report["entropy"]["sequences"], 2)
        manifest = json.loads((output / "manifest.json").read_text(encoding="utf-8"))
        self.assertEqual([entry["name"] for entry in manifest["sets"]], ["train", "test"])
        self.assertEqual(manifest["options"]["graph"], report["graph"])
        into_file = ("data", "--config", self.config, "--output", self.config, "--train", "1", "--test", "1")
        self.assertIn("is a file, expected a folder", self.refusal(*into_file))

    def test_bad_input_is_refused_in_one_line(self) -> None:
        self.assertIn("no such file", self.refusal("show", "--config", self.folder / "none.yaml"))
        self.assertIn(
            "override gssm.nodes.3.alpha: expected an item of gssm.nodes from 1 to 2, found '3'",
            self.refusal("show", "--config", self.config, "gssm.nodes.3.alpha=1"),
        )
        self.assertIn(
            f"{self.config}:3:29: gssm.nodes.1.parents: unknown node 'Z1'",
            self.refusal("show", "--config", self.config, "gssm.nodes.2.name=Y"),
        )
        self.assertIn(
            "gssm.nodes: given, but task is translation; expected task: gssm",
            self.refusal("show", "--config", self.config, "task=translation"),
        )
        self.assertIn("--train is required", self.refusal("data", "--config", self.config, "--output", "x", "--test=1"))
        difficulty = ("difficulty", "--config", self.config)
        self.assertIn("--length: found 1, expected 2 to", self.refusal(*difficulty, "--length=1"))
        self.assertIn("--alphas-x: expected an alpha or LOW:HIGH", self.refusal(*difficulty, "--alphas-x", "1:2"))
        self.assertIn(
            "--task: found 3, expected at most --tasks, 2", self.refusal(*difficulty, "--task=3", "--tasks=2")
        )
        unwritable = self.folder / "none" / "grid.jsonl"
        self.assertIn(f"{unwritable} cannot be written", self.refusal(*difficulty, "--json-lines", unwritable))


if __name__ == "__main__":
    unittest.main()
