"""Programs, hosts and files that die, stop or go away."""

import os
import signal
import subprocess
import unittest
from pathlib import Path

from system import SystemTest, is_running, wait_for

STARTS_MPIRUN = Path(__file__).resolve().parents[2] / "deploy/babelring-mpirun"
LONG = ["training.stop_after=1000000u", "checkpoint.every=0"]


class FaultsTest(SystemTest):
    def started(self, run, updates: int = 5):
        wait_for("first updates", lambda: run.process.poll() is not None or len(self.steps()) >= updates)
        self.assertIsNone(run.process.poll(), run.text())
        return run.rank_pids()

    def steps(self, rank: int = 0) -> list:
        return self.records("run", "step", rank)

    def test_killed_rank_ends_all_with_its_name(self) -> None:
        run = self.start_run(ranks=3, overrides=LONG)
        pids = self.started(run)
        os.kill(pids[1], signal.SIGKILL)
        self.assertNotEqual(run.wait(), 0)
        wait_for("end of all ranks", lambda: not any(map(is_running, pids)))
        self.assertRegex(run.text(), r"rank 1\b.*|process rank 1 ")

    def test_stopped_rank_ends_all_within_the_deadline(self) -> None:
        run = self.start_run(ranks=2, overrides=[*LONG, "communication.deadline_s=10"])
        pids = self.started(run)
        os.kill(pids[1], signal.SIGSTOP)
        self.assertNotEqual(run.wait(), 0)
        wait_for("end of all ranks", lambda: not any(map(is_running, pids)))
        message = [line for line in run.text().splitlines() if "error" in line]
        self.assertTrue(any("rank 1" in line and "(collective " in line for line in message), run.text())

    def test_terminate_saves_and_ends_well_and_the_run_goes_on(self) -> None:
        for stop in (signal.SIGTERM, signal.SIGINT):
            run = self.start_run(overrides=LONG)
            before = len(self.steps())
            wait_for("updates", lambda: run.process.poll() is not None or len(self.steps()) >= before + 5)
            os.kill(run.rank_pids()[0], stop)
            self.assertEqual(run.wait(), 0, run.text())
        updates = [step["update"] for step in self.records("run", "step")]
        self.assertEqual(updates, list(range(1, len(updates) + 1)))

    def test_the_script_that_starts_mpirun_lets_ranks_save_after_each_signal(self) -> None:
        for stop in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            run = self.start_run(overrides=LONG, program=STARTS_MPIRUN)
            before = len(self.steps())
            wait_for("updates", lambda: run.process.poll() is not None or len(self.steps()) >= before + 5)
            run.process.send_signal(stop)
            self.assertEqual(run.wait(), 0, run.text())
        updates = [step["update"] for step in self.records("run", "step")]
        self.assertEqual(updates, list(range(1, len(updates) + 1)))

    def test_a_second_signal_to_that_script_ends_ranks_that_cannot_save(self) -> None:
        run = self.start_run(overrides=LONG, program=STARTS_MPIRUN)
        wait_for("updates", lambda: run.process.poll() is not None or len(self.steps()) >= 5)
        [mpirun] = run.pids()
        ranks = list(map(int, Path(f"/proc/{mpirun}/task/{mpirun}/children").read_text().split()))
        for rank in ranks:
            os.kill(rank, signal.SIGSTOP)
        for _ in range(2):
            run.process.send_signal(signal.SIGTERM)
            wait_for("the script's line", lambda: "a second signal ends them at once" in run.text())
        self.assertNotEqual(run.wait(), 0)
        wait_for("end of all ranks", lambda: not any(map(is_running, ranks)))

    def test_exit_code_0_of_mpirun_alone_is_no_success(self) -> None:
        """Open MPI 5 exits 0 when it has lost a host. The mpirun here writes what it is told to run.json."""
        folder = self.folder / "run"
        (self.folder / "bin").mkdir()
        folder.mkdir()
        mpirun = self.folder / "bin/mpirun"
        mpirun.write_text(
            '#!/bin/sh\n[ -z "$SAYS" ] || echo "$SAYS" > "$RUN/run.json"\nenv > "$RUN/environment"\n', encoding="utf-8"
        )
        mpirun.chmod(0o755)

        def ended(says: str, *words: str) -> subprocess.CompletedProcess:
            return subprocess.run(
                [STARTS_MPIRUN, "worker", *(words or ("--run-dir", str(folder)))],
                env={
                    **os.environ,
                    "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
                    "SAYS": says,
                    "RUN": str(folder),
                    "OMPI_MCA_plm_rsh_agent": "/bin/agent",
                    "OMPI_MCA_oob_tcp_if_include": "lo",
                    "OMPI_MCA_orte_default_hostfile": "/hosts",
                },
                capture_output=True,
                text=True,
                check=False,
            )

        lost = ended('{"run":"r_1","attempt":1,"host":"a"}')
        self.assertEqual(lost.returncode, 1)
        self.assertIn(f"rank 0 did not say in {folder}/run.json that training ended", lost.stderr)
        finished = ended('{"run":"r_1","attempt":1,"host":"a","end":"finished","detail":"done"}')
        self.assertEqual((finished.returncode, finished.stderr), (0, ""))
        self.assertEqual(ended("", f"--run-dir={folder}").returncode, 1, "no attempt began")
        self.assertEqual(ended("", "--config", "x").returncode, 0, "without a folder there is nothing to ask")
        variables = (folder / "environment").read_text(encoding="utf-8").splitlines()
        for twin in ("plm_ssh_agent=/bin/agent", "oob_tcp_if_include=lo", "prte_default_hostfile=/hosts"):
            self.assertIn(f"PRTE_MCA_{twin}", variables)

    def masks(self, pid: int) -> list[tuple[int, int]]:
        """Blocked and handled signals of each thread."""
        found = []
        for task in Path(f"/proc/{pid}/task").iterdir():
            fields = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)
            found.append((int(fields["SigBlk"], 16), int(fields["SigCgt"], 16)))
        return found

    def test_no_computing_thread_runs_a_handler_and_signals_still_end_with_a_checkpoint(self) -> None:
        ours = sum(1 << (number - 1) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1))
        for stop, held_by_mpirun in ((signal.SIGTERM, set()), (signal.SIGUSR1, {signal.SIGUSR1})):
            before = signal.pthread_sigmask(signal.SIG_BLOCK, held_by_mpirun)  # which mpirun inherits
            run = self.start_run(overrides=[*LONG, "training.threads=2"])
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            steps = len(self.steps())
            wait_for("updates", lambda: run.process.poll() is not None or len(self.steps()) >= steps + 5)
            pids = run.rank_pids()
            for pid in pids:
                threads = self.masks(pid)
                self.assertGreater(len(threads), 3, "main, OpenMP, MPI, the one that takes signals")
                self.assertEqual(
                    [caught & ours for _, caught in threads if caught & ours], [], "a handler is installed"
                )
                # The rank that waits for them holds none back meanwhile, every other rank all three.
                self.assertEqual(sorted({held & ours for held, _ in threads}), [0, ours])
                self.assertEqual(len([held for held, _ in threads if held & ours == 0]), 1)
            os.kill(pids[1], stop)
            self.assertEqual(run.wait(), 0, run.text())
            newest = max((self.folder / "run" / "checkpoints").glob("update-*")).name
            self.assertEqual(int(newest.split("-")[1]), self.steps()[-1]["update"], "it was saved where it stopped")

    def test_server_killed_in_the_middle_misses_and_doubles_nothing(self) -> None:
        server = self.server()
        run = self.start_run(server=server.address, overrides=LONG)
        self.started(run, 50)
        run_id = wait_for("the run", lambda: server.get("/api/v1/runs")["items"])[0]["id"]
        server.kill()
        before = len(self.steps())
        self.started(run, before + 100)  # trains on without it
        server.start()
        wait_for("what was trained meanwhile", lambda: server.get(f"/api/v1/runs/{run_id}")["update"] > before)
        os.kill(run.rank_pids()[0], signal.SIGTERM)
        self.assertEqual(run.wait(), 0, run.text())
        trained = len(self.steps())
        for rank in (0, 1):
            series = server.get(f"/api/v1/runs/{run_id}/metrics/nll?agg=raw&rank={rank}&points=100000")
            self.assertEqual(series["step"], list(range(1, trained + 1)))

    def test_training_without_its_server_sends_everything_later(self) -> None:
        server = self.server()
        server.kill()
        run = self.start_run(server=server.address, overrides=["training.stop_after=30u"])
        self.assertEqual(run.wait(), 0, run.text())
        server.start()
        run = self.start_run(server=server.address, overrides=["training.stop_after=40u"])
        self.assertEqual(run.wait(), 0, run.text())
        run_id = server.get("/api/v1/runs")["items"][0]["id"]
        series = server.get(f"/api/v1/runs/{run_id}/metrics/loss?agg=raw&rank=1&points=1000")
        self.assertEqual(series["step"], list(range(1, 41)))

    def test_refused_token_keeps_the_records_until_a_good_one_comes(self) -> None:
        server = self.server()
        wrong = self.folder / "wrong.token"
        wrong.write_text("bbr_wrong\n", encoding="utf-8")
        run = self.start_run(server=server.address, overrides=["training.stop_after=10u"], token_file=wrong)
        self.assertEqual(run.wait(), 0, run.text())
        # Once for the host. At the end a rank that it served may have tried by itself.
        self.assertIn(run.text().count("answered 401"), (1, 2), run.text())
        self.assertIn("--token-file FILE", run.text())
        self.assertEqual(server.get("/api/v1/runs")["items"], [])
        run = self.start_run(server=server.address, overrides=["training.stop_after=20u"])
        self.assertEqual(run.wait(), 0, run.text())
        run_id = server.get("/api/v1/runs")["items"][0]["id"]
        for rank in (0, 1):
            series = server.get(f"/api/v1/runs/{run_id}/metrics/loss?agg=raw&rank={rank}&points=1000")
            self.assertEqual(series["step"], list(range(1, 21)))


if __name__ == "__main__":
    unittest.main()
