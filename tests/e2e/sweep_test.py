"""`nmt sweep` against a server that starts runs, as a user does it."""

import json
import os
import subprocess
import unittest

from cases import ControlTest
from system import AS_ROOT, BIN, OVER, call, wait_for
from gssm_test import CONFIG

# Four widths with three seeds each. The last cell fails, because the checkpoint from which it starts does not exist.
GRID = f"""
name: toy
base: sequences.yaml
set: {{training.stop_after: 20u, validation.every: 10u, checkpoint.every: 0}}
grid:
  model.width: {[16] * 3 + [24] * 3 + [32] * 3 + [40] * 3}
  training.seed: {[0, 1, 2] * 4}
  training.start_from: {[""] * 11 + ["CHECKPOINT"]}
zip: [[model.width, training.seed, training.start_from]]
"""


class SweepTest(ControlTest):
    def setUp(self) -> None:
        super().setUp()
        (self.folder / "sequences.yaml").write_text(CONFIG, encoding="utf-8")
        self.grid = self.folder / "grid.yaml"
        self.checkpoint = self.folder / "given"
        self.write_grid(GRID.replace("CHECKPOINT", str(self.checkpoint)))
        self.environment = self.control.environment()

    def write_grid(self, text: str) -> None:
        self.grid.write_text(text, encoding="utf-8")

    def sweep(self, *words, code: int = 0) -> subprocess.CompletedProcess:
        done = call("nmt", "sweep", *words, env=self.environment)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def cells(self) -> list:
        return json.loads(self.sweep("show", "toy", "--json").stdout)["cells"]

    def wait_over(self) -> list:
        return wait_for(
            "the end of all cells",
            lambda: (cells := self.cells()) and all(cell["state"] in OVER for cell in cells) and cells,
            500,
        )

    def test_a_sweep_of_twelve_cells_one_of_which_fails(self) -> None:
        submitted = self.sweep("submit", self.grid, "--max-restarts", 0).stdout
        self.assertIn("toy: 12 of 12 cells submitted", submitted)
        self.assertIn(f"{self.control.address}/#/sweep/toy", submitted)
        cells = self.wait_over()
        self.assertEqual(sorted(cell["state"] for cell in cells), ["failed"] + ["succeeded"] * 11)
        failed = next(cell for cell in cells if cell["state"] == "failed")
        self.assertIn(f"{self.checkpoint}", failed["detail"])
        self.assertIsNone(failed["value"])
        view = json.loads(self.sweep("show", "toy", "--json", "--at", "last").stdout)
        self.assertEqual((view["metric"], [mean["count"] for mean in view["means"]]), ("excess", [3, 3, 3, 2, 0]))
        narrow = [cell["value"] for cell in view["cells"] if cell["coordinates"]["model.width"] == "16"]
        self.assertAlmostEqual(view["means"][0]["mean"], sum(narrow) / 3)
        self.assertGreater(view["means"][0]["deviation"], 0)
        table = self.sweep("show", "toy", "--metric", "loss").stdout
        self.assertIn("toy: 1 failed, 11 succeeded; loss of the best evaluation", table)
        self.assertIn("over training.seed", table)
        rows = self.sweep("show", "toy", "--csv").stdout.splitlines()
        self.assertEqual(rows[0], "cell,run,state,update,model.width,training.seed,training.start_from,excess")
        self.assertEqual(len(rows), 13)

        wide = next(cell["run"] for cell in cells if cell["coordinates"]["model.width"] == "40")
        self.checkpoint.symlink_to(self.folder / "server" / "runs" / wide / "checkpoints" / "update-00000020")
        again = self.sweep("submit", self.grid, "--max-restarts", 0).stdout
        self.assertIn("toy: 1 of 12 cells submitted", again)
        runs = self.control.get("/api/v1/runs?label=sweep%3Dtoy&limit=100")["items"]
        self.assertEqual((len(runs), runs[0]["labels"]["cell"]), (13, failed["cell"]))
        restarted = next(cell for cell in self.wait_over() if cell["cell"] == failed["cell"])
        self.assertEqual((restarted["run"], restarted["state"]), (runs[0]["id"], "succeeded"))
        self.assertIn("toy: 0 of 12 cells submitted; now 12 succeeded", self.sweep("submit", self.grid).stdout)

    def test_a_sweep_is_stopped_and_started_again(self) -> None:
        endless = "set: {training.stop_after: 1000000u}, grid: {training.seed: [0, 1, 2, 3, 4, 5]}"
        self.write_grid(f"{{name: toy, base: sequences.yaml, {endless}}}")
        submitted = json.loads(self.sweep("submit", self.grid, "--json").stdout)
        self.assertEqual((submitted["submitted"], submitted["max_running"]), (6, 4))
        self.assertIn("toy: stopping 6 runs", self.sweep("stop", "toy", "--now").stdout)
        self.assertEqual({cell["state"] for cell in self.wait_over()}, {"stopped"})
        again = self.sweep("submit", self.grid).stdout
        self.assertIn("toy: 0 of 6 cells submitted; now 6 stopped", again)
        self.assertIn("--stopped starts the cells again", again)
        self.assertIn("toy: 6 of 6 cells submitted", self.sweep("submit", self.grid, "--stopped").stdout)
        self.assertIn("waiting: profile mpirun-local runs at most 4 at a time", self.sweep("submit", self.grid).stdout)
        self.sweep("stop", "toy", "--now")
        self.wait_over()

    def test_a_sweep_script_trains_all_cells_and_names_failed_ones(self) -> None:
        expanded = self.sweep("expand", self.grid, "--output", self.folder / "tasks")
        self.assertIn("toy: 12 tasks, 0 left out", expanded.stdout)
        environment = dict(self.environment, PATH=f"{BIN}:{os.environ['PATH']}", **AS_ROOT)
        environment.pop("BABELRING_SERVER")
        done = subprocess.run(
            ["bash", self.folder / "tasks" / "sweep.sh"], capture_output=True, text=True, timeout=500, env=environment
        )
        self.assertEqual((done.returncode, done.stderr.splitlines()[-1]), (1, "sweep toy: failed tasks: 12"))
        for task, code in ((2, 0), (13, 2)):  # as Slurm starts the tasks of an array
            array = dict(environment, SLURM_ARRAY_TASK_ID=str(task))
            script = ["bash", self.folder / "tasks" / "sweep.sbatch", "training.log_every=1u"]
            done = subprocess.run(script, capture_output=True, text=True, timeout=500, env=array)
            self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn("tasks.tsv has no task 13", done.stderr)
        table = (self.folder / "tasks" / "tasks.tsv").read_text(encoding="utf-8").splitlines()
        self.assertEqual(table[0].split("\t")[:3], ["task", "cell", "model.width"])
        cell = table[1].split("\t")[1]
        self.assertEqual(len(self.records(f"tasks/runs/{cell}", "step")), 20)

    def test_bad_input_is_refused_in_one_line(self) -> None:
        for words, message in (
            (["show", "none"], "sweep none: no run on "),
            (["show", "toy", "--metric", "exces"], "--metric: 'exces' is no metric; did you mean 'excess'?"),
            (["stop", "none"], "no run on "),
            (["submit", self.grid, "--profile", "none"], "--profile: the server has no profile 'none'"),
        ):
            done = self.sweep(*words, code=2)
            self.assertIn(message, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.write_grid("{name: toy, base: sequences.yaml, grid: {model.width: [16, 30]}}")
        refused = self.sweep("submit", self.grid, "--strict", code=2)
        self.assertIn("--strict: cell 2 (model.width=30): ", refused.stderr)
        left_out = self.sweep("expand", self.grid, "--output", self.folder / "out")
        self.assertIn("left out: cell 2 (model.width=30): ", left_out.stderr)
        self.assertIn("toy: 1 task, 1 left out", left_out.stdout)


if __name__ == "__main__":
    unittest.main()
