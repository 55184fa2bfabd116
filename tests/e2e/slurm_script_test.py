"""deploy/slurm/train.sbatch and the job arrays of `nmt sweep expand` on a Slurm that the test starts."""

import os
import subprocess
import unittest

from system import AS_ROOT, BIN, ROOT, call, wait_for
from slurm_test import SlurmCase


class ScriptCase(SlurmCase):
    """deploy/slurm/train.sbatch."""

    server_type = None
    script = ROOT / "deploy/slurm/train.sbatch"

    def setUp(self) -> None:
        super().setUp()
        self.environment = self.slurm.env | AS_ROOT | {"PATH": f"{BIN}:{os.environ['PATH']}"}

    def sbatch(self, options: list[str], *overrides: str, run: str = "run") -> str:
        """The number of the job."""
        command = ["sbatch", "--parsable", f"--output={self.folder}/job-%j.log", *options, self.script, self.config]
        done = subprocess.run(
            [*map(str, command), self.folder / run, *overrides], env=self.environment, capture_output=True, text=True
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        job = done.stdout.strip()
        self.addCleanup(self.slurm.say, "scancel", "--full", "--signal=KILL", job)
        return job

    def show(self, job: str) -> str:
        return self.slurm.say("scontrol", "show", "job", job)

    def wait_completed(self, job: str) -> None:
        wait_for(f"the end of job {job}", lambda: "JobState=COMPLETED" in self.show(job), 300)

    def starts(self, job: str) -> bool:
        """Whether a requeued job runs. Slurm itself would wait for two minutes."""
        self.slurm.say("scontrol", "update", f"JobId={job}", "StartTime=now")
        return "JobState=PENDING" not in self.show(job) and "JobState=COMPLETING" not in self.show(job)

    def updates(self, run: str = "run") -> dict[int, str]:
        """Digests of the weights by update."""
        return {step["update"]: step["weights_digest"] for step in self.steps(run)}


class ScriptTest(ScriptCase):
    def test_a_job_saves_is_requeued_and_continues_with_the_same_bits(self) -> None:
        job = self.sbatch(["--ntasks-per-node=2"], "training.stop_after=200u")
        wait_for("some updates", lambda: (self.folder / "run").exists() and len(self.updates()) > 25)
        self.slurm.say("scancel", "--batch", "--signal=USR1", job)  # as before the time limit
        wait_for("the requeued job", lambda: "Restarts=1" in self.show(job))
        self.assertIn("saved before the time limit", (self.folder / f"job-{job}.log").read_text(encoding="utf-8"))
        first = max(self.updates())
        self.assertLess(first, 200)
        wait_for("the job's new start", lambda: self.starts(job))
        self.wait_completed(job)
        calm = self.sbatch(["--ntasks-per-node=2"], "training.stop_after=200u", run="calm")
        self.wait_completed(calm)
        self.assertEqual(max(self.updates()), 200)
        self.assertEqual(self.updates(), self.updates("calm"))

    def test_a_preempted_job_saves_and_continues_with_the_same_bits(self) -> None:
        keys = ["training.stop_after=100000u", "checkpoint.every=0"]  # saved at the preemption alone
        job = self.sbatch(["--ntasks-per-node=2"], *keys)
        wait_for("some updates", lambda: (self.folder / "run").exists() and len(self.updates()) > 25)
        urgent = self.sbatch(["--ntasks-per-node=1", "--partition=urgent"], "training.stop_after=5u", run="urgent")
        self.wait_completed(urgent)
        saved = max(self.updates())
        wait_for("the job's new start", lambda: self.starts(job))
        wait_for("an update more", lambda: max(self.updates()) > saved)
        self.assertIn("Restarts=1", self.show(job))
        self.slurm.say("scancel", "--batch", "--signal=TERM", job)
        wait_for("the job's end", lambda: "JobState=RUNNING" not in self.show(job))
        updates = [step["update"] for step in self.steps()]
        self.assertEqual(updates, list(range(1, len(updates) + 1)), "none is repeated")
        calm = self.sbatch(
            ["--ntasks-per-node=2"], f"training.stop_after={len(updates)}u", "checkpoint.every=0", run="calm"
        )
        self.wait_completed(calm)
        self.assertEqual(self.updates(), self.updates("calm"))

    def test_a_time_limit_below_the_lead_of_the_signal_is_refused(self) -> None:
        job = self.sbatch(["--ntasks-per-node=1", "--time=00:02:00"], "training.stop_after=5u")
        wait_for("the job's end", lambda: "JobState=FAILED" in self.show(job))
        self.assertIn("ExitCode=2:0", self.show(job))
        log = (self.folder / f"job-{job}.log").read_text(encoding="utf-8")
        self.assertIn(
            "found a time limit of 120 s, expected more than the 120 s by which --signal comes before it", log
        )
        self.assertFalse((self.folder / "run").exists())

    def test_an_array_is_a_sweep(self) -> None:
        sweep = self.folder / "sweep.txt"
        sweep.write_text("training.seed=7\ntraining.seed=8 optimizer.learning_rate=0.001\n", encoding="utf-8")
        self.environment["BABELRING_SWEEP"] = str(sweep)
        job = self.sbatch(["--array=1-2", "--ntasks-per-node=1"], "training.stop_after=5u", run="sweep")
        for task in ("1", "2"):
            self.wait_completed(f"{job}_{task}")
            self.assertEqual(len(self.steps(f"sweep/{task}")), 5)
        self.assertNotEqual(self.updates("sweep/1"), self.updates("sweep/2"))

    def test_the_array_of_an_expanded_sweep(self) -> None:
        grid, folder = self.folder / "grid.yaml", self.folder / "expanded sweep"
        grid.write_text(
            f"{{name: toy, base: {self.config}, set: {{training.stop_after: 5u}}, grid: {{training.seed: [7, 8]}}}}"
        )
        call("nmt", "sweep", "expand", grid, "--output", folder, check=True)
        done = subprocess.run(
            ["sbatch", "--parsable", folder / "sweep.sbatch", "training.log_every=1u"],
            env=self.environment,
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.addCleanup(self.slurm.say, "scancel", "--full", "--signal=KILL", done.stdout.strip())
        cells = [line.split("\t")[1] for line in (folder / "tasks.tsv").read_text(encoding="utf-8").splitlines()[1:]]
        for task, cell in enumerate(cells, start=1):
            self.wait_completed(f"{done.stdout.strip()}_{task}")
            self.assertEqual(len(self.steps(f"expanded sweep/runs/{cell}")), 5)
            self.assertIn("finished: 5u", (folder / "logs" / f"{task}.log").read_text(encoding="utf-8"))
        self.assertEqual(len(cells), 2)

    def test_wrong_usage_is_reported(self) -> None:
        done = subprocess.run(["bash", self.script, "only"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr.split(":")[0]), (2, "usage"))


class TwoNodeScriptTest(ScriptCase):
    nodes = 2

    def test_a_job_spans_both_nodes(self) -> None:
        job = self.sbatch(["--nodes=2", "--ntasks-per-node=1"], "training.stop_after=5u")
        self.wait_completed(job)
        self.assertIn("NumNodes=2", self.show(job))
        self.assertEqual([len(self.steps("run", rank)) for rank in (0, 1)], [5, 5])


if __name__ == "__main__":
    unittest.main()
