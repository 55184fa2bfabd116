"""The scripts of `nmt sweep expand` with programs that stand in for mpirun and worker."""

from __future__ import annotations

import json
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from cases import FolderTest  # noqa: E402
from system import BIN, call  # noqa: E402

CONFIG = """
task: gssm
gssm:
  nodes: [{name: Z, state_dim: 4, parents: [X]}, {name: X, state_dim: 8, parents: [Z]}]
"""
GRID = "{name: toy, base: base.yaml, grid: {training.seed: [1, 2, 3, 4, 5]}}"
# Writes its arguments, and makes the run's folder as a worker does. Task 2 fails.
TRAINS = """
echo "$OMPI_ALLOW_RUN_AS_ROOT$OMPI_ALLOW_RUN_AS_ROOT_CONFIRM $*" >>"$CALLS"
while [ "$1" != --run-dir ]; do case $1 in */2.yaml) code=1 ;; esac; shift; done
mkdir -p "$2"
exit ${code:-0}
"""
REFUSES = 'echo "mpirun has detected an attempt to run as root." >&2; exit 1'


class SweepScriptTest(FolderTest):
    def setUp(self) -> None:
        super().setUp()
        self.tasks, self.programs, self.calls = (self.folder / name for name in ("tasks", "programs", "calls"))
        (self.folder / "base.yaml").write_text(CONFIG, encoding="utf-8")
        (self.folder / "grid.yaml").write_text(GRID, encoding="utf-8")
        done = self.expand(self.tasks)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.programs.mkdir()
        for name in ("bash", "tail", "awk", "mkdir"):
            (self.programs / name).symlink_to(subprocess.check_output(["which", name], text=True).strip())
        self.program("id", "echo 1000")
        self.program("worker", "exit 1")
        self.program("mpirun", TRAINS)

    def expand(self, output: Path) -> subprocess.CompletedProcess:
        return call("nmt", "sweep", "expand", self.folder / "grid.yaml", "--output", output)

    def program(self, name: str, text: str) -> None:
        file = self.programs / name
        file.write_text(f"#!/usr/bin/env bash\n{text}\n", encoding="utf-8")
        file.chmod(0o755)

    def sweep(self, script: str = "sweep.sh", **variables: str) -> tuple[int, list[str]]:
        """Exit code and lines on standard error."""
        environment = {"PATH": str(self.programs), "CALLS": str(self.calls), **variables}
        done = subprocess.run(
            ["bash", self.tasks / script, "training.log_every=1u"],
            capture_output=True,
            text=True,
            env=environment,
            timeout=300,
        )
        return done.returncode, done.stderr.splitlines()

    def commands(self) -> list[str]:
        return self.calls.read_text(encoding="utf-8").splitlines() if self.calls.exists() else []

    def test_all_tasks_are_trained_whether_or_not_the_user_is_root(self) -> None:
        failed = (1, ["sweep toy: failed tasks: 2"])
        self.assertEqual(self.sweep(), failed)
        self.assertEqual(len(self.commands()), 5)
        for task, command in enumerate(self.commands(), start=1):
            self.assertTrue(command.startswith(" -np 1 --bind-to none "), command)
            self.assertIn(f"{self.programs}/worker --config {self.tasks}/tasks/{task}.yaml --run-dir ", command)
            self.assertTrue(command.endswith(" training.log_every=1u"), command)
            self.assertIn(" --label=sweep=toy --label=cell=", command)
            self.assertIn(f" --label=training.seed={task} ", command)
        self.program("id", "echo 0")
        self.assertEqual(self.sweep(BABELRING_SERVER="http://here", BABELRING_TOKEN_FILE="/token"), failed)
        as_root = self.commands()[5:]
        self.assertEqual([command.split(" ")[0] for command in as_root], ["11"] * 5)
        self.assertIn("--server http://here --token-file /token", as_root[0])
        self.assertEqual(self.sweep("sweep.sbatch", SLURM_ARRAY_TASK_ID="3"), (0, []))
        self.assertTrue(self.commands()[-1].startswith("11 -np 1"), self.commands()[-1])
        self.assertIn(" --label=training.seed=3 ", self.commands()[-1])

    def test_options_of_slurm_are_those_of_the_grid(self) -> None:
        needs = '{time: "2:00:00", mem: 16G, gres: gpu:a100:1}'
        (self.folder / "grid.yaml").write_text(GRID.replace("grid:", f"slurm: {needs}, grid:"), encoding="utf-8")
        self.assertEqual(self.expand(self.tasks).returncode, 0)
        script = (self.tasks / "sweep.sbatch").read_text(encoding="utf-8")
        for line in ("#SBATCH --time=2:00:00", "#SBATCH --mem=16G", "#SBATCH --gres=gpu:a100:1"):
            self.assertIn(f"{line}\n", script)
        self.assertLess(script.index("--gres"), script.index("set -uo"), "Slurm reads no option behind a command")
        for wrong, line in (
            ("{tiem: 1}", "slurm: unknown option 'tiem'; did you mean 'time'?"),
            ('{mem: "1 G"}', "slurm: mem: expected a value without spaces and quotes, found '1 G'"),
        ):
            (self.folder / "grid.yaml").write_text(GRID.replace("grid:", f"slurm: {wrong}, grid:"), encoding="utf-8")
            done = self.expand(self.tasks)
            self.assertEqual(done.returncode, 2)
            self.assertIn(line, done.stderr)

    def write_spool(self, cell: str, bodies: list[dict]) -> None:
        spool = self.tasks / "runs" / cell / "spool" / "attempt-1" / "rank-0.jsonl"
        spool.parent.mkdir(parents=True)
        head = {"run": "r_" + "0" * 26, "attempt": 1, "rank": 0, "host": "a"}
        lines = [json.dumps(head | {"sequence": at + 1, "time_ms": at} | body) for at, body in enumerate(bodies)]
        spool.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def test_runs_are_shown_from_their_spools(self) -> None:
        cells = [line.split("\t")[1] for line in (self.tasks / "tasks.tsv").read_text("utf-8").splitlines()[1:]]
        step = {"kind": "step", "update": 20, "loss": 2.5, "step_ms": 100, "update_target_tokens": 640}
        loss = {"kind": "eval", "set": "valid", "entropy": 1.0}
        ends = ({"event": "finished"}, {"event": "failed", "detail": "killed"}, None)
        for number, end in enumerate(ends):
            bodies = [{"kind": "lifecycle", "event": "started"}, step]
            bodies += [loss | {"update": 10, "nll": 1.5, "loss": 1.5}]
            bodies += [loss | {"update": 20, "nll": 2.0 + number, "loss": 2.0 + number}]
            bodies += [{"kind": "eval", "set": "train", "update": 20, "nll": 0.1, "loss": 0.1}]
            bodies += [] if end is None else [{"kind": "lifecycle"} | end]
            self.write_spool(cells[number], bodies)
        show = [BIN / "nmt", "sweep", "show", self.tasks]
        shown = json.loads(subprocess.check_output([*show, "--json", "--at", "last"], text=True))
        self.assertEqual(shown["metric"], "excess")
        found = {cell["cell"]: cell for cell in shown["cells"]}
        self.assertEqual([found[cell]["state"] for cell in cells], ["succeeded", "failed", "lost", "queued", "queued"])
        self.assertEqual([found[cell]["value"] for cell in cells], [1.0, 2.0, 3.0, None, None])
        self.assertEqual(found[cells[1]]["detail"], "killed")
        self.assertEqual([found[cell]["coordinates"] for cell in cells][2], {"training.seed": "3"})
        best = json.loads(subprocess.check_output([*show, "--json"], text=True))
        self.assertEqual([(mean["cells"], mean["count"], mean["mean"]) for mean in best["means"]], [(5, 3, 0.5)])
        speed = subprocess.check_output([*show, "--csv", "--metric", "target_tokens_per_second"], text=True)
        self.assertIn(",6400\n", speed)
        text = subprocess.check_output(show, text=True)
        self.assertIn("2 queued, 1 lost, 1 failed, 1 succeeded", text)
        (self.tasks / "tasks.tsv").write_text("task\tcell\tkey\n1\tabc\n", encoding="utf-8")
        done = subprocess.run(show, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("tasks.tsv:2: expected the columns task, cell and the settings", done.stderr)

    def test_tasks_of_others_are_not_removed(self) -> None:
        self.assertEqual(self.expand(self.tasks).returncode, 0, "an earlier sweep is replaced")
        mine = self.folder / "mine" / "tasks" / "thesis.txt"
        mine.parent.mkdir(parents=True)
        mine.write_text("chapter 1", encoding="utf-8")
        done = self.expand(self.folder / "mine")
        self.assertEqual(done.returncode, 2)
        line = f"--output: {mine.parent} is there without the tasks.tsv of an earlier sweep; expected another folder"
        self.assertIn(line, done.stderr)
        self.assertTrue(mine.exists())

    def test_missing_programs_are_reported_once(self) -> None:
        for missing, line in (
            ("mpirun", "sweep toy: no mpirun in PATH; install Open MPI"),
            ("worker", "sweep toy: no worker in PATH; install Babelring, or put the folder bin of its build into PATH"),
        ):
            (self.programs / missing).unlink()
            for script in ("sweep.sh", "sweep.sbatch"):
                self.assertEqual(self.sweep(script, SLURM_ARRAY_TASK_ID="1"), (2, [line]))
        self.program("babelring-worker", "exit 1")
        self.program("mpirun", TRAINS)
        self.assertEqual(self.sweep()[0], 1)
        self.assertIn(f"{self.programs}/babelring-worker --config", self.commands()[0])

    def test_it_ends_early_if_no_task_begins_to_train(self) -> None:
        self.program("mpirun", REFUSES)
        code, lines = self.sweep()
        self.assertEqual((code, len(lines)), (2, 4), lines)
        self.assertEqual(lines[-1], "sweep toy: tasks 1 2 3 failed before they began to train; the others would, too")
        self.program("mpirun", TRAINS)
        self.assertEqual(self.sweep()[0], 1)
        self.program("mpirun", REFUSES)
        self.assertEqual(self.sweep()[1][-1], "sweep toy: failed tasks: 1 2 3 4 5", "some have trained before")


if __name__ == "__main__":
    unittest.main()
