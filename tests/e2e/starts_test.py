"""Starts that must not go wrong in silence: unlike ranks, folders that are in use, launchers that start no ranks, and starts
and ends that do not come."""

import json
import os
import re
import shutil
import signal
import subprocess
import unittest
from typing import Any

from cases import SystemTest
from system import AS_ROOT, BIN, MPIRUN, ROOT, Run, call, prepare, spool_records, wait_ended, wait_for

LONG = ["training.stop_after=1000000u", "checkpoint.every=0"]
# Sources of shared objects that answer in the place of a library of another version.
OTHER_LIBRARIES = {
    "open_mpi": """
#include <string.h>
int MPI_Get_library_version(char* version, int* length) {
  strcpy(version, "Open MPI v99.0.7, package: another");
  *length = (int)strlen(version);
  return 0;
}
""",
    "onednn": """
struct version { int major, minor, patch; const char* hash; unsigned cpu_runtime, gpu_runtime; };
const struct version* dnnl_version(void) {
  static const struct version another = {99, 7, 2, "", 0, 0};
  return &another;
}
""",
}


class HelpTest(unittest.TestCase):
    def test_the_document_of_all_keys_is_that_of_the_help(self) -> None:
        script = ROOT / "scripts/configuration_docs.py"
        done = subprocess.run([script, BIN / "worker", "--check"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class StartsTest(SystemTest):
    def run_file(self, name: str = "run") -> dict:
        return json.loads((self.folder / name / "run.json").read_text(encoding="utf-8"))

    def start_by_shell(self, script: str, ranks: int = 2, **more: Any) -> Run:
        """A run whose ranks the shell script starts, as "$@"."""
        return self.start_run(launcher=[*MPIRUN, "-np", str(ranks), "sh", "-c", script, "sh"], **more)

    def test_ranks_with_different_data_are_refused_before_the_run_begins(self) -> None:
        for name in ("a", "b"):
            shutil.copytree(self.prepared, self.folder / name / "ids")
        shutil.rmtree(self.folder / "b" / "ids")
        for language in ("en", "de"):
            lines = (self.base / f"toy1.{language}").read_text(encoding="utf-8").splitlines(keepends=True)
            (self.folder / f"less.{language}").write_text("".join(lines[:-100]), encoding="utf-8")
        less, valid = (
            [folder / f"{name}.{side}" for side in ("en", "de")]
            for folder, name in ((self.folder, "less"), (self.base, "toy2"))
        )
        prepare(self.folder / "b" / "ids", less, valid, "--vocabulary", self.prepared / "spm.model")
        # One program: mpirun of Debian's Open MPI 5.0.7 crashes when it is to start several.
        own_folder = f'cd {self.folder}/$([ "$OMPI_COMM_WORLD_RANK" = 0 ] && echo a || echo b) && exec "$@"'
        run = self.start_by_shell(own_folder, overrides=["data.folder=ids"])
        self.assertNotEqual(run.wait(), 0)
        self.assertRegex(
            run.text(),
            r"error: the ranks differ: rank 0 \(host \S+\) has training set [0-9a-f]{12}…, rank 1 "
            r"\(host \S+\) has [0-9a-f]{12}…; every rank needs the same data.folder, of one `nmt prepare`",
        )
        self.assertEqual(len(run.error_lines()), 1, run.text())
        self.assertFalse((self.folder / "run").exists())
        prepare(
            self.folder / "b" / "beside", less, less, "--keep-held-out", "--vocabulary", self.prepared / "spm.model"
        )
        shutil.copytree(self.prepared, self.folder / "a" / "beside")
        run = self.start_by_shell(own_folder, name="beside", overrides=["validation.other_sets=general=beside"])
        self.assertNotEqual(run.wait(), 0)
        self.assertRegex(
            run.text(),
            r"error: the ranks differ: rank 0 \(host \S+\) has validation set general [0-9a-f]{12}…, rank 1 "
            r"\(host \S+\) has [0-9a-f]{12}…; every rank needs the same folder beside",
        )

    def test_ranks_with_other_kernels_are_refused(self) -> None:
        run = self.start_by_shell(
            'export DNNL_MAX_CPU_ISA=$([ "$OMPI_COMM_WORLD_RANK" = 1 ] && echo SSE41 || echo AVX); exec "$@"'
        )
        self.assertNotEqual(run.wait(), 0)
        self.assertRegex(
            run.text(),
            r"rank 0 \(host \S+\) has kernels .*oneDNN \S+ avx, rank 1 \(host \S+\) has .* sse4.1; "
            "every rank needs the same instruction sets",
        )

    def start_with_another(self, library: str, **more: Any) -> Run:
        """Two ranks, of which the second finds another version of the library."""
        source = self.folder / f"{library}.c"
        source.write_text(OTHER_LIBRARIES[library], encoding="utf-8")
        preloaded = f'[ "$OMPI_COMM_WORLD_RANK" = 1 ] && export LD_PRELOAD={self.library(source)}; exec "$@"'
        return self.start_by_shell(preloaded, **more)

    def test_ranks_with_another_open_mpi_are_refused(self) -> None:
        run = self.start_with_another("open_mpi")
        self.assertNotEqual(run.wait(), 0)
        self.assertRegex(
            run.text(),
            r"rank 0 \(host \S+\) has Open MPI [0-9.]+, rank 1 \(host \S+\) has 99\.0\.7; "
            "every rank needs the same version of Open MPI",
        )
        self.assertEqual(len(run.error_lines()), 1, run.text())
        self.assertFalse((self.folder / "run").exists())

    def test_ranks_with_another_onednn_are_refused_unless_allowed(self) -> None:
        run = self.start_with_another("onednn")
        self.assertNotEqual(run.wait(), 0)
        difference = r"rank 0 \(host \S+\) has oneDNN [0-9.]+, rank 1 \(host \S+\) has 99\.7\.2; "
        self.assertRegex(run.text(), difference + "every rank needs the same version of oneDNN")
        self.assertEqual(len(run.error_lines()), 1, run.text())
        self.assertFalse((self.folder / "run").exists())

        overrides = ["communication.mixed_onednn=true", "training.stop_after=3u"]
        allowed = self.start_with_another("onednn", name="allowed", overrides=overrides)
        self.assertEqual(allowed.wait(), 0, allowed.text())
        self.assertRegex(allowed.text(), difference + "communication.mixed_onednn allows it")
        self.assertEqual(allowed.text().count("communication.mixed_onednn allows it"), 1, allowed.text())
        libraries = [one["libraries"] for one in self.records("allowed", "lifecycle") if one["event"] == "rank_up"]
        self.assertNotEqual(libraries[0]["onednn"], "99.7.2")
        self.assertEqual(self.run_file("allowed")["libraries"], libraries[0])
        self.assertEqual(set(libraries[0]), {"onednn", "open_mpi", "sentencepiece", "glibc"})
        report = json.loads((self.folder / "allowed" / "report.json").read_text(encoding="utf-8"))
        self.assertEqual(report["environment"]["libraries"]["onednn"], f"{libraries[0]['onednn']} / 99.7.2")

    def test_a_second_start_is_refused_and_taking_over_ends_the_first(self) -> None:
        first = self.start_run(overrides=[LONG[0], "checkpoint.every=5u"])
        pids = self.wait_steps(first)
        second = self.start_run(overrides=LONG)
        self.assertNotEqual(second.wait(), 0)
        text = second.text()
        self.assertRegex(
            text,
            rf"run folder {self.folder}/run: process {pids[0]} on \S+ trains there: stop it first, or start "
            "with --take-over",
        )
        self.wait_steps(first)
        self.assertEqual(self.run_file()["attempt"], 1)
        third = self.start_run(overrides=["--take-over", *LONG])
        self.assertNotEqual(first.wait(), 0)
        wait_for("the second attempt", lambda: (self.folder / "run/spool/attempt-2/rank-0.jsonl").exists())
        # One log for all.
        self.assertRegex(
            third.text(), "attempt 1 is over: (attempt 2 has started|another worker has taken over its folder)"
        )
        self.wait_steps(third)
        os.kill(third.process.pid, signal.SIGUSR1)
        self.assertEqual(third.wait(), 0, third.text())
        self.assertEqual(self.run_file()["attempt"], 2)

    def test_one_of_two_simultaneous_starts_trains(self) -> None:
        runs = [self.start_run(overrides=LONG, ranks=1) for _ in range(2)]
        wait_for("a refusal", lambda: any(run.ended() for run in runs))
        going = [run for run in runs if not run.ended()]
        self.assertEqual(len(going), 1, runs[0].text())
        self.wait_steps(going[0])
        self.assertEqual(self.run_file()["attempt"], 1)
        ids = {
            record["run"] for file in (self.folder / "run/spool").glob("*/*.jsonl") for record in spool_records(file)
        }
        self.assertEqual(ids, {self.run_file()["run"]})

    def test_a_killed_worker_leaves_no_lock(self) -> None:
        run = self.start_run(overrides=LONG)
        os.kill(self.wait_steps(run)[0], signal.SIGKILL)
        self.assertNotEqual(run.wait(), 0)
        self.finish_run(overrides=["training.stop_after=10u"])

    def test_a_launcher_that_starts_no_ranks_is_refused(self) -> None:
        for variables, hint in (
            ({"SLURM_NTASKS": "2", "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "0"}, "srun --mpi=pmix worker"),
            ({"PMI_RANK": "0", "PMI_SIZE": "2"}, "mpirun -np 2 worker"),
            ({"WORLD_SIZE": "2", "RANK": "0"}, "mpirun -np 2 worker"),
        ):
            words = ["--config", self.config, "--run-dir", self.folder / "run"]
            done = call("worker", *words, env=os.environ | variables | AS_ROOT)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(
                done.stderr, r"error: \S+=2 promises 2 ranks, but MPI has 1: each process would train by itself"
            )
            self.assertIn(hint, done.stderr)
        self.assertFalse((self.folder / "run").exists())

    def test_mpirun_decides_within_a_larger_allocation(self) -> None:
        larger = ["env", "SLURM_NTASKS=8", "WORLD_SIZE=8", *MPIRUN, "-np", "2"]
        run = self.finish_run(launcher=larger, overrides=["training.stop_after=3u"])
        self.assertIn("2 ranks on", run.text())

    def test_a_rank_stopped_before_mpi_init_ends_all(self) -> None:
        stopped = 'if [ "$OMPI_COMM_WORLD_RANK" = 2 ]; then kill -STOP $$; fi; exec "$@"'
        run = self.start_by_shell(stopped, 3, overrides=["communication.deadline_s=3"])
        self.assertNotEqual(run.wait(), 0)
        self.assertRegex(
            run.text(),
            r"error: rank [01] on \S+: MPI_Init has not returned within 3 s: another rank or its host was "
            r"not started, is stopped or cannot be reached \(communication.deadline_s=N",
        )

    def test_a_killed_mpirun_leaves_a_line_in_the_log(self) -> None:
        run = self.start_run(overrides=LONG)
        pids = self.wait_steps(run)
        run.process.kill()
        wait_ended(pids)
        lines = [record["text"] for record in self.records("run", "log", 1)]
        self.assertTrue(
            any(re.search(rf"process {run.process.pid}, which started this rank .* is gone", line) for line in lines),
            lines,
        )

    def test_a_failure_of_rank_zero_is_the_only_error(self) -> None:
        (self.folder / "run").write_text("no folder", encoding="utf-8")
        run = self.start_run(overrides=["training.stop_after=3u"])
        self.assertNotEqual(run.wait(), 0)
        self.assertEqual(len(run.error_lines()), 1, run.text())
        self.assertIn("/run: cannot create it", run.error_lines()[0])

    def test_sigusr2_changes_nothing(self) -> None:
        run = self.start_run(overrides=LONG)
        os.kill(self.wait_steps(run)[1], signal.SIGUSR2)
        wait_for("the warning", lambda: "SIGUSR2 is ignored, training continues" in run.text())
        self.wait_steps(run)
        os.kill(run.process.pid, signal.SIGUSR1)
        self.assertEqual(run.wait(), 0, run.text())


if __name__ == "__main__":
    unittest.main()
